use api::NodeClaim;
use runtime::Service;
use serde_json::json;

use super::*;

fn claim(status: &str, since: &str, deleted: bool) -> Arc<NodeClaim> {
    let mut object: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "general-x", "uid": "u", "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
        "status": {"conditions": [
            {"type": "Launched", "status": status, "reason": "Launched", "message": "", "lastTransitionTime": since},
        ]},
    }))
    .unwrap();
    if deleted {
        object.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
    }
    Arc::new(object)
}

async fn text_after(changes: Vec<Change<NodeClaim>>) -> String {
    let metrics = Metrics::new(Service::Provisioner);
    let stop = tokio_util::sync::CancellationToken::new();
    let general = General::new(&metrics, Leadership::always(&stop));
    let mut tracker = Tracker::<NodeClaim>::new(&metrics, &general, true);
    for change in changes {
        tracker.change(change).await;
    }
    metrics.prometheus_text()
}

fn line<'a>(text: &'a str, start: &str, parts: &[&str]) -> Option<&'a str> {
    text.lines().find(|l| l.starts_with(start) && parts.iter().all(|part| l.contains(part)))
}

#[tokio::test]
async fn a_condition_that_changes_is_counted_and_timed_under_both_names() {
    let text = text_after(vec![
        Change::Reset(vec![claim("Unknown", "2026-01-01T00:00:00Z", false)]),
        Change::Applied(claim("True", "2026-01-01T00:00:03Z", false)),
    ])
    .await;
    let own = ["type=\"Launched\"", "status=\"True\"", "karpenter_sh_nodepool=\"general\""];
    let found = line(&text, "operator_nodeclaim_status_condition_transitions_total{", &own).unwrap();
    assert!(found.ends_with(" 1"), "{found}");
    let before = ["status=\"Unknown\"", "karpenter_k8s_aws_ec2nodeclass=\"default\""];
    let found = line(&text, "operator_nodeclaim_status_condition_transition_seconds_sum{", &before).unwrap();
    assert!(found.ends_with(" 3.0"), "{found}");
    let general = ["kind=\"NodeClaim\"", "group=\"karpenter.sh\"", "status=\"True\"", "name=\"general-x\""];
    assert!(line(&text, "operator_status_condition_count{", &general).is_some(), "{text}");
}

#[tokio::test]
async fn what_is_gone_is_not_shown_any_more_and_its_end_was_timed() {
    let deleted = claim("True", "2026-01-01T00:00:00Z", true);
    let text = text_after(vec![
        Change::Reset(vec![claim("True", "2026-01-01T00:00:00Z", false)]),
        Change::Applied(deleted.clone()),
    ])
    .await;
    assert!(line(&text, "operator_nodeclaim_termination_current_time_seconds{", &[]).is_some());
    let text = text_after(vec![Change::Applied(deleted.clone()), Change::Deleted(deleted)]).await;
    assert!(line(&text, "operator_nodeclaim_status_condition_count{", &[]).is_none());
    let ended = line(&text, "operator_nodeclaim_termination_duration_seconds_count{", &[]).unwrap();
    assert!(ended.ends_with(" 1"), "{ended}");
}
