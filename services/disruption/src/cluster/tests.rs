//! What the cluster state makes of watches and answered writes.

use std::sync::Arc;

use api::{NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use model::labels;
use runtime::watch::{Change, Streamed};
use serde_json::{Value, json};

use super::{ClusterState, Fact, Touched};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(name: &str, instance: &str, version: u64) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": {labels::NODEPOOL: "general", labels::EC2NODECLASS: "default", labels::INITIALIZED: "true"}},
        "spec": {"providerID": format!("aws:///z/{instance}")},
    }))
    .unwrap()
}

fn claim(name: &str, instance: &str, annotations: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": {labels::NODEPOOL: "general"}, "annotations": annotations},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": format!("aws:///z/{instance}")},
    }))
    .unwrap()
}

fn pod(name: &str, node: &str, bound: i64, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound).to_string()}]},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["metadata"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn learn(cluster: &mut ClusterState, change: impl Into<Fact>) -> Touched {
    let mut touched = Touched::default();
    cluster.apply(change.into(), &mut touched);
    touched
}

fn applied<K>(cluster: &mut ClusterState, object: K) -> Touched
where
    Fact: From<Change<K>>,
{
    learn(cluster, Change::Applied(Arc::new(object)))
}

fn came(cluster: &mut ClusterState, pod: Pod) -> Touched {
    learn(cluster, Streamed::Applied(Arc::new(pod)))
}

fn went(cluster: &mut ClusterState, pod: Pod) -> Touched {
    learn(cluster, Streamed::Deleted(Arc::new(pod)))
}

// Cases: NDU-1, SCH-K-64
#[test]
fn node_and_claim_are_joined_by_provider_id_and_two_claims_are_as_good_as_none() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, node("n", "i-1", 1));
    let touched = applied(&mut cluster, claim("c", "i-1", json!({})));
    assert!(touched.claims.contains("c") && touched.decisions);
    let n = Arc::clone(cluster.node("n").unwrap());
    assert_eq!(&*cluster.claim_of(&n).unwrap().name, "c");
    applied(&mut cluster, claim("d", "i-1", json!({})));
    assert!(cluster.claim_of(&n).is_none());
    assert_eq!(cluster.conflicting_claims(&n), vec![Arc::from("c"), Arc::from("d")]);
    learn(&mut cluster, Change::Deleted(Arc::new(claim("d", "i-1", json!({})))));
    assert_eq!(&*cluster.claim_of(&n).unwrap().name, "c");
    assert!(cluster.conflicting_claims(&n).is_empty());
}

#[test]
fn the_answer_to_a_write_is_not_undone_by_an_older_event() {
    let mut cluster = ClusterState::default();
    let mut tainted = node("n", "i-1", 7);
    tainted.spec.as_mut().unwrap().taints = Some(
        serde_json::from_value(json!([{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}])).unwrap(),
    );
    applied(&mut cluster, tainted);
    applied(&mut cluster, node("n", "i-1", 5));
    assert!(cluster.node("n").unwrap().tainted);
}

#[test]
fn the_answers_to_writes_are_not_undone_by_a_list_that_was_made_before_them() {
    let mut cluster = ClusterState::default();
    let mut tainted = node("n", "i-1", 7);
    tainted.spec.as_mut().unwrap().taints = Some(
        serde_json::from_value(json!([{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}])).unwrap(),
    );
    let note =
        json!({"id": "c1", "method": "drift", "removes": 1, "needs": 0, "proposed": "2026-01-01T00:00:00Z"});
    let mut noted = claim("c", "i-1", json!({labels::COMMAND: note.to_string()}));
    noted.metadata.resource_version = Some("10".to_owned());
    applied(&mut cluster, tainted);
    applied(&mut cluster, noted);
    applied(&mut cluster, pool("11", "24h"));
    learn(&mut cluster, Change::Reset(vec![Arc::new(node("n", "i-1", 6)), Arc::new(node("m", "i-2", 5))]));
    learn(&mut cluster, Change::Reset(vec![Arc::new(claim("c", "i-1", json!({})))]));
    learn(&mut cluster, Change::Reset(vec![Arc::new(pool("9", "1h"))]));
    assert!(cluster.node("n").unwrap().tainted, "a list that says otherwise is the older");
    assert!(cluster.node("m").is_some());
    assert!(cluster.claims_of("c1").any(|claim| claim.note.is_some()));
    assert_eq!(cluster.claims_version(), 10, "and a what-if must know of it");
    let version = || cluster.pool("general").unwrap().metadata.resource_version.clone();
    assert_eq!(version().as_deref(), Some("11"));

    learn(&mut cluster, Change::Reset(vec![Arc::new(node("n", "i-1", 8))]));
    assert!(!cluster.node("n").unwrap().tainted, "somebody took it off since");
    learn(&mut cluster, Change::<NodeClaim>::Reset(Vec::new()));
    assert!(cluster.claim("c").is_none(), "what is gone is gone");
}

fn pool(version: &str, after: &str) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "uid-p", "resourceVersion": version},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
            "disruption": {"consolidateAfter": after}},
    }))
    .unwrap()
}

