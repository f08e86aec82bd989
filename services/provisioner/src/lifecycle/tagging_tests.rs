use serde_json::json;

use super::*;

fn claim(annotations: serde_json::Value, node: Option<&str>) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "general-x7k2p", "annotations": annotations},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"nodeName": node},
    }))
    .unwrap()
}

#[test]
fn tags_are_wanted_from_the_nodes_name_on_until_both_annotations_say_so() {
    assert!(!needs_tags(&claim(json!({}), None)));
    assert!(needs_tags(&claim(json!({}), Some("ip-1"))));
    assert!(needs_tags(&claim(json!({"karpenter.k8s.aws/tagged": "true"}), Some("ip-1"))));
    let both = json!({"karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true"});
    assert!(!needs_tags(&claim(both, Some("ip-1"))));
}

#[test]
fn a_name_that_somebody_gave_is_kept() {
    let present: Tags = [("Name".to_owned(), "mine".to_owned())].into_iter().collect();
    let missing = missing_tags(&claim(json!({}), Some("ip-1")), "prod", &present);
    let expected = [("karpenter.sh/nodeclaim", "general-x7k2p"), ("eks:eks-cluster-name", "prod")];
    assert_eq!(missing, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
}
