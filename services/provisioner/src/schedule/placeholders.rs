//! Placeholder pods of CapacityBuffers in a decision: how many of each buffer have room, and which nodes they hold. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solver::{Plan, PodRef};

use crate::buffers::{BufferKey, Placed};
use crate::cluster::ClusterView;

/// Nodes that hold placeholder pods: by NodeClaim, whose name stays the same when the Node joins; by Node where there is none.
pub(crate) type HeldNodes = BTreeSet<Arc<str>>;

/// `created` has the NodeClaim of each new node of the plan that has one. A node that was made for placeholder pods is held
/// from here on, or it would be deleted as empty before the next decision. What was held `before` stays so while the solver
/// had no time for some of the placeholder pods.
pub(super) fn of(
    view: &ClusterView,
    plan: &Plan,
    created: &[Option<Arc<str>>],
    before: &HeldNodes,
) -> (BTreeMap<BufferKey, Placed>, HeldNodes) {
    let (mut placed, mut held) = (BTreeMap::<BufferKey, Placed>::new(), HeldNodes::new());
    if view.placeholders.is_empty() {
        return (placed, held);
    }
    let owner =
        |pod: &PodRef| view.placeholders.get(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name))).cloned();
    for node in &plan.existing {
        for key in node.pods.iter().filter_map(owner) {
            placed.entry(key).or_default().fit += 1;
            let claim = view.nodes.get(&node.node).and_then(|known| known.node.claim.as_ref());
            held.insert(Arc::clone(claim.unwrap_or(&node.node)));
        }
    }
    for (index, node) in plan.new_nodes.iter().enumerate() {
        let claim = created.get(index).and_then(Option::as_ref);
        for key in node.pods.iter().filter_map(owner) {
            let of_buffer = placed.entry(key).or_default();
            match claim {
                Some(claim) => {
                    of_buffer.created += 1;
                    held.insert(Arc::clone(claim));
                }
                None => of_buffer.lack += 1,
            }
        }
    }
    for key in plan.unschedulable.iter().filter_map(|left| owner(&left.pod)) {
        placed.entry(key).or_default().lack += 1;
    }
    for key in plan.unreached.iter().filter_map(owner) {
        placed.entry(key).or_default().lack += 1;
        held.extend(before.iter().cloned());
    }
    (placed, held)
}

#[cfg(test)]
mod tests {
    use model::catalog::CapacityType;
    use model::price::MicroDollars;
    use model::resources::Resources;
    use solver::{ExistingNode, Launch, NewNode};

    use super::*;

    fn new_node(pod: PodRef) -> NewNode {
        let launch = Launch {
            instance_type: Arc::from("m5.large"),
            zone: Arc::from("zone-a"),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            price: MicroDollars::ZERO,
        };
        NewNode {
            pool: Arc::from("general"),
            pods: vec![pod],
            requirements: Arc::default(),
            instance_types: Arc::from([]),
            launch,
            requests: Resources::new(),
            min_values_relaxed: false,
        }
    }

    fn pod(name: &str) -> PodRef {
        PodRef { namespace: Arc::from("default"), name: Arc::from(name) }
    }

    fn view(placeholders: &[&str]) -> ClusterView {
        let buffer: BufferKey = (Arc::from("default"), Arc::from("spare"));
        let of = |name: &&str| ((Arc::from("default"), Arc::from(*name)), buffer.clone());
        ClusterView { placeholders: Arc::new(placeholders.iter().map(of).collect()), ..ClusterView::empty() }
    }

    fn plan(new: &[&str], existing: &[&str], unreached: &[&str]) -> Plan {
        let pods = |names: &[&str]| names.iter().map(|name| pod(name)).collect::<Vec<_>>();
        Plan {
            new_nodes: new.iter().map(|name| new_node(pod(name))).collect(),
            existing: vec![ExistingNode { node: Arc::from("ip-1"), pods: pods(existing) }],
            unreached: pods(unreached),
            ..Plan::default()
        }
    }

    // Cases: CST-91, SCH-H.10-5, SCH-M.4-10, SCH-M.4-11
    #[test]
    fn a_node_created_for_a_placeholder_pod_is_held_by_the_decision_that_made_it() {
        let view = view(&["p1", "p2"]);
        let created = [Some(Arc::from("general-1")), None, Some(Arc::from("general-2"))];
        let (placed, held) = of(&view, &plan(&["p1", "p2", "app"], &[], &[]), &created, &HeldNodes::new());
        assert_eq!(held, HeldNodes::from([Arc::from("general-1")]), "not that of an ordinary pod");
        let of_buffer = placed.values().next().copied().unwrap();
        assert_eq!(of_buffer, Placed { fit: 0, created: 1, lack: 1 });
    }

    // Cases: CST-92, SCH-H.10-6
    #[test]
    fn nodes_stay_held_while_some_placeholder_pods_were_not_decided_about() {
        let view = view(&["p1", "p2"]);
        let before = HeldNodes::from([Arc::from("general-1")]);
        let (_, held) = of(&view, &plan(&[], &["p1"], &["p2"]), &[], &before);
        assert_eq!(held, HeldNodes::from([Arc::from("general-1"), Arc::from("ip-1")]));
        let (_, held) = of(&view, &plan(&[], &["p1", "p2"], &[]), &[], &before);
        assert_eq!(held, HeldNodes::from([Arc::from("ip-1")]));
    }
}
