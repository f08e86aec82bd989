//! A claim that has not been launched yet, as capacity: what is certain whatever it becomes. So that deciding never waits for
//! the cloud and never provides for the same pods twice. Pure.

use std::sync::Arc;

use api::NodeClaim;
use api::convert::{self, NodeFacts};
use model::catalog::InstanceType;
use model::labels;
use model::node::{Node, NodeState};
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::Resources;

/// Labels that all types of a claim nearly always share, and that pods select by.
const SHARED_LABELS: [&str; 2] = [labels::ARCH, labels::OS];

/// Allocatable is the least of every resource among the types it may become, capacity (against limits) the most. Without a
/// catalogue, exactly what its pods asked for. `None` where the claim cannot be read.
pub(super) fn node(claim: &NodeClaim, types: Option<&[InstanceType]>, facts: NodeFacts) -> Option<Node> {
    let mut node = convert::node(None, Some(claim), None, facts).ok().flatten()?;
    if node.state != NodeState::Deleting {
        node.state = NodeState::InFlight;
    }
    let requirements = requirements_of(claim);
    for requirement in requirements.iter() {
        if let Some(value) = requirement.single() {
            node.labels.entry(requirement.key().to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    let possible: Vec<&InstanceType> =
        types.unwrap_or_default().iter().filter(|t| may_become(&requirements, t)).collect();
    match possible.split_first() {
        None => {
            let asked = claim.spec.resources.as_ref().and_then(|r| r.requests.as_ref());
            let asked = convert::amounts(asked, &convert::At::Root).unwrap_or_default();
            node.allocatable = asked.clone();
            node.capacity = asked;
        }
        Some((first, others)) => {
            let (mut least, mut most) = (allocatable(first), first.capacity.clone());
            for kind in others {
                least = least.min(&allocatable(kind));
                most.max(&kind.capacity);
            }
            node.allocatable = least;
            node.capacity = most;
            limit_volumes(&mut node, &possible);
            for key in SHARED_LABELS {
                let value = |t: &InstanceType| {
                    t.requirements.get(key).and_then(Requirement::single).map(str::to_owned)
                };
                if let Some(shared) =
                    value(first).filter(|v| others.iter().all(|t| value(t).as_ref() == Some(v)))
                {
                    node.labels.entry(key.to_owned()).or_insert(shared);
                }
            }
        }
    }
    Some(node)
}

/// Until its CSI drivers report on the node, it takes the least that any of the types attaches of a driver's volumes.
pub(super) fn limit_volumes(node: &mut Node, possible: &[&InstanceType]) {
    let Some((first, others)) = possible.split_first() else { return };
    for driver in first.attach_limits.keys() {
        let most = |kind: &&InstanceType| kind.attach_limits.get(driver).copied().unwrap_or(u32::MAX);
        let least = others.iter().map(most).fold(most(first), u32::min);
        node.csi_limits.entry(Arc::clone(driver)).or_insert(least);
    }
}

fn allocatable(kind: &InstanceType) -> Resources {
    let mut left = kind.capacity.clone();
    left.sub(&kind.overhead);
    left
}

fn requirements_of(claim: &NodeClaim) -> Requirements {
    let entries = claim.spec.requirements.iter().filter_map(|r| r.to_entry().ok());
    entries.map(|entry| Requirement::from(&entry)).collect()
}

/// The type itself is allowed, and so is one of its offerings that can be had now or could be when the claim was made.
fn may_become(requirements: &Requirements, kind: &InstanceType) -> bool {
    let allows = |key: &str, value: &str| requirements.get(key).is_none_or(|r| r.contains(value));
    allows(labels::INSTANCE_TYPE, &kind.name)
        && requirements.iter().all(|asked| match kind.requirements.get(asked.key()) {
            // Offerings decide these below; the type's own list has only what is available.
            _ if matches!(asked.key(), labels::ZONE | labels::CAPACITY_TYPE | labels::ZONE_ID) => true,
            Some(own) => own.overlaps(asked),
            None => true,
        })
        && kind
            .offerings
            .iter()
            .any(|o| allows(labels::ZONE, &o.zone) && allows(labels::CAPACITY_TYPE, o.capacity_type.as_str()))
}

/// Name of the EC2NodeClass of a claim, where it is one of ours.
pub(super) fn class_of(claim: &NodeClaim) -> Option<Arc<str>> {
    let class = &claim.spec.node_class_ref;
    class.is_supported().then(|| Arc::from(class.name.as_str()))
}

#[cfg(test)]
mod tests {
    use model::catalog::{CapacityType, LabelMap, Offering};
    use model::price::MicroDollars;

    use super::*;

    fn kind(name: &str, cpu: &str, memory: &str, zones: &[&str]) -> InstanceType {
        let offerings = zones
            .iter()
            .map(|zone| Offering {
                zone: Arc::from(*zone),
                zone_id: None,
                capacity_type: CapacityType::OnDemand,
                price: MicroDollars::new(1),
                available: true,
                reservation: None,
                capacity_override: Resources::new(),
                overhead_override: Resources::new(),
            })
            .collect();
        let own: LabelMap = [(labels::ARCH.to_owned(), labels::AMD64.to_owned())].into();
        let amounts = |c: &str, m: &str| {
            Resources::new().with("cpu", c.parse().unwrap()).with("memory", m.parse().unwrap())
        };
        InstanceType::new(name, &own, amounts(cpu, memory), amounts("100m", "1Gi"), offerings)
    }

    fn claim(requirements: serde_json::Value) -> NodeClaim {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "default-x", "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "resources": {"requests": {"cpu": "1500m", "pods": "3"}}
            }
        }))
        .unwrap()
    }

    #[test]
    fn it_offers_the_least_and_counts_the_most_of_what_it_may_become() {
        let types = [
            kind("a.large", "2", "16Gi", &["z1"]),
            kind("b.xlarge", "4", "8Gi", &["z1"]),
            kind("c.huge", "96", "1Gi", &["z1"]),
        ];
        let claim = claim(serde_json::json!([
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["a.large", "b.xlarge"]},
            {"key": labels::ZONE, "operator": "In", "values": ["z1"]},
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]},
        ]));
        let node = node(&claim, Some(&types), NodeFacts::default()).unwrap();
        assert_eq!(node.allocatable.get("cpu"), "1900m".parse().unwrap());
        assert_eq!(node.allocatable.get("memory"), "7Gi".parse().unwrap());
        assert_eq!(node.capacity.get("cpu"), "4".parse().unwrap());
        assert_eq!(node.capacity.get("memory"), "16Gi".parse().unwrap());
        assert_eq!(node.labels.get(labels::ZONE).map(String::as_str), Some("z1"));
        assert_eq!(node.labels.get(labels::ARCH).map(String::as_str), Some("amd64"));
        assert!(!node.labels.contains_key(labels::CAPACITY_TYPE), "not decided yet");
        assert_eq!((node.state, node.registered, node.initialized), (NodeState::InFlight, false, false));
    }

    #[test]
    fn it_attaches_the_least_of_what_it_may_become_and_what_its_drivers_report_goes_first() {
        let limited = |name: &str, most: u32| {
            let mut kind = kind(name, "2", "16Gi", &["z1"]);
            kind.attach_limits.insert(Arc::from("ebs"), most);
            kind
        };
        let types = [limited("a.large", 25), limited("b.large", 24), limited("c.large", 3)];
        let claim = claim(serde_json::json!([
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["a.large", "b.large"]},
        ]));
        let mut made = node(&claim, Some(&types), NodeFacts::default()).unwrap();
        assert_eq!(made.csi_limits, [(Arc::from("ebs"), 24)].into());
        made.csi_limits = [(Arc::from("ebs"), 20)].into();
        limit_volumes(&mut made, &[&types[0]]);
        assert_eq!(made.csi_limits, [(Arc::from("ebs"), 20)].into());
    }

    #[test]
    fn types_that_are_not_sold_where_it_may_be_do_not_count() {
        let types = [kind("a.large", "2", "16Gi", &["z1"]), kind("b.xlarge", "4", "8Gi", &["z2"])];
        let claim = claim(serde_json::json!([{"key": labels::ZONE, "operator": "In", "values": ["z2"]}]));
        let node = node(&claim, Some(&types), NodeFacts::default()).unwrap();
        assert_eq!(node.allocatable.get("cpu"), "3900m".parse().unwrap());
    }

    #[test]
    fn without_a_catalogue_it_holds_exactly_what_it_was_made_for() {
        let node = node(&claim(serde_json::json!([])), None, NodeFacts::default()).unwrap();
        assert_eq!(node.allocatable.get("cpu"), "1500m".parse().unwrap());
        assert_eq!(node.allocatable.get("pods"), "3".parse().unwrap());
    }
}
