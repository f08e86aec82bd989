//! Questions to the provisioner: what-ifs over all its replicas, what it believes about nodes, and the one order, for
//! replacements, to its leader.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use consolidation::search::Question;
use model::price::MicroDollars;
use proto::provisioner::v1 as pb;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::types::v1 as types;
use runtime::grpc::{Caller, Peers};
use tonic::Status;

use crate::metrics::Metrics;
use crate::simulation::{Simulate, is_about_a_node, request};

/// Simulations of a large cluster take a while; nothing waits for a stream but the look that asked.
const STREAM: Duration = Duration::from_secs(300);
/// A share that a replica leaves unanswered is sent to the others at most this often.
const ROUNDS: usize = 3;
/// A snapshot with all nodes of a large cluster.
const LARGEST_ANSWER: usize = 256 << 20;

/// What the provisioner's leader believes about a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// `None` where it cannot be priced.
    pub(crate) price: Option<MicroDollars>,
    /// Whether its EC2NodeClass has its instance type, apart from any price; `None` when nothing is known of the class.
    pub(crate) type_known: Option<bool>,
    /// A pending pod was just sent there.
    pub(crate) nominated: bool,
    /// Placeholders of capacity buffers stand on it.
    pub(crate) holds_buffers: bool,
}

/// All that the provisioner's leader tells about the cluster as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// By Node name.
    pub(crate) nodes: HashMap<Arc<str>, Seen>,
    /// The placement group of each EC2NodeClass, `None` where it has none.
    pub(crate) groups: HashMap<Arc<str>, Option<Arc<str>>>,
    /// Version of prices and offerings.
    pub(crate) catalogue: u64,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Probes {
    peers: Peers,
    metrics: Metrics,
    /// No what-if is answered from a state without the NodeClaims in this version.
    claims_version: u64,
}

impl Probes {
    pub(crate) fn new(peers: Peers, metrics: Metrics) -> Self {
        Self { peers, metrics, claims_version: 0 }
    }

    /// What was written on NodeClaims up to this version is part of every answer.
    pub(crate) fn not_older_than(&self, claims_version: u64) -> Self {
        Self { claims_version, ..self.clone() }
    }

