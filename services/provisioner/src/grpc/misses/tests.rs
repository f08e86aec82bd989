use std::collections::BTreeMap;

use model::pod::{
    HostPort, LabelSelector, NodeInclusionPolicy, PodAffinityTerm, PodSpec, Protocol, TopologySpread, Volume,
    WhenUnsatisfiable,
};
use model::pool::ClusterInput;
use model::requirement::Requirement;
use solver::Snapshot;

use super::*;
use crate::cluster::{Burden, Daemons, PendingPod};

fn resources(cpu: i64) -> Resources {
    Resources::new().with("cpu", Quantity::from_units(cpu)).with(PODS, Quantity::from_units(10))
}

fn node(name: &str, zone: &str) -> Node {
    Node {
        name: Arc::from(name),
        claim: None,
        pool: None,
        labels: [
            (labels::ZONE.to_owned(), zone.to_owned()),
            (labels::HOSTNAME.to_owned(), name.to_owned()),
            ("beta.kubernetes.io/arch".to_owned(), "arm64".to_owned()),
        ]
        .into(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        allocatable: resources(4),
        capacity: resources(4),
        state: NodeState::Ready,
        registered: true,
        initialized: true,
        nominated: false,
        settling: false,
        csi_limits: BTreeMap::from([(Arc::from("ebs.csi.aws.com"), 2)]),
    }
}

fn with_pods(node: Node, pods: Vec<Pod>) -> Arc<NodeView> {
    let bound = |pod: Pod| Arc::new(Pod { node: Some(Arc::clone(&node.name)), ..pod });
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(bound).collect();
    let mut requested = Resources::new();
    for pod in &pods {
        requested.add(&pod.spec.requests);
        requested.add(&Resources::new().with(PODS, Quantity::from_units(1)));
    }
    Arc::new(NodeView {
        object: Some(Arc::clone(&node.name)),
        node: Arc::new(node),
        launched: true,
        deleted: false,
        created: None,
        requested,
        limits: Resources::new(),
        of_daemons: Daemons::default(),
        burden: Burden::default(),
        pods,
        nominated: Vec::new(),
        forced: false,
    })
}

fn pod(name: &str, change: impl FnOnce(&mut PodSpec)) -> Pod {
    let mut spec =
        PodSpec { requests: Resources::new().with("cpu", Quantity::from_units(1)), ..PodSpec::default() };
    spec.labels.insert("app".to_owned(), "web".to_owned());
    change(&mut spec);
    Pod::pending("default", name, Arc::new(spec))
}

/// The rule that each node fails, nearest misses first.
fn rules(nodes: Vec<Arc<NodeView>>, pod: &Pod) -> Vec<(String, String, String)> {
    let pending = PendingPod {
        pod: Arc::new(pod.clone()),
        namespace: Arc::clone(&pod.namespace),
        name: Arc::clone(&pod.name),
        uid: Arc::clone(&pod.uid),
        since: jiff::Timestamp::UNIX_EPOCH,
        nominated: None,
        rejected: None,
        refused: None,
    };
    let view = ClusterView {
        nodes: Arc::new(nodes.into_iter().map(|n| (Arc::clone(&n.node.name), n)).collect()),
        pending: Arc::new(vec![pending]),
        snapshot: Snapshot::build(ClusterInput::default()),
        ..ClusterView::empty()
    };
    let found = of(&view, pod, &Options::default(), &|| true);
    found.into_iter().map(|miss| (miss.node, miss.rule, miss.detail)).collect()
}

fn only(nodes: Vec<Arc<NodeView>>, pod: &Pod) -> (String, String) {
    let mut found = rules(nodes, pod);
    assert_eq!(found.len(), 1, "{found:?}");
    let (_, rule, detail) = found.remove(0);
    (rule, detail)
}

fn web() -> Option<LabelSelector> {
    Some(LabelSelector::of_labels([("app", "web")]))
}

fn term(key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: web(),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    }
}

#[test]
fn a_node_that_could_host_the_pod_is_not_named() {
    assert_eq!(rules(vec![with_pods(node("a", "z1"), vec![])], &pod("new", |_| {})), []);
}

#[test]
fn labels_count_under_all_their_names() {
    let nodes = || vec![with_pods(node("a", "z1"), vec![])];
    let selects = |key: &str, value: &str| {
        pod("new", |spec| {
            spec.node_selector.insert(key.to_owned(), value.to_owned());
        })
    };
    for (key, value) in [
        (labels::ARCH, "arm64"),
        ("beta.kubernetes.io/arch", "arm64"),
        ("failure-domain.beta.kubernetes.io/zone", "z1"),
        ("topology.ebs.csi.aws.com/zone", "z1"),
    ] {
        assert_eq!(rules(nodes(), &selects(key, value)), [], "{key}");
    }
    let (rule, detail) = only(nodes(), &selects("failure-domain.beta.kubernetes.io/zone", "z2"));
    assert_eq!((rule.as_str(), detail.ends_with("the node has z1")), ("requirements", true), "{detail}");
    let affine = |arch: &str| {
        pod("new", |spec| {
            let term = Requirements::new().with(Requirement::is(labels::ARCH, arch));
            spec.required_node_affinity.push(term);
        })
    };
    assert_eq!(rules(nodes(), &affine("arm64")), []);
    assert_eq!(only(nodes(), &affine("amd64")).0, "requirements");
}

