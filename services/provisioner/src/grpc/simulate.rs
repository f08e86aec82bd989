//! What would happen if some nodes went and some pods came.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::convert::{self, At, PodContext};
use consolidation::what_if;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use model::node::NodeState;
use model::pod::Pod;
use model::price::MicroDollars;
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use runtime::Settings;
use runtime::grpc::errors;
use rustc_hash::FxHashMap;
use solver::{Change, Effort, NodeId, Options, PodRef, Snapshot};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{limits, wire};
use crate::cluster::{ClusterView, NodeView};
use crate::deps::Deps;
use crate::schedule;

/// A question that could be read.
pub(super) struct Question {
    remove: Vec<String>,
    added: Vec<core::Pod>,
    purpose: pb::SimulationPurpose,
    limit: Duration,
    below: Option<MicroDollars>,
}

impl Question {
    pub(super) fn read(request: pb::SimulateRequest) -> Result<Self, Status> {
        limits::check("remove_nodes", request.remove_nodes.len(), limits::REMOVED_NODES)?;
        limits::check("add_pods_json", request.add_pods_json.len(), limits::ADDED_PODS)?;
        let parse = |(index, text): (usize, &String)| {
            serde_json::from_str(text)
                .map_err(|error| errors::invalid(&format!("add_pods_json[{index}]"), error.to_string()))
        };
        Ok(Self {
            added: request.add_pods_json.iter().enumerate().map(parse).collect::<Result<_, _>>()?,
            purpose: pb::SimulationPurpose::try_from(request.purpose).unwrap_or_default(),
            limit: wire::limit(request.solve_limit.as_ref())?,
            below: (request.replacement_below_micro_usd > 0)
                .then(|| MicroDollars::new(request.replacement_below_micro_usd)),
            remove: request.remove_nodes,
        })
    }

    fn options(&self, settings: &Settings) -> Options {
        let consolidation =
            matches!(self.purpose, pb::SimulationPurpose::Unspecified | pb::SimulationPurpose::Consolidation);
        Options {
            effort: Effort::Quick,
            protect_settling: consolidation,
            // A lost instance leaves no choice; what is on its way is better than nothing.
            distrust_uninitialized: self.purpose != pb::SimulationPurpose::Interruption,
            // The answer leaves them out.
            report_pending: false,
            ..schedule::options(settings)
        }
    }
}

/// A pod of a request as if it were pending in this cluster.
pub(super) fn pending(
    object: &core::Pod,
    storage: &dyn convert::Storage,
    field: &str,
) -> Result<Pod, Status> {
    let mut object = object.clone();
    let spec = object.spec.get_or_insert_default();
    spec.node_name = None;
    let root = At::Root;
    let converted =
        convert::pod_spec(object.metadata.labels.as_ref(), spec, None, &|_| None, &root.key("spec"))
            .map_err(|invalid| errors::invalid(field, format!("{}: {}", invalid.path, invalid.problem)))?;
    let context = PodContext { storage, budgets: &[], now: Timestamp::now() };
    let mut pod = convert::pod(&object, Arc::new(converted), &context)
        .map_err(|error| errors::invalid(field, error.to_string()))?;
    if pod.uid.is_empty() {
        pod.uid = Arc::clone(&pod.name);
    }
    Ok(pod)
}

/// The view with the question's pods in it. Pods that ask for something this snapshot was not compiled for need a new one.
pub(super) async fn with_added(
    view: Arc<ClusterView>,
    question: &Question,
) -> Result<Arc<ClusterView>, Status> {
    if question.added.is_empty() {
        return Ok(view);
    }
    let read = |(index, object): (usize, &core::Pod)| {
        pending(object, &*view.storage, &format!("add_pods_json[{index}]"))
    };
    let pods: Vec<Pod> = question.added.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let changes: Vec<Change> = pods.iter().cloned().map(Change::PodAdded).collect();
    let snapshot = match view.snapshot.apply(&changes) {
        Ok(snapshot) => snapshot,
        Err(solver::NeedsRebuild) => {
            let known = Arc::clone(&view);
            let build = move |_: &CancellationToken| {
                let mut input = known.input();
                input.pods.extend(pods);
                Snapshot::build(input)
            };
            super::computed(build).await?
        }
    };
    Ok(Arc::new(ClusterView { snapshot, ..(*view).clone() }))
}

