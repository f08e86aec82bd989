//! A watcher is told everything once, then only what is different.

use model::node::Node;
use model::resources::Resources;
use model::taint::{Effect, Taint};

use super::*;

fn node(name: &str) -> Node {
    Node {
        name: Arc::from(name),
        claim: Some(Arc::from(format!("{name}-claim"))),
        pool: Some(Arc::from("general")),
        labels: [
            (labels::ZONE.to_owned(), "z1".to_owned()),
            (labels::CAPACITY_TYPE.to_owned(), "spot".to_owned()),
        ]
        .into(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        allocatable: Resources::new(),
        capacity: Resources::new(),
        state: NodeState::Ready,
        registered: true,
        initialized: true,
        nominated: false,
        settling: false,
        csi_limits: BTreeMap::new(),
    }
}

fn seen(node: Node, pods: &[&str]) -> Arc<NodeView> {
    let pod = |name: &&str| Arc::new(Pod::pending("shop", name, Arc::default()));
    Arc::new(NodeView {
        object: Some(Arc::clone(&node.name)),
        node: Arc::new(node),
        launched: true,
        deleted: false,
        created: None,
        requested: Resources::new(),
        limits: Resources::new(),
        of_daemons: crate::cluster::Daemons::default(),
        burden: crate::cluster::Burden::default(),
        pods: pods.iter().map(pod).collect(),
        nominated: Vec::new(),
        forced: false,
    })
}

fn view(nodes: &[Arc<NodeView>]) -> ClusterView {
    let nodes = nodes.iter().map(|node| (Arc::clone(&node.node.name), Arc::clone(node))).collect();
    ClusterView { synced: true, nodes: Arc::new(nodes), ..ClusterView::empty() }
}

fn tell(told: &mut Told, view: &ClusterView) -> Vec<pb::WatchClusterResponse> {
    told.differences(view, &Decided::default(), &Offer::default(), true, "replica").into()
}

fn names(steps: &[pb::WatchClusterResponse]) -> Vec<String> {
    let nodes = steps.iter().flat_map(|step| &step.nodes);
    nodes.filter_map(|node| node.summary.as_ref()).map(|summary| summary.name.clone()).collect()
}

#[test]
fn everything_is_told_once_and_then_only_what_is_different() {
    let mut told = Told { with_pods: true, ..Told::default() };
    let (a, b) = (seen(node("a"), &["x"]), seen(node("b"), &[]));
    let first = tell(&mut told, &view(&[Arc::clone(&a), Arc::clone(&b)]));
    assert!(first[0].full && first.iter().skip(1).all(|step| !step.full));
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.last().unwrap().nodes[0].pods[0].name, "x");

    assert!(tell(&mut told, &view(&[Arc::clone(&a), Arc::clone(&b)])).is_empty(), "nothing changed");

    let b = seen(node("b"), &["y"]);
    let next = tell(&mut told, &view(&[a, Arc::clone(&b)]));
    assert_eq!((names(&next), next[0].full), (vec!["b".to_owned()], false));

    let last = tell(&mut told, &view(&[b]));
    assert_eq!((last[0].removed_nodes.clone(), names(&last)), (vec!["a".to_owned()], Vec::new()));
}

#[test]
fn an_empty_cluster_is_told_too() {
    let steps = tell(&mut Told::default(), &view(&[]));
    assert!(steps.len() == 1 && steps[0].full && !steps[0].more, "{steps:?}");
}

#[test]
fn a_large_picture_comes_in_steps_and_only_the_last_completes_it() {
    let nodes: Vec<_> = (0..=NODES_A_STEP).map(|n| seen(node(&format!("n{n:05}")), &[])).collect();
    let steps = tell(&mut Told::default(), &view(&nodes));
    let more: Vec<bool> = steps.iter().map(|step| step.more).collect();
    assert_eq!(more, [true, true, false]);
    assert_eq!(names(&steps).len(), NODES_A_STEP + 1);
}

#[test]
fn a_node_on_its_way_says_what_it_waits_for() {
    let waits = |node: Node, launched| waits_for(&NodeView { launched, ..(*seen(node, &[])).clone() });
    let young = Node { initialized: false, ..node("a") };
    assert_eq!(waits(Node { registered: false, ..young.clone() }, false), "EC2 to give an instance");
    assert_eq!(waits(Node { registered: false, ..young.clone() }, true), "the instance to join the cluster");
    let taint = Taint::new("cni.example/agent-not-ready", "", Effect::NoSchedule);
    let tainted = Node { taints: vec![taint.clone()], startup_taints: vec![taint], ..young };
    assert_eq!(waits(tainted, true), "taints to be taken off: cni.example/agent-not-ready:NoSchedule");
    assert_eq!(waits(node("a"), true), "");
}

#[test]
fn conditions_follow_the_steps_of_the_claim_and_the_taints_of_the_node() {
    let shown = |view: &NodeView| -> Vec<String> {
        conditions(view).iter().map(|c| format!("{}={}", c.r#type, c.status)).collect()
    };
    let ready = seen(node("a"), &[]);
    assert_eq!(shown(&ready), ["Launched=True", "Registered=True", "Initialized=True", "Ready=True"]);
    let taint = |key: &str| Taint::new(key, "", Effect::NoSchedule);
    let taints = vec![taint(labels::NOT_READY_TAINT), taint("node.kubernetes.io/disk-pressure")];
    let sick = seen(Node { taints, ..node("a") }, &[]);
    assert_eq!(shown(&sick)[3..], ["Ready=False", "DiskPressure=True"]);
    let taints = vec![taint(labels::UNREACHABLE_TAINT), taint(labels::NOT_READY_TAINT)];
    assert_eq!(shown(&seen(Node { taints, ..node("a") }, &[]))[3..], ["Ready=Unknown"]);
    let young = Node { registered: false, initialized: false, ..node("a") };
    let claim = NodeView { object: None, launched: false, ..(*seen(young, &[])).clone() };
    assert_eq!(shown(&claim), ["Launched=Unknown", "Registered=Unknown", "Initialized=Unknown"]);
    let foreign = Node { claim: None, pool: None, ..node("a") };
    assert_eq!(shown(&seen(foreign, &[])), ["Ready=True"]);
}
