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
fn tags_are_looked_at_again_when_an_annotation_is_removed() {
    let both = json!({"karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true"});
    let before = claim(both, Some("ip-1"));
    let without = claim(json!({"karpenter.k8s.aws/tagged": "true"}), Some("ip-1"));
    assert!(needs_tags_again(&before, &without));
    assert!(!needs_tags_again(&before, &before));
    assert!(!needs_tags_again(&without, &without), "it is in line already");
}

#[test]
fn a_name_that_somebody_gave_is_kept() {
    let present: Tags = [("Name".to_owned(), "mine".to_owned())].into_iter().collect();
    let missing = missing_tags(&claim(json!({}), Some("ip-1")), "prod", &present);
    let expected = [("karpenter.sh/nodeclaim", "general-x7k2p"), ("eks:eks-cluster-name", "prod")];
    assert_eq!(missing, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
}

#[test]
fn a_claim_that_another_release_launched_lacks_its_network_until_it_is_written() {
    let launched = |annotations: serde_json::Value| {
        let mut claim = claim(annotations, None);
        claim.status.get_or_insert_default().provider_id = Some("aws:///us-west-2a/i-1".to_owned());
        claim
    };
    assert!(!lacks_network(&claim(json!({}), None)), "not launched yet");
    let both = json!({"karpenter.k8s.aws/tagged": "true", "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true"});
    assert!(lacks_network(&launched(both)));
    assert!(lacks_network(&launched(json!({"karpenter.k8s.aws/launched-subnet": "subnet-1"}))));
    let written = launch::network(Some("subnet-1"), ["sg-2", "sg-1", "sg-2"].into_iter());
    assert_eq!(written["karpenter.k8s.aws/launched-subnet"], "subnet-1");
    assert_eq!(written["karpenter.k8s.aws/launched-security-groups"], "sg-1,sg-2");
    assert!(!lacks_network(&launched(json!(written))));
}
