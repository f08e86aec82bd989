//! Drift hashes equal those of the reference. `data/hashes.json` was recorded with its Go hashing library over structures of the
//! same names; the cases called "published" are from its own tests.

use api::{EC2NodeClassSpec, NodePool, hash};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("../data/hashes.json");

fn hash_of(case: &Value) -> String {
    if let Some(template) = case.get("template") {
        let pool: NodePool = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "a"},
            "spec": {"template": template},
        }))
        .unwrap();
        return hash::node_pool(&pool);
    }
    let mut spec = case["spec"].clone();
    for terms in ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"] {
        spec[terms] = json!([]);
    }
    let spec: EC2NodeClassSpec = serde_json::from_value(spec).unwrap();
    let text = |field: &str| case[field].as_str().unwrap_or_default().to_owned();
    hash::ec2_node_class(&spec, &text("family"), &text("caBundle"))
}

// Cases: DFT-22, DFT-23, DFT-24, DFT-25, DFT-26, DFT-27, DFT-28
#[test]
fn hashes_equal_the_recorded_ones() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() > 40);
    for case in &cases {
        assert_eq!(hash_of(case), case["hash"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn the_published_figures_are_among_the_recorded_ones() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    for (name, figure) in [
        ("only a class reference and the default expiry", "6821555240594823858"),
        ("expiry never", "17369979337536258260"),
        ("label, taint and grace period", "12895375106334205714"),
        ("published: base", "2608468723537941485"),
        ("published: other user data", "2153344579995979450"),
        ("published: connection tracking", "12177489405137904098"),
    ] {
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        assert_eq!(hash_of(case), figure, "{name}");
    }
}

// Cases: HSH-2, HSH-3
#[test]
fn what_is_outside_the_template_does_not_drift_nodes() {
    let pool = |spec: Value| -> NodePool {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec,
        }))
        .unwrap()
    };
    let template = json!({"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }});
    let plain = pool(json!({"template": template}));
    let busy = pool(json!({
        "template": template,
        "weight": 3,
        "limits": {"cpu": 1},
        "disruption": {"consolidateAfter": "Never", "budgets": []},
    }));
    assert_eq!(hash::node_pool(&plain), hash::node_pool(&busy));
    assert_eq!(hash::node_pool(&plain), "6821555240594823858");
}

#[test]
fn selector_terms_and_prefix_count_do_not_drift_nodes() {
    let spec = |terms: Value, prefixes: Value| -> EC2NodeClassSpec {
        serde_json::from_value(json!({
            "role": "r",
            "amiFamily": "AL2023",
            "ipPrefixCount": prefixes,
            "amiSelectorTerms": terms,
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            "capacityReservationSelectorTerms": terms,
        }))
        .unwrap()
    };
    assert_eq!(
        hash::ec2_node_class(&spec(json!([]), Value::Null), "AL2023", ""),
        hash::ec2_node_class(&spec(json!([{"tags": {"a": "b"}}]), json!(4)), "AL2023", ""),
    );
}
