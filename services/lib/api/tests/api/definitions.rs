//! The definitions in `charts/karpenter-crd` are those of the Rust types, and have the shape that clients rely on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::manifests;

fn chart() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../charts/karpenter-crd"))
}

#[test]
fn the_chart_is_what_crdgen_writes() {
    let files = api::crd::chart().unwrap();
    for (path, content) in &files {
        let stored = fs::read_to_string(chart().join(path)).unwrap_or_default();
        assert!(
            stored == *content,
            "charts/karpenter-crd/{path} is stale: run `cargo run -p karpenter-api --bin crdgen`"
        );
    }
    let expected: BTreeSet<_> = files.iter().filter_map(|(path, _)| path.strip_prefix("files/")).collect();
    for entry in fs::read_dir(chart().join("files")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(expected.contains(name.as_str()), "charts/karpenter-crd/files/{name} is none of crdgen's");
    }
}

#[test]
fn the_chart_s_definitions_are_plain_yaml_that_reads_back_as_the_definition() {
    for crd in api::crd::all() {
        let path = chart().join("files").join(format!("{}.yaml", crd.spec.names.plural));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("{{"), "{} holds a template expression", path.display());
        let read: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, crd);
    }
}

#[test]
fn names_scopes_columns_and_subresources_are_the_reference_s() {
    let table: Vec<Value> = api::crd::all()
        .iter()
        .map(|crd| {
            let names = &crd.spec.names;
            let [version] = &crd.spec.versions[..] else { panic!("one version each") };
            assert!(version.served && version.storage);
            let columns: Vec<_> = version
                .additional_printer_columns
                .iter()
                .flatten()
                .map(|c| format!("{}{}:{}", if c.priority == Some(1) { "w " } else { "" }, c.name, c.type_))
                .collect();
            let scale = version.subresources.as_ref().unwrap().scale.as_ref().map(|scale| {
                assert_eq!(scale.label_selector_path, None);
                format!("{} {}", scale.spec_replicas_path, scale.status_replicas_path)
            });
            assert!(version.subresources.as_ref().unwrap().status.is_some());
            json!([
                format!("{}.{}/{}", names.plural, crd.spec.group, version.name),
                names.kind,
                names.singular,
                names.short_names.clone().unwrap_or_default(),
                names.categories,
                crd.spec.scope,
                columns.join(" "),
                scale,
            ])
        })
        .collect();
    assert_eq!(
        json!(table),
        json!([
            [
                "capacitybuffers.autoscaling.x-k8s.io/v1beta1",
                "CapacityBuffer",
                "capacitybuffer",
                ["cb"],
                ["autoscaling"],
                "Namespaced",
                "Strategy:string PodTemplate:string Replicas:integer ConditionsType:string ConditionsStatus:string ConditionsReason:string Age:date",
                null
            ],
            [
                "ec2nodeclasses.karpenter.k8s.aws/v1",
                "EC2NodeClass",
                "ec2nodeclass",
                ["ec2nc", "ec2ncs"],
                ["karpenter"],
                "Cluster",
                "Ready:string Age:date w Role:string",
                null
            ],
            [
                "nodeclaims.karpenter.sh/v1",
                "NodeClaim",
                "nodeclaim",
                [],
                ["karpenter"],
                "Cluster",
                "Type:string Capacity:string Zone:string Node:string Ready:string Age:date w ImageID:string w ID:string w NodePool:string w NodeClass:string w Drifted:string",
                null
            ],
            [
                "nodeoverlays.karpenter.sh/v1alpha1",
                "NodeOverlay",
                "nodeoverlay",
                ["overlays"],
                ["karpenter"],
                "Cluster",
                "Ready:string Age:date w Weight:integer",
                null
            ],
            [
                "nodepools.karpenter.sh/v1",
                "NodePool",
                "nodepool",
                [],
                ["karpenter"],
                "Cluster",
                "NodeClass:string Nodes:string Ready:string Age:date w Weight:integer w CPU:string w Memory:string",
                ".spec.replicas .status.nodes"
            ],
        ])
    );
}

/// Calls `visit` with every schema and its path.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            walk(&schema[inner], &format!("{path}[]"), visit);
        }
    }
}

fn walk_all(mut visit: impl FnMut(&str, &Value)) {
    for crd in api::crd::all() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        walk(&schema["openAPIV3Schema"], &crd.spec.names.kind, &mut visit);
    }
}

#[test]
fn unknown_fields_are_pruned_and_nothing_may_be_null() {
    walk_all(|path, schema| {
        assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], Value::Null, "{path}");
        assert_eq!(schema["nullable"], Value::Null, "{path}");
    });
}

#[test]
fn every_field_is_explained() {
    let mut fields = 0;
    walk_all(|path, schema| {
        if !path.ends_with("[]") && !path.ends_with(".spec") && !path.ends_with(".status") {
            fields += 1;
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(text.len() > 10 && text.ends_with('.'), "{path} is described as {text:?}");
        }
    });
    assert!(fields > 150, "only {fields} fields seen");
}

#[test]
fn every_rule_has_a_manifest_that_breaks_it() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests"));
    let expected: Vec<_> = manifests::rejected(root).into_iter().map(|file| file.expected).collect();
    let mut rules = 0;
    walk_all(|path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            rules += 1;
            let message = rule["message"].as_str().unwrap();
            assert!(
                expected.iter().any(|part| message.contains(part.as_str())),
                "{path}: nothing breaks {message:?}"
            );
        }
    });
    assert!(rules > 70, "only {rules} rules seen");
}

#[test]
fn rejected_manifests_are_yaml_of_the_kind_they_are_named_for_and_updates_of_one_object() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests"));
    for file in manifests::rejected(root) {
        let documents: Vec<Value> = file
            .documents
            .iter()
            .map(|text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", file.name)))
            .collect();
        for document in &documents {
            let kind = document["kind"].as_str().unwrap().to_lowercase();
            assert!(file.name.starts_with(&format!("{kind}-")), "{} holds a {kind}", file.name);
            assert_eq!(document["metadata"], documents[0]["metadata"], "{}", file.name);
        }
        if file.attempt == manifests::Attempt::UpdateStatus {
            assert_eq!(documents[0]["spec"], documents[1]["spec"], "{}", file.name);
        }
    }
}
