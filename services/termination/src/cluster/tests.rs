use serde_json::json;

use super::*;

fn node(name: &str, version: &str, provider: &str, more: serde_json::Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
                     "labels": {"karpenter.k8s.aws/ec2nodeclass": "default"}},
        "spec": {"providerID": provider},
    });
    for (key, value) in more.as_object().unwrap() {
        node[key] = value.clone();
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

fn claim(name: &str, version: &str, provider: Option<&str>) -> Arc<NodeClaim> {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                 "requirements": []},
        "status": {"providerID": provider},
    });
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn pod(name: &str, node: &str, spec: serde_json::Value) -> Arc<BoundPod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": []},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn touched(cluster: &mut ClusterState, fact: Fact) -> BTreeSet<Key> {
    let mut touched = BTreeSet::new();
    cluster.apply(fact, &mut touched);
    touched
}

// Cases: TRM-3, FIN-14, NDU-1, NDU-3, SCH-K-64, SCH-K-66
#[test]
fn nodes_and_claims_are_joined_by_provider_id_and_touch_each_other() {
    let mut cluster = ClusterState::default();
    touched(&mut cluster, Fact::Claim(Change::Applied(claim("c", "1", Some("aws:///a/i-1")))));
    let both = touched(&mut cluster, Fact::Node(Change::Applied(node("n", "2", "aws:///a/i-1", json!({})))));
    assert_eq!(both, BTreeSet::from([Key::Node("n".into()), Key::Claim("c".into())]));
    let found = cluster.claim_of(cluster.node("n").unwrap()).unwrap();
    assert_eq!(&*found.name, "c");
    touched(&mut cluster, Fact::Claim(Change::Applied(claim("d", "3", Some("aws:///a/i-1")))));
    assert!(cluster.claim_of(cluster.node("n").unwrap()).is_none(), "two claims are as good as none");
    assert!(cluster.nodes_with("").is_empty(), "an empty id matches nothing");
}

#[test]
fn an_older_version_never_replaces_a_newer_one_but_a_namesake_does() {
    let mut cluster = ClusterState::default();
    let tainted = json!({"spec": {"providerID": "aws:///a/i-1", "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    touched(&mut cluster, Fact::Node(Change::Applied(node("n", "10", "aws:///a/i-1", tainted))));
    touched(&mut cluster, Fact::Node(Change::Applied(node("n", "9", "aws:///a/i-1", json!({})))));
    assert_eq!(cluster.node("n").unwrap().taints.len(), 1, "the watch lagged behind the answer to our write");
    let listed = vec![node("n", "9", "aws:///a/i-1", json!({}))];
    touched(&mut cluster, Fact::Node(Change::Reset(listed)));
    assert_eq!(cluster.node("n").unwrap().taints.len(), 1, "and so did a full list");
    let other = json!({"metadata": {"name": "n", "uid": "another", "resourceVersion": "3"}});
    touched(&mut cluster, Fact::Node(Change::Applied(node("n", "3", "aws:///a/i-2", other))));
    assert_eq!(&*cluster.node("n").unwrap().uid, "another");
    touched(&mut cluster, Fact::Node(Change::Deleted(node("n", "10", "aws:///a/i-1", json!({})))));
    assert!(cluster.node("n").is_some(), "the end of the old one is not the end of its namesake");
}

#[test]
fn a_new_list_drops_what_is_no_longer_there_and_says_so() {
    let mut cluster = ClusterState::default();
    touched(&mut cluster, Fact::Pod(Change::Reset(vec![pod("a", "n", json!({})), pod("b", "m", json!({}))])));
    assert_eq!((cluster.pods_on("n").len(), cluster.pods_on("m").len()), (1, 1));
    let gone = touched(&mut cluster, Fact::Pod(Change::Reset(vec![pod("a", "n", json!({}))])));
    assert!(gone.contains(&Key::Node("m".into())));
    assert!(cluster.pods_on("m").is_empty());
}

#[test]
fn taints_of_the_right_key_and_wrong_effect_are_replaced_and_others_kept() {
    let taints = json!({"spec": {"taints": [
        {"key": "karpenter.sh/disrupted", "effect": "NoExecute"}, {"key": "team", "value": "a", "effect": "NoSchedule"}]}});
    let state = NodeState::of(&node("n", "1", "", taints)).unwrap();
    assert!(!state.is_tainted());
    let after = state.with_disrupted_taint();
    let shown: Vec<(&str, &str)> =
        after.iter().map(|taint| (taint.key.as_str(), taint.effect.as_str())).collect();
    assert_eq!(shown, [("team", "NoSchedule"), ("karpenter.sh/disrupted", "NoSchedule")]);
}

// Cases: TRM-9, TRM-10
#[test]
fn pods_tell_whether_they_bear_the_taint_and_which_volumes_they_use() {
    let mut cluster = ClusterState::default();
    let spec = json!({
        "tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "db-0"}},
                    {"name": "scratch", "ephemeral": {}}, {"name": "c", "emptyDir": {}}],
        "priorityClassName": "system-node-critical",
    });
    touched(&mut cluster, Fact::Pod(Change::Applied(pod("p", "n", spec))));
    let pods = cluster.pods_on("n");
    assert!(pods[0].tolerates_disrupted && pods[0].critical);
    assert_eq!(pods[0].grace_seconds, 30);
    let claims: Vec<&str> = pods[0].volume_claims.iter().map(|claim| &**claim).collect();
    assert_eq!(claims, ["db-0", "p-scratch"]);
    touched(
        &mut cluster,
        Fact::Pod(Change::Applied(pod(
            "q",
            "n",
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}),
        ))),
    );
    assert!(cluster.pods_on("n").iter().any(|pod| !pod.tolerates_disrupted));
}