// Cases: SCH-H.2-4, SCH-I.3-11
#[test]
fn a_host_port_that_is_taken_is_named_with_the_pod_that_has_it() {
    let port =
        |number| move |spec: &mut PodSpec| spec.host_ports = vec![HostPort::new(None, number, Protocol::Tcp)];
    let nodes = || vec![with_pods(node("a", "z1"), vec![pod("old", port(80))])];
    let (rule, detail) = only(nodes(), &pod("new", port(80)));
    assert_eq!((rule.as_str(), detail.as_str()), ("host-ports", "pod default/old has host port 80"));
    assert_eq!(rules(nodes(), &pod("new", port(81))), []);
}

// Cases: SCH-H.2-3
#[test]
fn volumes_fail_where_they_cannot_be_attached_and_where_too_many_are() {
    let volume = |claim: &str, zone: Option<&str>| Volume {
        claim: Arc::from(claim),
        driver: Some(Arc::from("ebs.csi.aws.com")),
        alternatives: zone
            .map(|zone| Requirements::new().with(Requirement::is(labels::ZONE, zone)))
            .into_iter()
            .collect(),
    };
    let with = |name: &str, volumes: Vec<Volume>| Pod { volumes, ..pod(name, |_| {}) };
    let empty = || vec![with_pods(node("a", "z1"), vec![])];
    let (rule, detail) = only(empty(), &with("new", vec![volume("default/data", Some("z2"))]));
    assert_eq!(rule, "volumes");
    assert!(detail.contains("default/data") && detail.contains("z2"), "{detail}");
    assert_eq!(rules(empty(), &with("new", vec![volume("default/data", Some("z1"))])), []);

    let old = || with("old", vec![volume("default/x", None), volume("default/y", None)]);
    let full = || vec![with_pods(node("a", "z1"), vec![old()])];
    let (rule, detail) = only(full(), &with("new", vec![volume("default/z", None)]));
    assert_eq!(rule, "volumes");
    assert!(detail.contains("2 of at most 2"), "{detail}");
    assert_eq!(rules(full(), &with("new", vec![volume("default/x", None)])), [], "one attachment for both");
}

#[test]
fn topology_rules_are_the_nearest_misses_and_named_each() {
    let spread = TopologySpread {
        topology_key: labels::ZONE.to_owned(),
        max_skew: 1,
        min_domains: None,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        selector: web(),
        node_affinity_policy: NodeInclusionPolicy::Honor,
        node_taints_policy: NodeInclusionPolicy::Ignore,
        match_label_keys: Vec::new(),
    };
    let two = || {
        vec![
            with_pods(node("a", "z1"), vec![pod("old", |_| {})]),
            // Too small for anything: a farther miss than any topology.
            with_pods(Node { allocatable: resources(0), ..node("b", "z2") }, vec![]),
        ]
    };
    let first = |pod: &Pod| {
        let found = rules(two(), pod);
        let names: Vec<(&str, &str)> = found.iter().map(|(node, rule, _)| (&**node, &**rule)).collect();
        assert_eq!(names.len(), 2, "{found:?}");
        assert_eq!(names[1], ("b", "resources"), "{found:?}");
        assert_eq!(names[0].0, "a");
        names[0].1.to_owned()
    };
    assert_eq!(first(&pod("new", |spec| spec.topology_spread = vec![spread])), "topology-spread");
    assert_eq!(
        first(&pod("new", |spec| spec.anti_affinity = vec![term(labels::HOSTNAME)])),
        "pod-anti-affinity"
    );
    let lonely = |spec: &mut PodSpec| {
        spec.labels.clear();
        let mut asked = term(labels::ZONE);
        asked.selector = Some(LabelSelector::of_labels([("app", "other")]));
        spec.affinity = vec![asked];
    };
    assert_eq!(first(&pod("new", lonely)), "pod-affinity");
}

// Cases: CST-29
#[test]
fn the_anti_affinity_of_a_pod_that_runs_there_counts_too() {
    let old = pod("old", |spec| spec.anti_affinity = vec![term(labels::HOSTNAME)]);
    let (rule, detail) = only(vec![with_pods(node("a", "z1"), vec![old])], &pod("new", |_| {}));
    assert_eq!(rule, "pod-anti-affinity");
    assert!(detail.contains("default/old"), "{detail}");
}
