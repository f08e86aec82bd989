//! Claims that one pod may use at a time.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;

use super::*;

fn with_claim(number: u32, patch: Value) -> Arc<Pod> {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]);
    let mut whole = json!({"spec": {"volumes": volumes}});
    merge(&mut whole, patch);
    pod(number, whole)
}

fn waits(state: &State, number: u32) -> Option<String> {
    state.about("default", &format!("pod-{number}")).unwrap().pod.rejected
}

#[test]
fn of_pods_that_share_a_claim_for_one_pod_only_the_first_gets_a_node() {
    let mut state = state();
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": {"name": "ebs"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    }))
    .unwrap();
    state.storage_class(Change::Reset(vec![Arc::new(class)]), at(0));
    let claim = |mode: &str| -> Arc<PersistentVolumeClaim> {
        let claim = json!({
            "metadata": {"namespace": "default", "name": "one"},
            "spec": {"storageClassName": "ebs", "accessModes": [mode]},
        });
        Arc::new(serde_json::from_value(claim).unwrap())
    };
    state.volume_claim(Change::Reset(vec![claim("ReadWriteOncePod")]), at(0));
    for number in [2, 1] {
        state.pod(Streamed::Applied(with_claim(number, json!({}))), at(0));
    }
    assert_eq!(waits(&state, 1), None);
    let why = waits(&state, 2).expect("the second waits");
    assert!(why.contains("default/one") && why.contains("default/pod-1 waits for it too"), "{why}");

    state.node(Change::Applied(node("ip-1", "other", json!({}))), at(1));
    let running = json!({"spec": {"nodeName": "ip-1"}, "status": {"phase": "Running", "conditions": []}});
    state.pod(Streamed::Applied(with_claim(1, running)), at(1));
    assert!(waits(&state, 2).is_some_and(|why| why.contains("default/pod-1 uses it")));
    state.triggers.clear();
    state.pod(Streamed::Deleted(with_claim(1, json!({}))), at(2));
    assert_eq!((waits(&state, 2), state.triggers.len()), (None, 1), "its turn has come");

    // Once the claim is for several, nobody waits.
    state.pod(Streamed::Applied(with_claim(3, json!({}))), at(3));
    assert!(waits(&state, 3).is_some());
    state.volume_claim(Change::Applied(claim("ReadWriteOnce")), at(4));
    assert_eq!(waits(&state, 3), None);
}
