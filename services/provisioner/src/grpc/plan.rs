//! A plan for another cluster than this one: with NodePools, workloads, DaemonSets or NodeOverlays changed, added or left out.
//! Changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::conditions::{ConditionSet, Finding};
use api::convert::{self, overlay};
use api::{NodeOverlay, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use model::pod::LabelSelector as Selector;
use model::pool::ClusterInput;
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use runtime::grpc::errors;
use serde::de::DeserializeOwned;
use serde_json::Value;
use solver::{Effort, Options, Snapshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{consolidate, limits, simulate, wire};
use crate::catalog::Offer;
use crate::cluster::{ClusterView, RemovalFacts, usable_pools};
use crate::deps::Deps;
use crate::schedule;

/// What is to be different.
pub(super) struct Change {
    objects: Vec<Object>,
    leave_out: Vec<(String, Option<String>, String)>,
    limit: Duration,
    pub(super) consolidate: bool,
}

#[expect(clippy::large_enum_variant, reason = "a handful in one request")]
enum Object {
    Pool(Box<NodePool>),
    Overlay(Box<NodeOverlay>),
    Daemons(Box<DaemonSet>),
    Namespace(Box<Namespace>),
    Pod(Box<Pod>),
    /// Pods of one template; those that the selector finds in the cluster count towards the replicas.
    Workload {
        meta: ObjectMeta,
        selector: Option<LabelSelector>,
        replicas: i32,
        template: Box<PodTemplateSpec>,
        claim_templates: Vec<PersistentVolumeClaim>,
    },
}

/// Kinds that can be left out.
const REMOVABLE: [&str; 5] = ["NodePool", "Node", "Pod", "DaemonSet", "NodeOverlay"];

impl Change {
    pub(super) fn read(request: pb::PlanRequest) -> Result<Self, Status> {
        limits::check("objects_json", request.objects_json.len(), limits::OBJECTS)?;
        limits::check("remove_objects", request.remove_objects.len(), limits::OBJECTS)?;
        let mut objects = Vec::new();
        for (index, text) in request.objects_json.iter().enumerate() {
            objects.push(object(text, &format!("objects_json[{index}]"))?);
        }
        let replicas = |object: &Object| match object {
            Object::Workload { replicas, .. } => usize::try_from(*replicas).unwrap_or(0),
            _ => 0,
        };
        if objects.iter().map(replicas).sum::<usize>() > limits::REPLICAS {
            let why = format!("workloads of a plan have at most {} replicas together", limits::REPLICAS);
            return Err(errors::invalid("objects_json", why));
        }
        let mut leave_out = Vec::new();
        for (index, name) in request.remove_objects.iter().enumerate() {
            let parts: Vec<&str> = name.split('/').collect();
            let (kind, namespace, name) = match parts[..] {
                [kind, name] => (kind, None, name),
                [kind, namespace, name] => (kind, Some(namespace.to_owned()), name),
                _ => {
                    return Err(errors::invalid(
                        &format!("remove_objects[{index}]"),
                        "write kind/name or kind/namespace/name",
                    ));
                }
            };
            let Some(kind) = REMOVABLE.into_iter().find(|k| k.eq_ignore_ascii_case(kind)) else {
                let why = format!("{kind} cannot be left out; {} can", REMOVABLE.join(", "));
                return Err(errors::invalid(&format!("remove_objects[{index}]"), why));
            };
            leave_out.push((kind.to_owned(), namespace, name.to_owned()));
        }
        let limit = wire::limit(request.solve_limit.as_ref())?;
        Ok(Self { objects, leave_out, limit, consolidate: request.consolidate })
    }

    fn leaves_out<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (Option<&'a str>, &'a str)> {
        let same = move |(k, _, _): &&(String, Option<String>, String)| k == kind;
        self.leave_out.iter().filter(same).map(|(_, namespace, name)| (namespace.as_deref(), name.as_str()))
    }
}

fn object(text: &str, field: &str) -> Result<Object, Status> {
    fn typed<T: DeserializeOwned>(value: Value, field: &str) -> Result<T, Status> {
        serde_json::from_value(value).map_err(|error| errors::invalid(field, error.to_string()))
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| errors::invalid(field, error.to_string()))?;
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    Ok(match kind.as_str() {
        "NodePool" => Object::Pool(typed(value, field)?),
        "NodeOverlay" => Object::Overlay(typed(value, field)?),
        "DaemonSet" => Object::Daemons(typed(value, field)?),
        "Namespace" => Object::Namespace(typed(value, field)?),
        "Pod" => Object::Pod(typed(value, field)?),
        "Deployment" => {
            let own: Deployment = typed(value, field)?;
            let spec = own.spec.unwrap_or_default();
            workload(own.metadata, Some(spec.selector), spec.replicas, spec.template, Vec::new())
        }
        "ReplicaSet" => {
            let own: ReplicaSet = typed(value, field)?;
            let spec = own.spec.unwrap_or_default();
            let template = spec.template.unwrap_or_default();
            workload(own.metadata, Some(spec.selector), spec.replicas, template, Vec::new())
        }
        "StatefulSet" => {
            let own: StatefulSet = typed(value, field)?;
            let spec = own.spec.unwrap_or_default();
            let claims = spec.volume_claim_templates.unwrap_or_default();
            workload(own.metadata, Some(spec.selector), spec.replicas, spec.template, claims)
        }
        "Job" => {
            let own: Job = typed(value, field)?;
            let spec = own.spec.unwrap_or_default();
            workload(own.metadata, spec.selector, spec.parallelism, spec.template, Vec::new())
        }
        other => {
            let known = "NodePool, NodeOverlay, DaemonSet, Namespace, Pod, Deployment, ReplicaSet, StatefulSet and Job";
            return Err(errors::invalid(
                field,
                format!("kind {other:?} means nothing to a plan; {known} do"),
            ));
        }
    })
}

fn workload(
    meta: ObjectMeta,
    selector: Option<LabelSelector>,
    replicas: Option<i32>,
    template: PodTemplateSpec,
    claim_templates: Vec<PersistentVolumeClaim>,
) -> Object {
    let (replicas, template) = (replicas.unwrap_or(1), Box::new(template));
    Object::Workload { meta, selector, replicas, template, claim_templates }
}

pub(super) fn answer(
    view: &ClusterView,
    offer: &Offer,
    change: &Change,
    holding: Option<RemovalFacts>,
    deps: &Deps,
    gone: &CancellationToken,
) -> Result<pb::PlanResponse, Status> {
    let mut input = view.input();
    let objects = pool_objects(view, offer, change)?;
    input.pools = usable_pools(&objects, &overlaid(offer, change, &objects)?, &view.held_reservations);
    for (namespace, name) in change.leaves_out("Pod") {
        let namespace = namespace.unwrap_or("default");
        input.pods.retain(|p| *p.namespace != *namespace || *p.name != *name);
    }
    for (_, name) in change.leaves_out("Node") {
        let own = view.nodes.get(name).ok_or_else(|| errors::not_found("node", name))?;
        remove_node(&mut input, &own.node.name);
    }
    for (namespace, name) in change.leaves_out("DaemonSet") {
        let namespace = namespace.unwrap_or("default");
        input.daemon_sets.retain(|d| *d.namespace != *namespace || *d.name != *name);
    }
    for (index, object) in change.objects.iter().enumerate() {
        apply(&mut input, object, view, &format!("objects_json[{index}]"))?;
    }
    let deadline = Instant::now() + change.limit;
    let options = Options { effort: Effort::Full, ..schedule::options(&deps.settings) };
    let keep_going = || Instant::now() < deadline && !gone.is_cancelled();
    let later = holding.map(|holding| (input.clone(), holding));
    let plan = solver::solve(&Snapshot::build(input), &options, &keep_going);
    let spot_to_spot = deps.settings.feature_gates.spot_to_spot_consolidation;
    let consolidation = later.map(|(input, holding)| {
        let rest = consolidate::rest(objects, holding, spot_to_spot);
        consolidate::wire(&::consolidation::run(input, &rest, &plan, &options, &keep_going), view)
    });
    let uids = wire::Uids::of(view, []);
    Ok(pb::PlanResponse {
        snapshot: Some(wire::version(view, &deps.replica)),
        new_nodes: plan.new_nodes.iter().enumerate().map(|(i, n)| wire::planned(n, i, &uids)).collect(),
        placements: plan
            .existing
            .iter()
            .flat_map(|n| {
                n.pods.iter().map(|p| types::Placement { pod: Some(uids.pod(p)), node: n.node.to_string() })
            })
            .collect(),
        unschedulable: plan.unschedulable.iter().map(|left| wire::unschedulable(left, &uids)).collect(),
        micro_usd_per_hour: plan.cost.get(),
        lower_bound_micro_usd_per_hour: plan.lower_bound.map(|b| b.get()),
        consolidation,
    })
}

/// The pools of the cluster with those of the question among them, which count as ready.
fn pool_objects(
    view: &ClusterView,
    offer: &Offer,
    change: &Change,
) -> Result<BTreeMap<String, Arc<NodePool>>, Status> {
    let mut all: BTreeMap<String, Arc<NodePool>> = (*view.pool_objects).clone();
    for (_, name) in change.leaves_out("NodePool") {
        all.remove(name).ok_or_else(|| errors::not_found("NodePool", name))?;
    }
    for object in &change.objects {
        let Object::Pool(pool) = object else { continue };
        let class = &pool.spec.template.spec.node_class_ref.name;
        if !offer.types.contains_key(class.as_str()) {
            return Err(errors::not_found("EC2NodeClass", class));
        }
        let mut pool = pool.clone();
        let now = Timestamp::now();
        let mut conditions = Vec::new();
        for type_ in ConditionSet::NODE_POOL.dependents() {
            ConditionSet::NODE_POOL.set(&mut conditions, &pool.metadata, type_, Finding::holds(), now);
        }
        pool.status.get_or_insert_default().conditions = Some(conditions);
        all.insert(pool.metadata.name.clone().unwrap_or_default(), Arc::new(*pool));
    }
    Ok(all)
}

/// What is on offer with the overlays and NodePools of the question.
fn overlaid(
    offer: &Offer,
    change: &Change,
    pools: &BTreeMap<String, Arc<NodePool>>,
) -> Result<Offer, Status> {
    let mut overlays: Vec<overlay::Overlay> = (*offer.overlays).clone();
    for (_, name) in change.leaves_out("NodeOverlay") {
        overlays.retain(|o| *o.name != *name);
    }
    for (index, object) in change.objects.iter().enumerate() {
        let Object::Overlay(own) = object else { continue };
        let read = overlay::overlay(own)
            .map_err(|error| errors::invalid(&format!("objects_json[{index}]"), error.to_string()))?;
        overlays.retain(|o| o.name != read.name);
        overlays.push(read);
    }
    Ok(offer.clone().with_overlays(overlays, pools))
}

/// The node goes; pods that can be moved are pending then.
fn remove_node(input: &mut ClusterInput, name: &Arc<str>) {
    input.nodes.retain(|n| n.name != *name);
    input.pods.retain_mut(|pod| {
        if pod.node.as_ref() != Some(name) {
            return true;
        }
        pod.node = None;
        pod.reschedulable
    });
}

fn apply(input: &mut ClusterInput, object: &Object, view: &ClusterView, field: &str) -> Result<(), Status> {
    match object {
        Object::Pool(_) | Object::Overlay(_) => {}
        Object::Namespace(own) => {
            let name = own.metadata.name.clone().unwrap_or_default();
            input.namespaces.insert(name, own.metadata.labels.clone().unwrap_or_default());
        }
        Object::Daemons(own) => {
            let set = convert::daemon_set(own, None, &|_| None)
                .map_err(|e| errors::invalid(field, e.to_string()))?;
            input.daemon_sets.retain(|d| (&d.namespace, &d.name) != (&set.namespace, &set.name));
            input.daemon_sets.push(set);
        }
        Object::Pod(own) => {
            let pod = simulate::pending(own, &*view.storage, field)?;
            input.pods.retain(|p| (&p.namespace, &p.name) != (&pod.namespace, &pod.name));
            input.pods.push(pod);
        }
        Object::Workload { meta, selector, replicas, template, claim_templates } => {
            let mut own = Pod {
                metadata: template.metadata.clone().unwrap_or_default(),
                spec: template.spec.clone(),
                status: None,
            };
            own.metadata.namespace = meta.namespace.clone().or_else(|| Some("default".to_owned()));
            own.metadata.name = meta.name.clone();
            let like = simulate::pending(&own, &*view.storage, field)?;
            let found = convert::label_selector(selector.as_ref(), &convert::At::Root)
                .map_err(|invalid| errors::invalid(field, invalid.problem))?;
            let wanted = usize::try_from(*replicas).unwrap_or(0);
            let there = scale_down(input, &like.namespace, found.as_ref(), wanted);
            let has_own_claims = convert::has_own_claims(&own, claim_templates);
            for number in there..wanted {
                let name = format!("{}-{number}", like.name);
                input.pods.push(if has_own_claims {
                    let (pod, claims) = convert::replica(&own, claim_templates, &name);
                    simulate::pending(&pod, &convert::WithClaims::new(&*view.storage, claims), field)?
                } else {
                    let name: Arc<str> = Arc::from(name);
                    model::pod::Pod { uid: Arc::clone(&name), name, ..like.clone() }
                });
            }
        }
    }
    Ok(())
}

/// Of more pods than wanted those without a node go first. Returns how many the selector finds.
fn scale_down(
    input: &mut ClusterInput,
    namespace: &Arc<str>,
    selector: Option<&Selector>,
    wanted: usize,
) -> usize {
    let is_its = |p: &model::pod::Pod| {
        p.namespace == *namespace && !p.daemon && selector.is_some_and(|s| s.matches(&p.spec.labels))
    };
    let there = input.pods.iter().filter(|p| is_its(p)).count();
    let mut too_many = there.saturating_sub(wanted);
    for bound in [false, true] {
        input.pods.retain(|p| {
            let goes = too_many > 0 && is_its(p) && p.node.is_some() == bound;
            too_many -= usize::from(goes);
            !goes
        });
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_of_all_workloads_together_are_bounded() {
        let deployment = |replicas: i64| {
            serde_json::json!({
                "kind": "Deployment", "metadata": {"name": "a"},
                "spec": {"replicas": replicas, "selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            })
            .to_string()
        };
        let read = |objects_json: Vec<String>| {
            Change::read(pb::PlanRequest { objects_json, ..pb::PlanRequest::default() })
        };
        assert!(read(vec![deployment(50_000), deployment(-1)]).is_ok());
        for refused in [vec![deployment(i64::from(i32::MAX))], vec![deployment(30_000), deployment(30_000)]] {
            let status = read(refused).err().expect("refused");
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        }
    }

    #[test]
    fn a_plan_is_refused_beyond_the_limits_of_its_lists() {
        let read = |objects: usize, removed: usize| {
            Change::read(pb::PlanRequest {
                objects_json: vec![r#"{"kind": "Pod", "spec": {"containers": []}}"#.to_owned(); objects],
                remove_objects: vec!["Pod/a".to_owned(); removed],
                ..pb::PlanRequest::default()
            })
        };
        assert!(read(100, 10_000).is_ok());
        for (objects, removed, field) in
            [(limits::OBJECTS + 1, 0, "objects_json"), (0, limits::OBJECTS + 1, "remove_objects")]
        {
            let status = read(objects, removed).err().expect("refused");
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().starts_with(&format!("{field}: ")), "{status}");
            assert!(status.message().contains("limit of 50000"), "{status}");
        }
    }
}
