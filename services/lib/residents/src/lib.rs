//! Bound pods and PodDisruptionBudgets, from Kubernetes objects to what `policy` judges. Shared by the services that remove
//! nodes, so that both see the same pod the same way. No API calls, no decisions.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ResourceRequirements, Toleration as ApiToleration};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as ApiSelector, ObjectMeta};
use model::catalog::LabelMap;
use model::do_not_disrupt::DoNotDisrupt;
use model::labels;
use model::pod::{LabelSelector, SelectorOperator, SelectorRequirement};
use model::quantity::Quantity;
use model::taint::{Taint, Toleration};
use policy::drain;
use policy::drain::pdb::Pdb;
use policy::drain::pod::{Deletion, Owner, Phase, Size};

const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Label maps shared among the pods of a workload: with thousands of pods they would be most of the memory.
#[derive(Default)]
pub struct Labels(HashSet<Arc<LabelMap>>);

impl Labels {
    fn shared(&mut self, labels: Option<&LabelMap>) -> Arc<LabelMap> {
        let labels = labels.cloned().unwrap_or_default();
        if let Some(known) = self.0.get(&labels) {
            return Arc::clone(known);
        }
        let new = Arc::new(labels);
        self.0.insert(Arc::clone(&new));
        // Now and then, so that churn of workloads does not add up.
        if self.0.len().is_power_of_two() && self.0.len() > 1024 {
            self.forget_unused();
        }
        new
    }

    pub fn forget_unused(&mut self) {
        self.0.retain(|labels| Arc::strong_count(labels) > 1);
    }
}

/// The few fields of a Pod that count, for those who read pods without the rest.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    pub node_name: Option<&'a str>,
    pub priority_class_name: Option<&'a str>,
    pub priority: Option<i32>,
    /// From [`size`].
    pub size: Size,
    pub grace_seconds: Option<i64>,
    pub tolerations: &'a [ApiToleration],
    pub volumes: Vec<Volume<'a>>,
    pub phase: Option<&'a str>,
    pub started: Option<Timestamp>,
    /// Status of its Ready condition.
    pub ready: Option<&'a str>,
}

/// A volume of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    pub name: &'a str,
    /// Name of the PersistentVolumeClaim it stands for.
    pub claim: Option<&'a str>,
    /// A generic ephemeral one: its claim is named after pod and volume.
    pub ephemeral: bool,
}

/// What the containers request together; what cannot be read counts as nothing.
pub fn size<'a>(containers: impl Iterator<Item = Option<&'a ResourceRequirements>>) -> Size {
    let mut total = Size::default();
    for requests in containers.filter_map(|resources| resources?.requests.as_ref()) {
        let amount = |name: &str| requests.get(name).and_then(|text| text.0.parse::<Quantity>().ok());
        let (cpu, memory) = (amount("cpu").unwrap_or_default(), amount("memory").unwrap_or_default());
        total.cpu_milli = total.cpu_milli.saturating_add(cpu.milli_ceil());
        total.memory_bytes = total.memory_bytes.saturating_add(memory.value_ceil());
    }
    total
}

/// A bound pod and its node.
pub fn pod(pod: &Pod, shared: &mut Labels) -> Option<(Arc<str>, drain::Pod)> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
    let ready = status
        .and_then(|status| status.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready"));
    let volumes = spec.volumes.iter().flatten().map(|volume| Volume {
        name: &volume.name,
        claim: volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.as_str()),
        ephemeral: volume.ephemeral.is_some(),
    });
    let fields = Fields {
        node_name: spec.node_name.as_deref(),
        priority_class_name: spec.priority_class_name.as_deref(),
        priority: spec.priority,
        size: size(spec.containers.iter().map(|container| container.resources.as_ref())),
        grace_seconds: spec.termination_grace_period_seconds,
        tolerations: spec.tolerations.as_deref().unwrap_or_default(),
        volumes: volumes.collect(),
        phase: status.and_then(|status| status.phase.as_deref()),
        started: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
        ready: ready.map(|condition| condition.status.as_str()),
    };
    resident(&pod.metadata, &fields, shared)
}

