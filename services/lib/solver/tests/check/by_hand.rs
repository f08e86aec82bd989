//! Plans written down by hand, and the names of the rules that they break.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::catalog::CapacityType;
use model::pool::ClusterInput;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::Resources;
use solver::check::{Violation, check_without};
use solver::{ExistingNode, Launch, NewNode, Options, Plan, PodRef};

use crate::fixture::{TypeBuilder, ZONE, ZONES, instance_type};

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef { namespace: Arc::from("default"), name: Arc::from(name) }
}

/// 2 CPU, 4 Gi and 10 pods for 0.1 an hour, and twice that for twice the price.
pub(crate) fn small() -> TypeBuilder {
    instance_type("small").cpu(2).memory(4).pods(10).price(0.1)
}

pub(crate) fn large() -> TypeBuilder {
    instance_type("large").cpu(4).memory(8).pods(20).price(0.2)
}

/// A new node of pool `default` that would be launched on spot in zone 1 as the first of its types.
pub(crate) struct NewNodeByHand {
    node: NewNode,
}

pub(crate) fn new_node(types: &[&str], pods: &[&str]) -> NewNodeByHand {
    let node = NewNode {
        pool: Arc::from("default"),
        pods: pods.iter().map(|name| pod_ref(name)).collect(),
        requirements: Arc::new(Requirements::new()),
        instance_types: types.iter().map(|name| Arc::from(*name)).collect(),
        launch: Launch {
            instance_type: Arc::from(*types.first().unwrap_or(&"none")),
            zone: Arc::from(ZONES[0]),
            capacity_type: CapacityType::Spot,
            reservation: None,
            price: MicroDollars::ZERO,
        },
        requests: Resources::new(),
        min_values_relaxed: false,
    };
    NewNodeByHand { node }
}

impl NewNodeByHand {
    pub(crate) fn requires(mut self, requirement: Requirement) -> Self {
        Arc::make_mut(&mut self.node.requirements).add(requirement);
        self
    }

    /// Pinned to a zone; zone 3 has no spot.
    pub(crate) fn in_zone(self, zone: &str) -> Self {
        let mut out = self.requires(Requirement::is(ZONE, zone));
        out.node.launch.zone = Arc::from(zone);
        if zone == ZONES[2] {
            out.node.launch.capacity_type = CapacityType::OnDemand;
        }
        out
    }

    pub(crate) fn but(mut self, change: impl FnOnce(&mut NewNode)) -> Self {
        change(&mut self.node);
        self
    }
}

/// Prices and requests follow from the input; everything else is as given.
pub(crate) fn plan(input: &ClusterInput, new: Vec<NewNodeByHand>, existing: &[(&str, &[&str])]) -> Plan {
    let mut plan = Plan::default();
    for NewNodeByHand { mut node } in new {
        for pod in input.pods.iter().filter(|pod| node.pods.contains(&pod_ref(&pod.name))) {
            node.requests.add(&pod.spec.requests);
            node.requests.insert("pods", node.requests.get("pods") + Quantity::from_units(1));
        }
        let types = input.pools.iter().filter(|p| p.name == node.pool).flat_map(|p| p.instance_types.iter());
        let of_type = types.filter(|t| t.name == node.launch.instance_type).flat_map(|t| &t.offerings);
        let mut offered = of_type.filter(|o| {
            o.zone == node.launch.zone
                && o.capacity_type == node.launch.capacity_type
                && o.reservation.as_ref().map(|r| &r.id) == node.launch.reservation.as_ref()
        });
        if let Some(offering) = offered.next() {
            node.launch.price = offering.price;
        }
        plan.cost += node.launch.price;
        plan.new_nodes.push(node);
    }
    plan.existing = existing
        .iter()
        .map(|(node, pods)| ExistingNode {
            node: Arc::from(*node),
            pods: pods.iter().map(|name| pod_ref(name)).collect(),
        })
        .collect();
    plan
}

/// Names of the broken rules, in the order found.
pub(crate) fn broken(input: &ClusterInput, plan: &Plan) -> Vec<String> {
    broken_without(input, &[], plan, &Options::default())
}

pub(crate) fn broken_without(
    input: &ClusterInput,
    removed: &[&str],
    plan: &Plan,
    options: &Options,
) -> Vec<String> {
    let removed: BTreeSet<&str> = removed.iter().copied().collect();
    check_without(input, &removed, plan, options).iter().map(name).collect()
}

fn name(violation: &Violation) -> String {
    let words = violation.to_string();
    assert!(words.len() > 20 && !words.contains('{'), "{words:?} is not for people");
    let text = format!("{violation:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}
