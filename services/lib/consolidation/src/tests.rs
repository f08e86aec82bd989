use std::sync::Arc;

use api::convert::Obstacle;
use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::node::{Node, NodeState};
use model::pod::{Pod, PodSpec};
use model::pool::{ClusterInput, NodePool};
use model::price::MicroDollars;
use model::resources::Resources;
use solver::{Options, Snapshot};

use super::*;

fn resources(cpu: &str) -> Resources {
    let amounts = [("cpu", cpu), ("memory", "8Gi"), ("pods", "10")];
    amounts.into_iter().map(|(name, amount)| (name, amount.parse().unwrap())).collect()
}

fn kind(name: &str, cpu: &str, price: i64) -> InstanceType {
    let offering = Offering {
        zone: Arc::from("zone-a"),
        zone_id: None,
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars::new(price),
        available: true,
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    };
    InstanceType::new(name, &Default::default(), resources(cpu), Resources::new(), vec![offering])
}

pub(super) fn node(name: &str) -> Node {
    let own = [
        (labels::NODEPOOL, "default"),
        (labels::INSTANCE_TYPE, "large"),
        (labels::ZONE, "zone-a"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::HOSTNAME, name),
    ];
    Node {
        name: Arc::from(name),
        claim: Some(Arc::from(name)),
        pool: Some(Arc::from("default")),
        labels: own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        allocatable: resources("4"),
        capacity: resources("4"),
        state: NodeState::Ready,
        registered: true,
        initialized: true,
        nominated: true,
        settling: true,
        csi_limits: BTreeMap::new(),
    }
}

pub(super) fn pod(name: &str, node: Option<&str>) -> Pod {
    let requests = [("cpu", "1".parse().unwrap())].into_iter().collect();
    let spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
    let node = node.map(Arc::from);
    Pod { reschedulable: node.is_some(), node, ..Pod::pending("default", name, spec) }
}

/// Two nodes with room for four pods each, one pod on each, and one that waits.
pub(super) fn input() -> ClusterInput {
    let pool = NodePool {
        name: Arc::from("default"),
        weight: 0,
        limits: Resources::new(),
        labels: Default::default(),
        node_class_label: None,
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Default::default(),
        fixed_size: false,
        instance_types: Arc::new(vec![kind("large", "4", 400_000), kind("small", "2", 150_000)]),
    };
    ClusterInput {
        pods: vec![pod("a", Some("one")), pod("b", Some("two")), pod("waits", None)],
        nodes: vec![node("one"), node("two")],
        pools: vec![pool],
        ..ClusterInput::default()
    }
}

pub(super) fn rest(disruption: &str) -> Rest {
    let text = format!(
        r#"{{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {{"name": "default"}}, "spec": {{
            "disruption": {disruption},
            "template": {{"spec": {{"requirements": [], "nodeClassRef": {{"group": "g", "kind": "k", "name": "n"}}}}}}}}}}"#
    );
    let pool = serde_json::from_str(&text).unwrap();
    Rest { pools: [(Arc::from("default"), Arc::new(pool))].into(), ..Rest::default() }
}

pub(super) const ALWAYS: &str = r#"{"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}"#;

fn found(input: ClusterInput, rest: &Rest) -> Consolidated {
    let options = Options::default();
    let plan = solver::solve(&Snapshot::build(input.clone()), &options, &|| true);
    assert!(plan.new_nodes.is_empty() && plan.unschedulable.is_empty(), "{plan:?}");
    run(input, rest, &plan, &options, &|| true)
}

// Cases: DEL-1
#[test]
fn nodes_go_until_nothing_is_left_to_gain() {
    let found = found(input(), &rest(ALWAYS));
    assert_eq!(found.before, MicroDollars::new(800_000));
    assert_eq!(found.after, MicroDollars::new(400_000), "{found:?}");
    let [command] = found.commands.as_slice() else { panic!("{found:?}") };
    assert_eq!((command.remove.len(), command.nodes.len()), (1, 0));
    assert_eq!(command.savings, MicroDollars::new(400_000));
    assert_eq!(command.method.reason().as_str(), "Underutilized");
    let gone = command.remove[0].to_string();
    assert!(!command.moves.is_empty() && command.moves.iter().all(|m| m.from == gone && m.to != gone));
    assert!(!found.timed_out);
    // What stays says why.
    let stay: Vec<&str> = found.blocked.iter().map(|b| b.node.as_str()).collect();
    assert_eq!(stay, [if gone == "one" { "two" } else { "one" }]);
}