/// The same of a pod that was read without the rest.
pub fn resident(
    meta: &ObjectMeta,
    fields: &Fields<'_>,
    shared: &mut Labels,
) -> Option<(Arc<str>, drain::Pod)> {
    let node = fields.node_name.filter(|name| !name.is_empty())?;
    let name = meta.name.as_deref()?;
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let owned_by = |api: &str, kind: &str| owners.iter().any(|o| o.api_version == api && o.kind == kind);
    let annotation =
        meta.annotations.as_ref().and_then(|annotations| annotations.get(labels::DO_NOT_DISRUPT));
    let tolerations: Vec<Toleration> = fields.tolerations.iter().filter_map(toleration).collect();
    let claims = fields.volumes.iter().filter_map(|volume| {
        let named = volume.claim.map(Arc::from);
        named.or_else(|| volume.ephemeral.then(|| format!("{name}-{}", volume.name).into()))
    });
    let state = drain::Pod {
        namespace: meta.namespace.as_deref().unwrap_or("default").into(),
        name: name.into(),
        uid: meta.uid.as_deref()?.into(),
        labels: shared.shared(meta.labels.as_ref()),
        owner: if owned_by("apps/v1", "DaemonSet") {
            Owner::Daemon
        } else if owned_by("v1", "Node") {
            Owner::Node
        } else {
            Owner::Other
        },
        priority: fields.priority.unwrap_or(0),
        size: fields.size,
        critical: matches!(
            fields.priority_class_name,
            Some("system-cluster-critical" | "system-node-critical")
        ),
        phase: match fields.phase {
            Some("Succeeded" | "Failed") => Phase::Done,
            Some("Pending") => Phase::Pending,
            _ => Phase::Running,
        },
        unhealthy: fields.ready == Some("False"),
        deletion: meta.deletion_timestamp.as_ref().map(|ends| Deletion {
            ends: ends.0,
            grace_seconds: meta.deletion_grace_period_seconds.unwrap_or(0),
        }),
        grace_seconds: fields.grace_seconds.unwrap_or(DEFAULT_GRACE_SECONDS),
        started: fields.started,
        do_not_disrupt: DoNotDisrupt::parse(annotation.map(String::as_str)),
        tolerates_disrupted: Taint::disrupted().is_tolerated_by(&tolerations),
        volume_claims: claims.collect(),
    };
    Some((node.into(), state))
}

/// One that nobody can read tolerates nothing.
fn toleration(from: &ApiToleration) -> Option<Toleration> {
    Some(Toleration {
        key: from.key.clone().unwrap_or_default(),
        operator: from.operator.as_deref().unwrap_or_default().parse().ok()?,
        value: from.value.clone().unwrap_or_default(),
        effect: match from.effect.as_deref().filter(|effect| !effect.is_empty()) {
            None => None,
            Some(effect) => Some(effect.parse().ok()?),
        },
        toleration_seconds: from.toleration_seconds,
    })
}

pub fn pdb(pdb: &PodDisruptionBudget) -> Option<Pdb> {
    let spec = pdb.spec.as_ref()?;
    let status = pdb.status.as_ref();
    Some(Pdb {
        namespace: pdb.metadata.namespace.as_deref()?.into(),
        name: pdb.metadata.name.as_deref()?.into(),
        selector: spec.selector.as_ref().map(selector),
        unhealthy_always: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        allowed: status.map_or(0, |status| status.disruptions_allowed),
        healthy: status.map_or(0, |status| status.current_healthy),
        desired: status.map_or(0, |status| status.desired_healthy),
        expected: status.map_or(0, |status| status.expected_pods),
    })
}

fn selector(from: &ApiSelector) -> LabelSelector {
    let equal = from.match_labels.iter().flatten().map(|(key, value)| SelectorRequirement::is(key, value));
    let expressions = from.match_expressions.iter().flatten().map(|expression| SelectorRequirement {
        key: expression.key.clone(),
        operator: match expression.operator.as_str() {
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            // The API server lets no other in; without values it would match nothing.
            _ => SelectorOperator::In,
        },
        values: expression.values.clone().unwrap_or_default(),
    });
    LabelSelector { requirements: equal.chain(expressions).collect() }
}
