//! Small differences between what people write and what typed objects hold, evened out on the raw document: what the API
//! server would accept must be read here, too.

use serde_json::{Map, Value};

/// Maps from resource name to quantity.
const QUANTITY_MAPS: [&str; 6] = ["requests", "limits", "capacity", "allocatable", "overhead", "hard"];

pub(super) fn filled_in(mut value: Value) -> Value {
    quantities_as_text(&mut value);
    match value.get("kind").and_then(Value::as_str) {
        Some("NodePool") => node_pool(&mut value),
        Some("EC2NodeClass") => node_class(&mut value),
        _ => {}
    }
    value
}

/// `cpu: 2` is as good as `cpu: "2"`.
fn quantities_as_text(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match field {
                    Value::Object(amounts) if QUANTITY_MAPS.contains(&key.as_str()) => {
                        for amount in amounts.values_mut() {
                            if let Value::Number(number) = amount {
                                *amount = Value::from(number.to_string());
                            }
                        }
                    }
                    _ => {}
                }
                quantities_as_text(field);
            }
        }
        _ => {}
    }
}

/// Fields that the CRD requires, but whose absence has one sensible meaning.
fn node_pool(value: &mut Value) {
    let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(disruption) = spec.get_mut("disruption").and_then(Value::as_object_mut) {
        disruption.entry("consolidateAfter").or_insert_with(|| Value::from("0s"));
    }
    let template = spec.get_mut("template").and_then(|t| t.get_mut("spec")).and_then(Value::as_object_mut);
    if let Some(template) = template {
        template.entry("requirements").or_insert_with(|| Value::Array(Vec::new()));
        template.entry("nodeClassRef").or_insert_with(|| {
            let words = [("group", "karpenter.k8s.aws"), ("kind", "EC2NodeClass"), ("name", "default")];
            Value::Object(
                words.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect::<Map<_, _>>(),
            )
        });
    }
}

/// Selectors say which images, subnets and security groups of an account are used; a plan without AWS does not need them.
fn node_class(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    let spec = object.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    if let Some(spec) = spec.as_object_mut() {
        for selectors in ["amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"] {
            spec.entry(selectors).or_insert_with(|| Value::Array(Vec::new()));
        }
    }
}
