use serde_json::json;

use super::*;

fn claim(name: &str, version: u64, provider_id: Option<&str>) -> Arc<NodeClaim> {
    let object = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"requirements": [{"key": "a", "operator": "Exists"}],
                 "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": provider_id},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn node(name: &str, version: u64, provider_id: &str) -> Arc<Node> {
    let object = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "spec": {"providerID": provider_id},
        "status": {"images": [{"names": ["a"]}]},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn names(of: &[Name]) -> Vec<&str> {
    of.iter().map(|name| &**name).collect()
}

// Cases: NDU-1, SCH-K-64
#[test]
fn a_node_is_news_for_the_claim_with_its_provider_id_in_either_order() {
    let mut index = Index::default();
    index.nodes_changed(Change::Applied(node("n", 1, "i-1")));
    index.claims_changed(Change::Applied(claim("c", 2, Some("i-1"))));
    assert_eq!(index.nodes_of(&claim("c", 2, Some("i-1"))).len(), 1);
    let concerned = index.nodes_changed(Change::Applied(node("n", 3, "i-1")));
    assert_eq!(names(&concerned), ["c"]);
    assert_eq!(names(&index.nodes_changed(Change::Deleted(node("n", 4, "i-1")))), ["c"]);
    assert!(index.nodes_of(&claim("c", 2, Some("i-1"))).is_empty());
}

// Cases: FIN-14, NDU-3, SCH-K-66
#[test]
fn a_claim_without_provider_id_has_no_nodes_even_where_a_node_has_none() {
    let mut index = Index::default();
    index.nodes_changed(Change::Applied(node("n", 1, "")));
    index.claims_changed(Change::Applied(claim("c", 2, None)));
    assert!(index.nodes_of(&claim("c", 2, None)).is_empty());
    assert!(index.nodes_changed(Change::Applied(node("n", 3, ""))).is_empty());
}

#[test]
fn an_older_event_does_not_undo_an_own_write() {
    let mut index = Index::default();
    index.claims_changed(Change::Applied(claim("c", 5, None)));
    index.claim_written(Arc::unwrap_or_clone(claim("c", 9, Some("i-1"))));
    assert!(index.claims_changed(Change::Applied(claim("c", 7, None))).is_empty());
    assert_eq!(decision::provider_id(&index.claim("c").unwrap().object), Some("i-1"));
    index.claims_changed(Change::Reset(vec![claim("c", 8, None)]));
    assert_eq!(
        decision::provider_id(&index.claim("c").unwrap().object),
        Some("i-1"),
        "nor does an older list"
    );
}

// Cases: CST-95, SCH-H.10-9
#[test]
fn a_write_that_ends_after_the_claim_is_gone_does_not_bring_it_back() {
    let mut index = Index::default();
    index.claims_changed(Change::Applied(claim("c", 5, None)));
    index.claims_changed(Change::Deleted(claim("c", 6, None)));
    index.claim_written(Arc::unwrap_or_clone(claim("c", 7, Some("i-1"))));
    assert!(index.claim("c").is_none());
}

#[test]
fn what_was_learned_stays_with_the_claim_and_not_with_its_name() {
    let mut index = Index::default();
    index.claims_changed(Change::Applied(claim("c", 5, None)));
    index.memory("c").unwrap().failed_launches = 3;
    index.claims_changed(Change::Applied(claim("c", 6, None)));
    assert_eq!(index.claim("c").unwrap().memory.failed_launches, 3);
    let mut other = Arc::unwrap_or_clone(claim("c", 1, None));
    other.metadata.uid = Some("another".into());
    index.claims_changed(Change::Applied(Arc::new(other)));
    assert_eq!(index.claim("c").unwrap().memory.failed_launches, 0);
}

#[test]
fn a_changed_class_lets_failed_launches_be_tried_at_once() {
    let mut index = Index::default();
    index.claims_changed(Change::Applied(claim("failed", 1, None)));
    index.claims_changed(Change::Applied(claim("fresh", 2, None)));
    index.memory("failed").unwrap().launch_after = Some(Timestamp::MAX);
    let class: EC2NodeClass = serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": {
        "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []}}))
    .unwrap();
    assert_eq!(names(&index.classes_changed(Change::Applied(Arc::new(class)))), ["failed"]);
    assert_eq!(index.claim("failed").unwrap().memory.launch_after, None);
}

#[test]
fn what_nobody_needs_any_more_is_not_kept() {
    let requirements = |name: &str, id: Option<&str>| {
        let mut object = Arc::unwrap_or_clone(claim(name, 1, id));
        crate::watches::slim_claim(&mut object);
        object.spec.requirements.len()
    };
    assert_eq!((requirements("waits", None), requirements("runs", Some("i-1"))), (1, 0));
    let mut object = Arc::unwrap_or_clone(node("n", 3, "i-1"));
    crate::watches::slim_node(&mut object);
    assert!(object.status.unwrap().images.is_none());

    // What a write answers does not come from a watch.
    let mut index = Index::default();
    index.claims_changed(Change::Applied(claim("c", 1, None)));
    index.claim_written(Arc::unwrap_or_clone(claim("c", 2, Some("i-1"))));
    assert!(index.claim("c").unwrap().object.spec.requirements.is_empty());
}

#[test]
fn a_write_that_changed_nothing_keeps_the_object_that_is_shared() {
    let mut index = Index::default();
    let known = claim("c", 5, None);
    index.claims_changed(Change::Applied(Arc::clone(&known)));
    index.claim_written((*known).clone());
    assert!(Arc::ptr_eq(&index.claim("c").unwrap().object, &known));
}
