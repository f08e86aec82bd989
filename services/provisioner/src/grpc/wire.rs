//! Between the model and the wire, both ways. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::catalog::CapacityType;
use model::pool::NodePool;
use model::requirement::{Entry, Operator, Requirement};
use model::requirements::Requirements;
use model::resources::Resources;
use proto::types::v1 as types;
use runtime::grpc::errors;
use solver::{Explanation, NewNode, PodRef};
use tonic::Status;

use crate::cluster::ClusterView;

pub(super) fn version(view: &ClusterView, replica: &str) -> types::SnapshotVersion {
    types::SnapshotVersion {
        version: view.version,
        replica: replica.to_owned(),
        at: Some(timestamp(view.at)),
        catalog_version: view.catalog_version,
    }
}

pub(super) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

/// The minimums of flexibility of a planned node, for the caller that narrows its types further.
pub(super) fn min_values(node: &NewNode, pools: &[NodePool]) -> Vec<types::MinValues> {
    let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { return Vec::new() };
    let values = |values: BTreeSet<String>| types::LabelValues { values: values.into_iter().collect() };
    consolidation::min_values(node, pool)
        .into_iter()
        .map(|demand| types::MinValues {
            key: demand.key,
            wanted: u32::try_from(demand.wanted).unwrap_or(u32::MAX),
            by_type: demand.values.into_iter().map(values).collect(),
        })
        .collect()
}

pub(super) fn resources(amounts: &Resources) -> types::Resources {
    let quantities = amounts.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect();
    types::Resources { quantities }
}

pub(super) fn read_resources(wire: &types::Resources, field: &str) -> Result<Resources, Status> {
    let read = |(name, text): (&String, &String)| match text.parse() {
        Ok(amount) => Ok((name.clone(), amount)),
        Err(error) => Err(errors::invalid(&format!("{field}[{name}]"), format!("{error}"))),
    };
    wire.quantities.iter().map(read).collect()
}

pub(super) fn capacity_type(kind: CapacityType) -> types::CapacityType {
    match kind {
        CapacityType::Reserved => types::CapacityType::Reserved,
        CapacityType::Spot => types::CapacityType::Spot,
        CapacityType::OnDemand => types::CapacityType::OnDemand,
    }
}

fn operator(operator: Operator) -> types::Operator {
    match operator {
        Operator::In => types::Operator::In,
        Operator::NotIn => types::Operator::NotIn,
        Operator::Exists => types::Operator::Exists,
        Operator::DoesNotExist => types::Operator::DoesNotExist,
        Operator::Gt => types::Operator::Gt,
        Operator::Lt => types::Operator::Lt,
        Operator::Gte => types::Operator::Gte,
        Operator::Lte => types::Operator::Lte,
    }
}

fn entry(entry: &Entry) -> types::Requirement {
    types::Requirement {
        key: entry.key.clone(),
        operator: operator(entry.operator).into(),
        values: entry.values.clone(),
        min_values: entry.min_values.unwrap_or(0),
    }
}

pub(super) fn requirements(all: &Requirements) -> Vec<types::Requirement> {
    all.to_entries().iter().map(entry).collect()
}

pub(super) fn read_requirements(wire: &[types::Requirement], field: &str) -> Result<Requirements, Status> {
    let mut all = Requirements::new();
    for (index, one) in wire.iter().enumerate() {
        let here = format!("{field}[{index}]");
        let operator = match types::Operator::try_from(one.operator).unwrap_or_default() {
            types::Operator::In => Operator::In,
            types::Operator::NotIn => Operator::NotIn,
            types::Operator::Exists => Operator::Exists,
            types::Operator::DoesNotExist => Operator::DoesNotExist,
            types::Operator::Gt => Operator::Gt,
            types::Operator::Lt => Operator::Lt,
            types::Operator::Gte => Operator::Gte,
            types::Operator::Lte => Operator::Lte,
            types::Operator::Unspecified => return Err(errors::invalid(&here, "operator is not set")),
        };
        let min_values = (one.min_values > 0).then_some(one.min_values);
        all.add(Requirement::new(&one.key, operator, one.values.iter().cloned(), min_values));
    }
    Ok(all)
}