fn ids(view: &ClusterView, names: &[String]) -> Result<Vec<NodeId>, Status> {
    let mut ids = Vec::with_capacity(names.len());
    let of_claims = LazyCell::new(|| -> FxHashMap<&str, &Arc<NodeView>> {
        view.nodes.values().filter_map(|n| Some((n.node.claim.as_deref()?, n))).collect()
    });
    for name in names {
        let known = view.nodes.get(name.as_str());
        let by_claim = || of_claims.get(name.as_str()).copied();
        let node = known.or_else(by_claim).ok_or_else(|| errors::not_found("node or NodeClaim", name))?;
        if node.node.state == NodeState::Deleting {
            let message = format!("node {name} is on its way out already; ask again without it");
            return Err(errors::status(
                Code::FailedPrecondition,
                "NODE_LEAVING",
                message,
                [("node", name.clone())],
            ));
        }
        let id = view.snapshot.node_id(&node.node.name);
        ids.push(id.ok_or_else(|| errors::not_found("node", name))?);
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

pub(super) fn answer(
    view: &ClusterView,
    question: &Question,
    settings: &Settings,
    replica: &str,
    gone: &CancellationToken,
) -> Result<pb::SimulateResponse, Status> {
    let remove = ids(view, &question.remove)?;
    let deadline = Instant::now() + question.limit;
    let options = question.options(settings);
    let keep_going = || Instant::now() < deadline && !gone.is_cancelled();
    let what_if::Simulated { plan, displaced } =
        what_if::simulate(&view.snapshot, &remove, question.below, &view.usable_pools, &options, &keep_going);
    let names: Vec<&str> = remove.iter().map(|id| &**view.snapshot.node_name(*id)).collect();
    let uids = wire::Uids::of(view, names);
    let waited = |pod: &PodRef| {
        let key = (&pod.namespace, &pod.name);
        view.is_placeholder(pod)
            || view.pending.binary_search_by(|p| (&p.namespace, &p.name).cmp(&key)).is_ok()
    };
    let removed: Option<MicroDollars> = remove.iter().map(|id| view.snapshot.node_price(*id)).sum();
    let placement = |node: &solver::ExistingNode, pod: &PodRef| types::Placement {
        pod: Some(uids.pod(pod)),
        node: node.node.to_string(),
    };
    let planned = |(index, node): (usize, &solver::NewNode)| {
        let mut wire = wire::planned(node, index, &uids);
        if question.below.is_some() {
            let worst = consolidation::worst_prices(node, &view.usable_pools);
            wire.worst_micro_usd_per_hour = worst.into_iter().map(MicroDollars::get).collect();
            wire.min_values = wire::min_values(node, &view.usable_pools);
        }
        wire
    };
    Ok(pb::SimulateResponse {
        snapshot: Some(wire::version(view, replica)),
        new_nodes: plan.new_nodes.iter().enumerate().map(planned).collect(),
        placements: plan
            .existing
            .iter()
            .flat_map(|n| n.pods.iter().filter(|p| !waited(p)).map(move |p| (n, p)))
            .map(|(n, p)| placement(n, p))
            .collect(),
        // A pod that had no place before must not speak against a change.
        unschedulable: plan
            .unschedulable
            .iter()
            .filter(|left| !waited(&left.pod))
            .map(|left| wire::unschedulable(left, &uids))
            .collect(),
        removed_micro_usd_per_hour: removed.map(MicroDollars::get),
        added_micro_usd_per_hour: plan.new_nodes.iter().map(|n| n.launch.price.get()).sum(),
        not_reached: plan.unreached.iter().map(|p| uids.pod(p)).collect(),
        displaced: displaced.iter().map(|p| uids.pod(p)).collect(),
    })
}

/// One question of a stream. What is wrong with it is said in its answer: the others go on.
pub(super) async fn one_of_many(
    view: Arc<ClusterView>,
    deps: Deps,
    asked: pb::SimulateManyRequest,
) -> Result<pb::SimulateManyResponse, Status> {
    let id = asked.id;
    let outcome = async {
        let request = asked.request.ok_or_else(|| errors::invalid("request", "is missing"))?;
        let question = Question::read(request)?;
        let view = with_added(view, &question).await?;
        super::computed(move |gone| answer(&view, &question, &deps.settings, &deps.replica, gone)).await?
    };
    Ok(match outcome.await {
        Ok(response) => pb::SimulateManyResponse { id, response: Some(response), error: String::new() },
        Err(status) => pb::SimulateManyResponse { id, response: None, error: status.message().to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_refused_beyond_the_limits_of_its_lists() {
        let read = |remove: usize, add: usize| {
            Question::read(pb::SimulateRequest {
                remove_nodes: vec![String::new(); remove],
                add_pods_json: vec!["{}".to_owned(); add],
                ..pb::SimulateRequest::default()
            })
        };
        assert!(read(10_000, 2).is_ok());
        for (remove, add, field) in
            [(limits::REMOVED_NODES + 1, 0, "remove_nodes"), (0, limits::ADDED_PODS + 1, "add_pods_json")]
        {
            let status = read(remove, add).err().expect("refused");
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().starts_with(&format!("{field}: ")), "{status}");
            assert!(status.message().contains("limit of 50000"), "{status}");
        }
    }
}
