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
}

impl Probes {
    pub(crate) fn new(peers: Peers, metrics: Metrics) -> Self {
        Self { peers, metrics }
    }

    fn client(caller: Caller) -> ProvisionerClient<Caller> {
        ProvisionerClient::new(caller).max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<pb::SimulateResponse, Status> {
        self.metrics.probes.inc();
        let mut client = Self::client(self.peers.any().deadline(STREAM));
        Ok(client.simulate(request(question)).await?.into_inner())
    }

    /// All at once, spread over the replicas that are there: every replica works on its share of one stream. One answer for
    /// each question, in order. What a replica that went away left open is asked of the others.
    async fn ask_many(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<pb::SimulateResponse, String>>, Status> {
        let mut answers: Vec<Option<Result<pb::SimulateResponse, String>>> = vec![None; questions.len()];
        let mut failed: Option<Status> = None;
        // Replicas that did not answer all of their share: the others get what is left of it.
        let mut silent: BTreeSet<String> = BTreeSet::new();
        for _ in 0..ROUNDS {
            let open: Vec<usize> = (0..questions.len()).filter(|&index| answers[index].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let known = self.peers.replicas();
            let replicas: Vec<&String> = known.iter().filter(|name| !silent.contains(*name)).collect();
            let callers: Vec<(Option<&String>, Caller)> = if replicas.is_empty() {
                vec![(None, self.peers.any())]
            } else {
                replicas.into_iter().map(|name| (Some(name), self.peers.replica(name))).collect()
            };
            let count = callers.len();
            let streams = callers.into_iter().enumerate().map(|(turn, (name, caller))| {
                let share: Vec<usize> = open.iter().copied().skip(turn).step_by(count).collect();
                async move { (name, share.len(), self.stream(caller, share, questions).await) }
            });
            for (name, asked, (got, end)) in futures::future::join_all(streams).await {
                if got.len() < asked {
                    silent.extend(name.cloned());
                }
                for (index, answer) in got {
                    answers[index] = Some(answer);
                }
                failed = end.err().or(failed);
            }
        }
        if answers.iter().any(Option::is_none) {
            return Err(
                failed.unwrap_or_else(|| Status::unavailable("the provisioner left what-ifs unanswered"))
            );
        }
        Ok(answers.into_iter().flatten().collect())
    }

    async fn stream(
        &self,
        caller: Caller,
        share: Vec<usize>,
        questions: &[Question],
    ) -> (Vec<(usize, Result<pb::SimulateResponse, String>)>, Result<(), Status>) {
        let asked: Vec<pb::SimulateManyRequest> = share
            .iter()
            .map(|&index| pb::SimulateManyRequest {
                id: index as u64,
                request: Some(request(&questions[index])),
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
