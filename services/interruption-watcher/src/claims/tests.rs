use serde_json::{Value, json};

use super::*;

fn object(name: &str, instance: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
            "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "a", "operator": "In", "values": ["b"]}], "expireAfter": "Never",
        },
        "status": {"providerID": format!("aws:///us-west-2a/{instance}"), "nodeName": "n1",
                   "conditions": [{"type": "Initialized", "status": "True"}]},
    })
}

fn parsed(value: &Value) -> Arc<ClaimObject> {
    Arc::new(serde_json::from_value(value.clone()).unwrap())
}

#[test]
fn a_claim_is_read_with_all_that_a_warning_needs() {
    let mut value = object("a", "i-1");
    value["metadata"]["annotations"] = json!({
        "karpenter.sh/nodeclaim-termination-timestamp": "2026-11-16T08:00:00Z",
        "karpenter.sh/traceparent": "00-1-2-01", "karpenter.sh/disruption-command": "rebalance-x",
    });
    value["metadata"]["deletionTimestamp"] = json!("2026-11-16T07:00:00Z");
    let claim = Claim::of(&parsed(&value)).unwrap();
    assert_eq!((&*claim.instance, &*claim.node, &*claim.zone), ("i-1", "n1", "us-west-2a"));
    assert!(claim.managed && claim.deleting && claim.initialized);
    assert_eq!(claim.deadline, Some("2026-11-16T08:00:00Z".parse().unwrap()));
    assert_eq!(
        (claim.command.as_deref(), claim.traceparent.as_deref()),
        (Some("rebalance-x"), Some("00-1-2-01"))
    );
    let bare = json!({"metadata": {"name": "b", "uid": "1"}, "spec": {"nodeClassRef": {"kind": "Other", "group": "x"}}});
    let claim = Claim::of(&parsed(&bare)).unwrap();
    assert!(!claim.managed && claim.instance.is_empty() && claim.deadline.is_none());
}

#[test]
fn claims_are_found_by_instance_until_they_or_their_instance_go() {
    let mut table = Table::default();
    let names = |table: &Table, id: &str| -> Vec<String> {
        table.of_instances(&[id.to_owned()]).iter().map(|claim| claim.name.to_string()).collect()
    };
    table.change(Change::Reset(vec![parsed(&object("a", "i-1")), parsed(&object("b", "i-2"))]));
    assert_eq!(names(&table, "i-1"), ["a"]);
    table.change(Change::Applied(parsed(&object("c", "i-1"))));
    assert_eq!(names(&table, "i-1"), ["a", "c"], "two claims of one instance");
    table.change(Change::Applied(parsed(&object("a", "i-3"))));
    assert_eq!((names(&table, "i-1"), names(&table, "i-3")), (vec!["c".to_owned()], vec!["a".to_owned()]));
    table.change(Change::Deleted(parsed(&object("c", "i-1"))));
    assert!(names(&table, "i-1").is_empty());
    assert_eq!(table.managed(), 2);
    table.change(Change::Reset(vec![]));
    assert!(names(&table, "i-2").is_empty() && table.by_instance.is_empty());
}

#[test]
fn replacements_are_found_by_their_command() {
    let mut table = Table::default();
    let mut made = object("r", "i-9");
    made["metadata"]["annotations"] = json!({"karpenter.sh/disruption-command": "rebalance-uid-a"});
    table.change(Change::Reset(vec![parsed(&object("a", "i-1")), parsed(&made)]));
    let found = table.of_command("rebalance-uid-a");
    assert_eq!(found.iter().map(|claim| &*claim.name).collect::<Vec<_>>(), ["r"]);
}