    fn client(caller: Caller) -> ProvisionerClient<Caller> {
        ProvisionerClient::new(caller).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<pb::SimulateResponse, Status> {
        self.metrics.probes.inc();
        let mut client = Self::client(self.peers.any().deadline(STREAM));
        Ok(client.simulate(request(question, self.claims_version)).await?.into_inner())
    }

    /// All at once, spread over the replicas that are there: every replica works on its share of one stream. One answer for
    /// each question, in order.
    async fn ask_many(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<pb::SimulateResponse, String>>, Status> {
        let ask = |replica: Option<String>, share| {
            let caller = replica.map_or_else(|| self.peers.any(), |name| self.peers.replica(&name));
            self.stream(caller, share, questions)
        };
        spread(questions.len(), || self.peers.replicas(), ask).await
    }

    async fn stream(
        &self,
        caller: Caller,
        share: Vec<usize>,
        questions: &[Question],
    ) -> Share<Result<pb::SimulateResponse, String>> {
        let asked: Vec<pb::SimulateManyRequest> = share
            .iter()
            .map(|&index| pb::SimulateManyRequest {
                id: index as u64,
                request: Some(request(&questions[index], self.claims_version)),
            })
            .collect();
        self.metrics.probes.inc_by(asked.len() as u64);
        let mut got = Vec::with_capacity(asked.len());
        let end = async {
            let mut client = Self::client(caller.deadline(STREAM));
            let mut answers = client.simulate_many(futures::stream::iter(asked)).await?.into_inner();
            while let Some(answer) = answers.message().await? {
                let Ok(index) = usize::try_from(answer.id) else { continue };
                if index < questions.len() {
                    got.push((index, answer.response.ok_or(answer.error)));
                }
            }
            Ok(())
        };
        let end = end.await;
        (got, end)
    }

    /// Prices, nominations, placement groups.
    pub(crate) async fn told(&self) -> Result<Told, Status> {
        let mut client = Self::client(self.peers.leader());
        let request = pb::GetSnapshotRequest { with_nodes: true, with_pending: false };
        let answer = client.get_snapshot(request).await?.into_inner();
        if !answer.synced {
            return Err(Status::unavailable("the provisioner has not seen the whole cluster yet"));
        }
        let ours = answer.node_summaries.into_iter().filter(|node| !node.node_claim.is_empty());
        let seen = |node: pb::NodeSummary| {
            let price = node.offering.as_ref().map(|offering| offering.micro_usd_per_hour);
            let seen = Seen {
                price: price.filter(|price| *price > 0).map(MicroDollars::new),
                type_known: node.type_known,
                nominated: node.nominated,
                holds_buffers: node.holds_buffers,
            };
            (Arc::from(node.name), seen)
        };
        let group = |class: pb::NodeClassSummary| {
            let group = Some(class.placement_group_id).filter(|id| !id.is_empty());
            (Arc::from(class.name), group.map(Arc::from))
        };
        Ok(Told {
            nodes: ours.map(seen).collect(),
            groups: answer.node_classes.into_iter().map(group).collect(),
            catalogue: answer.snapshot.map_or(0, |snapshot| snapshot.catalog_version),
        })
    }

    /// Idempotent by `command`.
    pub(crate) async fn replace(
        &self,
        request: pb::CreateReplacementsRequest,
    ) -> Result<Vec<types::ObjectRef>, Status> {
        let mut client = Self::client(self.peers.leader());
        Ok(client.create_replacements(request).await?.into_inner().node_claims)
    }
}

/// What one replica answered of its share, by the number of the question, and how its stream ended.
type Share<T> = (Vec<(usize, T)>, Result<(), Status>);

/// So many questions, each asked of one of the replicas; what a replica that went away left open is asked of the others. Without
/// replicas that are known by name, `ask` chooses one.
async fn spread<T, F>(
    count: usize,
    replicas: impl Fn() -> Vec<String>,
    ask: impl Fn(Option<String>, Vec<usize>) -> F,
) -> Result<Vec<T>, Status>
where
    F: Future<Output = Share<T>>,
{
    let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut failed: Option<Status> = None;
    // Replicas that did not answer all of their share: the others get what is left of it.
    let mut silent: BTreeSet<String> = BTreeSet::new();
    for _ in 0..ROUNDS {
        let open: Vec<usize> = (0..count).filter(|&index| answers[index].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let able: Vec<String> = replicas().into_iter().filter(|name| !silent.contains(name)).collect();
        let able: Vec<Option<String>> =
            if able.is_empty() { vec![None] } else { able.into_iter().map(Some).collect() };
        let streams = able.iter().enumerate().map(|(turn, name)| {
            let share: Vec<usize> = open.iter().copied().skip(turn).step_by(able.len()).collect();
            let (asked, answer) = (share.len(), ask(name.clone(), share));
            async move { (name, asked, answer.await) }
        });
        for (name, asked, (got, end)) in futures::future::join_all(streams).await {
            if got.len() < asked {
                silent.extend(name.clone());
            }
            for (index, answer) in got {
                answers[index] = Some(answer);
            }
            failed = end.err().or(failed);
        }
    }
    if answers.iter().any(Option::is_none) {
        return Err(failed.unwrap_or_else(|| Status::unavailable("the provisioner left what-ifs unanswered")));
    }
    Ok(answers.into_iter().flatten().collect())
}

impl Simulate for Probes {
    /// A single question goes to any replica, several are spread over all.
    async fn simulate(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<pb::SimulateResponse, String>>, Status> {
        let [question] = questions else { return self.ask_many(questions).await };
        match self.ask(question).await {
            Ok(answer) => Ok(vec![Ok(answer)]),
            Err(status) if is_about_a_node(&status) => Ok(vec![Err(status.message().to_owned())]),
            Err(status) => Err(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Numbers doubled by two replicas, of which one answers only so many of each share.
    async fn doubled(answers_of_b: usize) -> (Result<Vec<usize>, Status>, Vec<(Option<String>, Vec<usize>)>) {
        let asked = Mutex::new(Vec::new());
        let ask = |replica: Option<String>, share: Vec<usize>| {
            asked.lock().unwrap().push((replica.clone(), share.clone()));
            async move {
                let dead = replica.as_deref() == Some("b");
                let most = if dead { answers_of_b } else { usize::MAX };
                let end = if dead { Err(Status::unavailable("b is gone")) } else { Ok(()) };
                (share.into_iter().take(most).map(|number| (number, number * 2)).collect(), end)
            }
        };
        let found = spread(6, || vec!["a".to_owned(), "b".to_owned()], ask).await;
        (found, asked.into_inner().unwrap())
    }

    #[tokio::test]
    async fn the_share_of_a_replica_that_died_is_asked_of_the_others() {
        let (found, asked) = doubled(1).await;
        assert_eq!(found.unwrap(), [0, 2, 4, 6, 8, 10], "in the order of the questions");
        let [a, b] = ["a", "b"].map(|name| Some(name.to_owned()));
        // It answered one of its three; only the other two are asked again, and not of it.
        let shares = [(a.clone(), vec![0, 2, 4]), (b, vec![1, 3, 5]), (a, vec![3, 5])];
        assert_eq!(asked, shares);
    }

    #[tokio::test]
    async fn where_no_replica_answers_the_last_failure_is_told() {
        let asked = Mutex::new(0);
        let ask = |_: Option<String>, _: Vec<usize>| {
            *asked.lock().unwrap() += 1;
            async { (Vec::<(usize, usize)>::new(), Err(Status::unavailable("nobody is there"))) }
        };
        let found = spread(2, Vec::new, ask).await;
        assert_eq!(found.unwrap_err().message(), "nobody is there");
        assert_eq!(*asked.lock().unwrap(), ROUNDS, "a bounded number of times");
    }
}