// Cases: EMP-7, REP-1
#[test]
fn an_empty_node_goes_as_empty_and_a_dear_one_is_replaced() {
    let mut input = input();
    input.pods.retain(|p| &*p.name == "a");
    let found = found(input, &rest(ALWAYS));
    let methods: Vec<&str> = found.commands.iter().map(|c| c.method.consolidation_type()).collect();
    assert_eq!(methods, ["empty", "single"], "{found:?}");
    let replaced = &found.commands[1];
    assert_eq!((&*replaced.nodes[0].launch.instance_type, replaced.first), ("small", 0));
    assert_eq!(
        replaced.moves,
        [Move {
            pod: PodRef { namespace: "default".into(), name: "a".into() },
            from: "one".into(),
            to: name_of(0)
        }]
    );
    assert_eq!(found.after, MicroDollars::new(150_000));
}

#[test]
fn what_holds_a_node_is_named() {
    let mut rest = rest(ALWAYS);
    let facts = PodFacts { obstacle: Some(Obstacle::Budget("default/web".into())), eviction_cost: 0 };
    rest.facts.insert((Arc::from("default"), Arc::from("a")), Arc::new(facts));
    rest.held_nodes.insert(Arc::from("two"));
    let found = found(input(), &rest);
    assert!(found.commands.is_empty() && found.before == found.after);
    let reasons: Vec<&str> = found.blocked.iter().map(|b| b.reason.as_str()).collect();
    assert!(reasons[0].contains("PodDisruptionBudget default/web"), "{reasons:?}");
    assert!(reasons[1].contains(labels::DO_NOT_DISRUPT), "{reasons:?}");
}

#[test]
fn budgets_and_policies_of_pools_hold() {
    for disruption in [
        r#"{"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}"#,
        r#"{"consolidateAfter": "Never"}"#,
        r#"{"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}"#,
    ] {
        assert!(found(input(), &rest(disruption)).commands.is_empty(), "{disruption}");
    }
}

fn annotated(key: &str, value: &str) -> Rest {
    let mut rest = rest(ALWAYS);
    for pool in rest.pools.values_mut() {
        let annotations = Arc::make_mut(pool).metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
    }
    rest
}

// Cases: BAL-53
#[test]
fn several_new_nodes_are_planned_only_where_the_pool_opted_in() {
    let mut input = input();
    input.pods = vec![pod("a", Some("one")), pod("b", Some("one"))];
    for pod in &mut input.pods {
        let spec = Arc::make_mut(&mut pod.spec);
        spec.requests = [("cpu", "2".parse().unwrap())].into_iter().collect();
    }
    input.nodes.truncate(1);
    // The type of the node cannot be launched any more, so that only two small nodes can replace it.
    let mut large = kind("large", "4", 400_000);
    large.offerings[0].available = false;
    input.pools[0].instance_types = Arc::new(vec![large, kind("small", "2", 150_000)]);
    let plain = found(input.clone(), &rest(ALWAYS));
    assert!(plain.commands.is_empty(), "{plain:?}");
    let opted_in = found(input, &annotated(labels::MANY_FOR_MANY, "true"));
    let [command] = opted_in.commands.as_slice() else { panic!("{opted_in:?}") };
    assert_eq!((command.remove.len(), command.nodes.len()), (1, 2));
}

#[test]
fn settings_of_the_pool_against_churn_hold_in_a_plan() {
    let mut input = input();
    input.pods.retain(|p| &*p.name == "a");
    input.nodes.truncate(1);
    // A node of $0.15 for one of $0.40 saves 62 %.
    let enough = found(input.clone(), &annotated(labels::MINIMUM_SAVING, "60%"));
    assert_eq!(enough.commands.len(), 1, "{enough:?}");
    let too_little = found(input, &annotated(labels::MINIMUM_SAVING, "70%"));
    assert!(too_little.commands.is_empty(), "{too_little:?}");
    assert!(too_little.blocked[0].reason.contains("asks for at least"), "{too_little:?}");
}
