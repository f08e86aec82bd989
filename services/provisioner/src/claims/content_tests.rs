use super::*;

fn pool() -> NodePool {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "u-1"},
        "spec": {"template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "n"}},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
                "expireAfter": "48h", "terminationGracePeriod": "1h"
            }
        }}
    }))
    .unwrap()
}

fn wanted(requirements: Vec<Requirement>) -> NewClaim {
    NewClaim {
        requirements: requirements.into_iter().collect(),
        instance_types: Some(vec!["m5.large".into(), "c5.large".into()]),
        requests: Resources::new().with("cpu", "1500m".parse().unwrap()).with("pods", "3".parse().unwrap()),
        min_values_relaxed: false,
        annotations: [("karpenter.sh/traceparent".to_owned(), "00-x".to_owned())].into(),
    }
}

fn made(requirements: Vec<Requirement>) -> NodeClaim {
    claim(&pool(), "general-abcde".into(), wanted(requirements))
}

fn find<'a>(claim: &'a NodeClaim, key: &str) -> Vec<&'a Written> {
    claim.spec.requirements.iter().filter(|r| r.key == key).collect()
}

// Cases: SPR-13, SCH-A.5-1, SCH-A.6-6, SCH-L.1-13
#[test]
fn it_belongs_to_its_pool_and_carries_what_the_template_says() {
    let claim = made(vec![]);
    let meta = &claim.metadata;
    let owner = &meta.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
        ("NodePool", "general", "u-1")
    );
    assert_eq!((owner.block_owner_deletion, owner.controller), (Some(true), None));
    assert_eq!(meta.finalizers.as_deref(), Some(&["karpenter.sh/termination".to_owned()][..]));
    let labels = meta.labels.as_ref().unwrap();
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["karpenter.sh/nodepool"], "general");
    assert_eq!(labels["karpenter.k8s.aws/ec2nodeclass"], "default");
    let annotations = meta.annotations.as_ref().unwrap();
    assert_eq!(annotations["note"], "n");
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], api::hash::node_pool(&pool()));
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(annotations["karpenter.sh/nodeclaim-min-values-relaxed"], "false");
    assert_eq!(annotations["karpenter.sh/traceparent"], "00-x");
    assert_eq!(claim.spec.taints.as_ref().unwrap()[0].key, "dedicated");
    assert_eq!(claim.spec.startup_taints.as_ref().unwrap()[0].key, "cni");
    assert_eq!(serde_json::to_value(&claim).unwrap()["spec"]["expireAfter"], "48h");
    assert_eq!(serde_json::to_value(&claim).unwrap()["spec"]["terminationGracePeriod"], "1h");
    let requests = claim.spec.resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!((requests["cpu"].text(), requests["pods"].text()), ("1500m".into(), "3".into()));
}

// Cases: SCH-A.6-1
#[test]
fn instance_types_are_listed_by_name_and_keep_their_min_values() {
    let claim =
        made(vec![Requirement::new(labels::INSTANCE_TYPE, requirement::Operator::Exists, [""; 0], Some(2))]);
    let [types] = find(&claim, labels::INSTANCE_TYPE)[..] else { panic!("one entry") };
    assert_eq!(types.values(), ["c5.large", "m5.large"]);
    assert_eq!((&types.operator, types.min_values), (&Operator::In, Some(2)));
}

// Cases: SCH-A.5-2, SCH-A.5-5, SCH-B.1-1, SCH-B.4-6
#[test]
fn custom_labels_get_one_value_and_well_known_ones_none() {
    let claim = made(vec![
        Requirement::one_of("example.com/tier", ["gold", "silver"]),
        Requirement::new("example.com/rank", requirement::Operator::Gt, ["4"], None),
        Requirement::new("example.com/absent", requirement::Operator::DoesNotExist, [""; 0], None),
        Requirement::one_of(labels::ZONE, ["us-east-1a", "us-east-1b"]),
    ]);
    let labels = claim.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["example.com/tier"], "gold");
    assert_eq!(labels["example.com/rank"], "5");
    assert!(!labels.contains_key("example.com/absent"));
    assert!(!labels.contains_key("topology.kubernetes.io/zone"));
}

// Cases: SCH-A.6-2, SCH-L.1-13
#[test]
fn bounds_are_written_inclusive_and_exclusions_between_them_are_kept() {
    let mut bounded = Requirement::new("example.com/n", requirement::Operator::Gt, ["2"], None);
    bounded = bounded.intersect(&Requirement::new("example.com/n", requirement::Operator::Lt, ["9"], None));
    bounded = bounded.intersect(&Requirement::none_of("example.com/n", ["5"]));
    let claim = made(vec![bounded]);
    let written: Vec<(String, Vec<String>)> = find(&claim, "example.com/n")
        .iter()
        .map(|r| (r.operator.as_str().to_owned(), r.values().to_vec()))
        .collect();
    let expected = [("Gte", "3"), ("Lte", "8"), ("NotIn", "5")];
    assert_eq!(written, expected.map(|(o, v)| (o.to_owned(), vec![v.to_owned()])));
}

// Cases: SPR-13, SCH-L.1-13
#[test]
fn a_static_pool_leaves_the_choice_of_types_to_the_provider() {
    let wanted = NewClaim { instance_types: None, requests: Resources::new(), ..wanted(vec![]) };
    let claim = claim(&pool(), "x".into(), wanted);
    assert!(find(&claim, labels::INSTANCE_TYPE).is_empty());
    assert_eq!(claim.spec.resources, None);
}