#[test]
fn a_heartbeat_touches_nobody_and_frees_nothing() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, claim("c", "i-1", json!({})));
    applied(&mut cluster, node("n", "i-1", 1));
    let freed = cluster.freed();
    let touched = applied(&mut cluster, node("n", "i-1", 2));
    assert!(touched.claims.is_empty() && !touched.decisions);
    assert_eq!(cluster.freed(), freed);
}

// Cases: PEV-1
#[test]
fn the_last_pod_event_comes_from_the_pods_own_times_and_outlives_them() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, node("n", "i-1", 1));
    // As after a restart: pods that were bound long ago.
    learn(&mut cluster, Streamed::<Pod>::Listing);
    came(&mut cluster, pod("a", "n", 100, json!({})));
    came(&mut cluster, pod("b", "n", 200, json!({})));
    learn(&mut cluster, Streamed::<Pod>::Listed);
    assert_eq!(cluster.last_pod_event("n"), Some(at(200)), "not the time of the restart");
    let leaving = json!({"deletionTimestamp": at(530).to_string(), "deletionGracePeriodSeconds": 30});
    came(&mut cluster, pod("b", "n", 200, leaving.clone()));
    assert_eq!(cluster.last_pod_event("n"), Some(at(500)), "when somebody asked it to end");
    went(&mut cluster, pod("b", "n", 200, leaving));
    assert_eq!(cluster.last_pod_event("n"), Some(at(500)));
}

#[test]
fn pods_of_daemon_sets_are_no_events() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, node("n", "i-1", 1));
    let owner =
        json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "x"}]});
    came(&mut cluster, pod("d", "n", 100, owner));
    assert_eq!(cluster.last_pod_event("n"), None);
    assert_eq!(cluster.pods_on("n").count(), 1);
}

#[test]
fn room_comes_free_when_a_pod_goes_and_not_when_one_comes() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, node("n", "i-1", 1));
    let before = cluster.freed();
    came(&mut cluster, pod("a", "n", 100, json!({})));
    assert_eq!(cluster.freed(), before);
    went(&mut cluster, pod("a", "n", 100, json!({})));
    assert!(cluster.freed() > before);
}

#[test]
fn a_pod_that_a_full_list_does_not_have_is_gone_and_none_is_before_the_list_is_complete() {
    let mut cluster = ClusterState::default();
    applied(&mut cluster, node("n", "i-1", 1));
    came(&mut cluster, pod("a", "n", 100, json!({})));
    came(&mut cluster, pod("b", "n", 100, json!({})));
    learn(&mut cluster, Streamed::<Pod>::Listing);
    came(&mut cluster, pod("b", "n", 100, json!({})));
    came(&mut cluster, pod("c", "n", 100, json!({})));
    assert_eq!(cluster.pods_on("n").count(), 3);
    learn(&mut cluster, Streamed::<Pod>::Listed);
    let left: Vec<&str> = cluster.pods_on("n").map(|pod| &*pod.resident.pod.name).collect();
    assert_eq!(left, ["b", "c"]);
}

#[test]
fn a_command_is_found_by_the_notes_on_its_claims_and_the_marks_on_its_replacements() {
    let mut cluster = ClusterState::default();
    let note =
        json!({"id": "c1", "method": "drift", "removes": 1, "needs": 1, "proposed": "2026-01-01T00:00:00Z"});
    applied(&mut cluster, claim("old", "i-1", json!({labels::COMMAND: note.to_string()})));
    applied(&mut cluster, claim("new", "i-2", json!({labels::COMMAND: "c1"})));
    let names: Vec<&str> = cluster.claims_of("c1").map(|claim| &*claim.name).collect();
    assert_eq!(names, ["new", "old"]);
    assert_eq!(cluster.claim("new").unwrap().made_for.as_deref(), Some("c1"));
    assert_eq!(cluster.claim("old").unwrap().note.as_ref().unwrap().needs, 1);
    learn(&mut cluster, Change::Reset(vec![Arc::new(claim("new", "i-2", json!({})))]));
    assert_eq!(cluster.commands().count(), 0);
}

#[test]
fn what_a_pod_requests_is_counted_in_millicores_and_bytes() {
    let mut cluster = ClusterState::default();
    came(&mut cluster, pod("a", "n", 100, json!({})));
    assert_eq!(cluster.pods_on("n").next().unwrap().requests, (250, 1 << 30));
}

#[test]
fn the_last_replacement_of_a_pool_is_its_youngest_claim_made_for_a_command() {
    let mut cluster = ClusterState::default();
    let made = |name: &str, second: i64, command: Option<&str>| {
        let annotations = command.map_or(json!({}), |id| json!({labels::COMMAND: id}));
        let mut claim = claim(name, name, annotations);
        claim.metadata.creation_timestamp =
            Some(serde_json::from_value(json!(at(second).to_string())).unwrap());
        claim
    };
    applied(&mut cluster, made("a", 100, Some("c1")));
    applied(&mut cluster, made("b", 200, Some("c2")));
    applied(&mut cluster, made("c", 300, None));
    assert_eq!(cluster.last_replacement("general"), Some(at(200)));
    assert_eq!(cluster.last_replacement("other"), None);
    learn(&mut cluster, Change::Deleted(Arc::new(made("b", 200, Some("c2")))));
    assert_eq!(cluster.last_replacement("general"), Some(at(100)));
    applied(&mut cluster, made("a", 100, None));
    assert_eq!(cluster.last_replacement("general"), None, "it stands for no command any more");
}
