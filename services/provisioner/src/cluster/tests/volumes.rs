//! Volumes of pods, and pods that cannot be read.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::*;

pub(super) fn with_claim(number: u32, claim: &str) -> Arc<Pod> {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    pod(number, json!({"spec": {"volumes": volumes}}))
}

pub(super) fn volume_claim(
    name: &str,
    class: Option<&str>,
    volume: Option<&str>,
) -> Arc<PersistentVolumeClaim> {
    let claim = json!({
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"storageClassName": class, "volumeName": volume},
        "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
    });
    Arc::new(serde_json::from_value(claim).unwrap())
}

pub(super) fn volume(name: &str, zone: &str) -> Arc<PersistentVolume> {
    let terms = json!([{"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": [zone]}]}]);
    let volume = json!({
        "metadata": {"name": name},
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
    });
    Arc::new(serde_json::from_value(volume).unwrap())
}

pub(super) fn class(name: &str, is_default: bool) -> Arc<StorageClass> {
    let class = json!({
        "metadata": {"name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": is_default.to_string()}},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    Arc::new(serde_json::from_value(class).unwrap())
}

#[test]
fn an_event_of_a_volume_claim_concerns_its_own_pods_and_only_if_it_changes_them() {
    let mut state = state();
    state.storage_class(Change::Reset(vec![class("gp3", true)]), at(0));
    for (number, name) in [(1, "data-1"), (2, "data-2")] {
        state.volume_claim(Change::Applied(volume_claim(name, Some("gp3"), None)), at(0));
        state.pod(Streamed::Applied(with_claim(number, name)), at(0));
    }
    state.delta = Default::default();
    state.volume_claim(Change::Applied(volume_claim("data-1", Some("gp3"), None)), at(1));
    assert!(!state.delta.any && state.delta.changes.is_empty(), "it reads as before");
    // Bound, to a volume that is not known yet, and then is.
    state.volume_claim(Change::Applied(volume_claim("data-1", Some("gp3"), Some("pv-1"))), at(2));
    state.volume(Change::Applied(volume("pv-1", "z2")), at(3));
    let changed: Vec<&str> = state
        .delta
        .changes
        .iter()
        .filter_map(|change| match change {
            solver::Change::PodAdded(pod) => Some(&*pod.name),
            _ => None,
        })
        .collect();
    assert!(changed.contains(&"pod-1") && !changed.contains(&"pod-2"), "{changed:?}");
    let zone = |plan: &Plan, pod: &str| {
        let has = |node: &&solver::NewNode| node.pods.iter().any(|p| &*p.name == pod);
        plan.new_nodes.iter().find(has).map(|node| node.launch.zone.to_string())
    };
    assert_eq!(zone(&decide(&state), "pod-1").as_deref(), Some("z2"));
}

/// The pods that an event has read again are those that it returns: nothing else of its cost grows with the cluster.
#[test]
fn an_event_of_storage_has_only_the_pods_read_again_that_it_concerns() {
    const PODS: u32 = 500;
    let mut state = state();
    state.storage_class(Change::Reset(vec![class("gp3", true)]), at(0));
    for number in 0..PODS {
        let (claim, pv) = (format!("data-{number}"), format!("pv-{number}"));
        state.volume(Change::Applied(volume(&pv, "z1")), at(0));
        // One in a hundred is not bound yet.
        let bound = (number % 100 != 0).then_some(pv.as_str());
        state.volume_claim(Change::Applied(volume_claim(&claim, Some("gp3"), bound)), at(0));
        state.pod(Streamed::Applied(with_claim(number, &claim)), at(0));
    }
    state.pod(Streamed::Applied(with_claim(PODS, "data-7")), at(0));
    let claim_event = |state: &mut State, name: &str| {
        let change = Change::Applied(volume_claim(name, Some("gp3"), Some("pv-1")));
        let touched = Arc::make_mut(&mut state.storage).claim_changed(change);
        state.pods.resolved_with(&touched).len()
    };
    assert_eq!(claim_event(&mut state, "data-8"), 1);
    assert_eq!(claim_event(&mut state, "data-7"), 2, "two pods share it");
    assert_eq!(claim_event(&mut state, "of-nobody"), 0);
    let touched = Arc::make_mut(&mut state.storage).volume_changed(Change::Applied(volume("pv-9", "z2")));
    assert_eq!(state.pods.resolved_with(&touched).len(), 1);
    let touched = Arc::make_mut(&mut state.storage).class_changed(Change::Applied(class("gp3", true)));
    assert_eq!(state.pods.resolved_with(&touched).len(), 5, "bound claims need no class");
    state.pod(Streamed::Deleted(with_claim(8, "data-8")), at(1));
    assert_eq!(claim_event(&mut state, "data-8"), 0, "the pod is gone");
}

#[test]
fn a_node_attaches_what_its_type_does_until_its_drivers_report() {
    let mut state = state();
    let mut limited = kind("a.xlarge", 4);
    limited.attach_limits.insert(Arc::from("ebs.csi.aws.com"), 2);
    let types = Arc::new(vec![limited]);
    let offer =
        Offer { version: 2, types: Arc::new([(Arc::from("default"), types)].into()), ..Offer::default() };
    state.claim(Change::Applied(launched("one", &[])), at(0));
    // The catalogue may come later than the claim.
    state.offer_changed(offer, at(0));
    let limits = |state: &State| -> Vec<u32> {
        state.nodes.entries.values().flat_map(|entry| entry.node.csi_limits.values().copied()).collect()
    };
    assert_eq!(limits(&state), [2]);
    let report = json!({"metadata": {"name": "ip-1"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": [], "allocatable": {"count": 24}}]}});
    state.node(Change::Applied(node("ip-1", "one", json!({}))), at(1));
    state.csi(Change::Applied(Arc::new(serde_json::from_value(report).unwrap())), at(1));
    assert_eq!(limits(&state), [24]);
}

// Cases: CST-17, CST-18, SCH-H.3-3
#[test]
fn a_running_pod_that_cannot_be_read_still_takes_its_room() {
    let mut state = state();
    state.claim(Change::Applied(initialized("one", &[], 0)), at(0));
    state.node(Change::Applied(node("ip-1", "one", json!({}))), at(0));
    let odd = |cpu: &str| {
        let selector = json!([{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x", "y"]}]}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}});
        pod(
            1,
            json!({
                "spec": {"nodeName": "ip-1", "affinity": {"nodeAffinity": required},
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                "status": {"phase": "Running", "conditions": []},
            }),
        )
    };
    state.pod(Streamed::Applied(pod(2, json!({}))), at(1));
    state.pod(Streamed::Applied(odd("3500m")), at(1));
    assert_eq!(shown(&state, 1), on("ip-1"));
    assert_eq!(decide(&state).new_nodes.len(), 1, "half a core is left");
    state.pod(Streamed::Applied(odd("3")), at(2));
    assert!(decide(&state).new_nodes.is_empty(), "one core is left");
    // Nothing of it can be read: the node counts as full.
    state.pod(Streamed::Applied(odd("many")), at(3));
    assert_eq!(decide(&state).new_nodes.len(), 1);
    let key = PodKey { namespace: Arc::from("default"), name: Arc::from("pod-1") };
    assert!(state.pods.records[&key].pod.do_not_disrupt, "nobody knows where it could go");
}
