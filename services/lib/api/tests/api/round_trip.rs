//! Manifests that people have are read unchanged and written back unchanged, fields of newer releases included.

use std::path::Path;

use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::manifests;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests"))
}

fn valid_documents() -> Vec<(String, Value)> {
    let documents: Vec<_> = manifests::accepted(root())
        .into_iter()
        .flat_map(|file| {
            let name = file.name;
            file.documents.into_iter().map(move |text| {
                let value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                (name.clone(), value)
            })
        })
        .collect();
    assert!(documents.len() > 20, "only {} documents found", documents.len());
    documents
}

fn through_our_types(document: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(document: &Value) -> Value {
        let typed: T = serde_json::from_value(document.clone()).unwrap_or_else(|e| panic!("{e}: {document}"));
        serde_json::to_value(typed).unwrap()
    }
    match document["kind"].as_str().unwrap() {
        "NodePool" => through::<NodePool>(document),
        "NodeClaim" => through::<NodeClaim>(document),
        "NodeOverlay" => through::<NodeOverlay>(document),
        "EC2NodeClass" => through::<EC2NodeClass>(document),
        "CapacityBuffer" => through::<CapacityBuffer>(document),
        other => panic!("no type for {other}"),
    }
}

/// Where `actual` lacks or changes something of `expected`. What it adds are defaults.
fn losses(expected: &Value, actual: &Value, path: &str, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, value) in expected {
                let path = format!("{path}.{key}");
                match actual.get(key) {
                    Some(actual) => losses(value, actual, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                losses(expected, actual, &format!("{path}[{index}]"), found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: {expected} became {actual}")),
    }
}

#[test]
fn every_valid_manifest_is_read_and_written_back_without_loss() {
    for (name, document) in valid_documents() {
        let written = through_our_types(&document);
        let mut found = Vec::new();
        losses(&document, &written, "", &mut found);
        assert!(found.is_empty(), "{name} lost {found:?}");
        assert_eq!(through_our_types(&written), written, "{name} changes when read twice");
    }
}

/// Puts a field that no release knows into every structure of the document. Maps of labels, tags and amounts are left
/// alone: a new key there is no new field.
fn with_future_fields(value: &mut Value, schema: &Value, added: &mut usize) {
    match value {
        Value::Object(fields) => {
            let Some(properties) = schema["properties"].as_object() else { return };
            for (key, field) in fields.iter_mut() {
                if let Some(schema) = properties.get(key) {
                    with_future_fields(field, schema, added);
                }
            }
            fields.insert("futureField".into(), json!({"nested": [1, "two", null]}));
            *added += 1;
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| with_future_fields(item, &schema["items"], added));
        }
        _ => {}
    }
}

#[test]
fn fields_of_a_newer_release_survive_being_read_and_written_back() {
    let schemas: Map<String, Value> = api::crd::all()
        .into_iter()
        .map(|crd| {
            let kind = crd.spec.names.kind.clone();
            (
                kind,
                serde_json::to_value(&crd).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                    .take(),
            )
        })
        .collect();
    let mut added = 0;
    for (name, mut document) in valid_documents() {
        let schema = &schemas[document["kind"].as_str().unwrap()]["properties"];
        for part in ["spec", "status"] {
            if let Some(value) = document.get_mut(part) {
                with_future_fields(value, &schema[part], &mut added);
            }
        }
        let written = through_our_types(&document);
        let mut found = Vec::new();
        losses(&document, &written, "", &mut found);
        assert!(found.is_empty(), "{name} lost {found:?}");
    }
    assert!(added > 100, "only {added} structures were tried");
}

#[test]
fn words_of_a_newer_release_survive_too() {
    let document = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
                "requirements": [{"key": "a", "operator": "Near", "values": ["b"]}],
                "expireAfter": "720h",
            }},
            "disruption": {
                "consolidateAfter": "1h",
                "consolidationPolicy": "WhenTheMoonIsFull",
                "budgets": [{"nodes": "1", "reasons": ["Bored"]}],
            },
        },
    });
    assert_eq!(through_our_types(&document), document);
}

#[test]
fn a_pool_without_a_disruption_stanza_gets_the_schema_s_defaults() {
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
            "requirements": [],
        }}},
    }))
    .unwrap();
    let written = serde_json::to_value(&pool).unwrap();
    assert_eq!(
        written["spec"]["disruption"],
        json!({
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "10%"}],
        })
    );
    assert_eq!(written["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert!(pool.is_managed() && !pool.is_static());
}

#[test]
fn a_class_without_a_spec_can_be_read() {
    let class: EC2NodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "a"},
    }))
    .unwrap();
    assert!(class.spec.subnet_selector_terms.is_empty());
}

#[test]
fn a_claim_condition_of_an_old_release_keeps_its_missing_reason() {
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-02T03:04:05Z", "message": ""});
    let read: api::conditions::Condition = serde_json::from_value(condition.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), condition);
}

#[test]
fn the_image_family_follows_from_the_alias_unless_it_is_named() {
    let class = |family: Value, alias: &str| -> EC2NodeClass {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "a"},
            "spec": {
                "amiFamily": family,
                "amiSelectorTerms": [{"alias": alias}],
                "subnetSelectorTerms": [],
                "securityGroupSelectorTerms": [],
            },
        }))
        .unwrap()
    };
    let family = |class: EC2NodeClass| class.spec.resolved_ami_family().map(|f| f.as_str().to_owned());
    assert_eq!(family(class(Value::Null, "bottlerocket@v1.2.3")).as_deref(), Some("Bottlerocket"));
    assert_eq!(family(class(Value::Null, "al2@latest")).as_deref(), Some("AL2"));
    assert_eq!(family(class(json!("Custom"), "al2023@latest")).as_deref(), Some("Custom"));
    assert_eq!(class(Value::Null, "al2023@v1").spec.alias(), Some(("al2023", "v1")));
}