/// UIDs of pods that an answer may name.
#[derive(Default)]
pub(super) struct Uids(BTreeMap<(Arc<str>, Arc<str>), Arc<str>>);

impl Uids {
    /// Of pods that wait, of pods on nodes that go, and of pods on these nodes.
    pub(super) fn of<'a>(view: &ClusterView, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: BTreeMap<_, _> = view.leaving.iter().map(|(k, v)| (k.clone(), Arc::clone(v))).collect();
        for pod in view.pending.iter() {
            all.insert((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), Arc::clone(&pod.uid));
        }
        for node in nodes.into_iter().filter_map(|name| view.nodes.get(name)) {
            for pod in &node.pods {
                all.insert((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), Arc::clone(&pod.uid));
            }
        }
        Self(all)
    }

    pub(super) fn pod(&self, pod: &PodRef) -> types::PodRef {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        types::PodRef {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: self.0.get(&key).map(|uid| uid.to_string()).unwrap_or_default(),
        }
    }
}

pub(super) fn planned(node: &NewNode, index: usize, uids: &Uids) -> types::PlannedNode {
    types::PlannedNode {
        name: consolidation::name_of(index),
        node_pool: node.pool.to_string(),
        pods: node.pods.iter().map(|p| uids.pod(p)).collect(),
        requirements: requirements(&node.requirements),
        instance_types: node.instance_types.iter().map(|t| t.to_string()).collect(),
        launch: Some(types::Offering {
            instance_type: node.launch.instance_type.to_string(),
            zone: node.launch.zone.to_string(),
            zone_id: String::new(),
            capacity_type: capacity_type(node.launch.capacity_type).into(),
            micro_usd_per_hour: node.launch.price.get(),
            available: true,
            reservation_id: node.launch.reservation.as_deref().unwrap_or_default().to_owned(),
            reservation_capacity: 0,
        }),
        requests: Some(resources(&node.requests)),
        worst_micro_usd_per_hour: Vec::new(),
        min_values: Vec::new(),
    }
}

pub(super) fn rejections(why: &Explanation) -> Vec<types::PoolRejection> {
    let of_pool = |miss: &solver::PoolMiss| types::PoolRejection {
        node_pool: miss.pool.to_string(),
        rule: miss.rule.as_str().to_owned(),
        detail: miss.miss.clone(),
    };
    why.pools.iter().map(of_pool).collect()
}

pub(super) fn unschedulable(left: &solver::Unschedulable, uids: &Uids) -> types::Unschedulable {
    types::Unschedulable {
        pod: Some(uids.pod(&left.pod)),
        reason: left.why.to_string(),
        rejections: rejections(&left.why),
    }
}

/// A duration of the request, or the default for none.
pub(super) fn limit(wire: Option<&prost_types::Duration>) -> Result<std::time::Duration, Status> {
    const DEFAULT: std::time::Duration = std::time::Duration::from_secs(10);
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(60);
    // Any pair of numbers may come, also such as are no duration.
    match wire.map(|d| (u64::try_from(d.seconds), u32::try_from(d.nanos))) {
        None | Some((Ok(0), Ok(0))) => Ok(DEFAULT),
        Some((Ok(seconds @ 0..=60), Ok(nanos @ 0..=999_999_999)))
            if std::time::Duration::new(seconds, nanos) <= LONGEST =>
        {
            Ok(std::time::Duration::new(seconds, nanos))
        }
        Some((Ok(_), Ok(_))) => Err(errors::invalid("solve_limit", "must be at most 60s")),
        Some(_) => Err(errors::invalid("solve_limit", "must not be negative")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_question_is_bounded() {
        let seconds = |seconds| limit(Some(&prost_types::Duration { seconds, nanos: 0 }));
        assert_eq!(seconds(60).unwrap().as_secs(), 60);
        assert!(seconds(61).is_err() && seconds(i64::MAX).is_err() && seconds(-1).is_err());
        for nanos in [i32::MIN, -1, 0, i32::MAX] {
            assert!(limit(Some(&prost_types::Duration { seconds: i64::MIN, nanos })).is_err());
        }
        assert_eq!(limit(None).unwrap().as_secs(), 10);
    }
}
