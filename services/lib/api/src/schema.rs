//! From Rust types to Kubernetes structural schemas: small schema edits used in `#[schemars(transform = …)]`, and the pass
//! that turns what schemars makes into what the API server takes.
//!
//! Not here: the rules themselves, which stand on the fields they guard.

use schemars::generate::SchemaGenerator;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

const RULES: &str = "x-kubernetes-validations";

/// Appends CEL rules, in the order given.
pub(crate) struct Cel(Vec<(String, String)>);

/// One CEL rule and the message a user reads when it is broken.
pub(crate) fn cel(rule: impl Into<String>, message: impl Into<String>) -> Cel {
    Cel(vec![(rule.into(), message.into())])
}

impl Cel {
    /// Adds a further rule.
    pub(crate) fn and(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.push((rule.into(), message.into()));
        self
    }

    /// Adds all rules of another set.
    pub(crate) fn with(mut self, other: Cel) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Transform for Cel {
    fn transform(&mut self, schema: &mut Schema) {
        let rules = schema.ensure_object().entry(RULES).or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.extend(self.0.iter().map(|(rule, message)| json!({"rule": rule, "message": message})));
        }
    }
}

/// Inserts keywords that schemars has no attribute for, or that belong on a nested schema.
pub(crate) struct Keywords(pub(crate) Value);

impl Transform for Keywords {
    fn transform(&mut self, schema: &mut Schema) {
        if let Value::Object(keywords) = &self.0 {
            schema.ensure_object().extend(keywords.clone());
        }
    }
}

/// Inserts keywords on the values of a map or the items of a list.
pub(crate) struct Inner(pub(crate) Value);

impl Transform for Inner {
    fn transform(&mut self, schema: &mut Schema) {
        let Value::Object(keywords) = &self.0 else { return };
        let object = schema.ensure_object();
        for place in ["items", "additionalProperties"] {
            if let Some(Value::Object(inner)) = object.get_mut(place) {
                inner.extend(keywords.clone());
            }
        }
    }
}

/// The schema of an instant.
pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

/// A list that server-side apply merges by the given key.
pub(crate) fn keyed_by(key: &str) -> Keywords {
    Keywords(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}))
}

/// The schema of a whole object: spec and status; the API server adds the rest.
pub(crate) fn root<Spec: JsonSchema, Status: JsonSchema>(
    generator: &mut SchemaGenerator,
    description: &str,
    spec_is_required: bool,
) -> Schema {
    let mut schema = schemars::json_schema!({
        "type": "object",
        "description": description,
        "properties": {
            "spec": Spec::json_schema(generator),
            "status": Status::json_schema(generator),
        },
    });
    if spec_is_required {
        schema.insert("required".into(), json!(["spec"]));
    }
    Structural.transform(&mut schema);
    schema
}

/// Implements `JsonSchema` for the root type that `#[kube(schema = "manual")]` leaves without one.
macro_rules! root_schema {
    ($root:ident, $spec:ty, $status:ty, required = $required:literal, $description:literal) => {
        impl schemars::JsonSchema for $root {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($root).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::schema::root::<$spec, $status>(generator, $description, $required)
            }
        }
    };
}
pub(crate) use root_schema;

/// Makes a schema structural and as strict as the reference's: an optional field is one that may be absent, not one that
/// may be null, so every "or null" that schemars derives from `Option` goes away.
struct Structural;

impl Transform for Structural {
    fn transform(&mut self, schema: &mut Schema) {
        let object = schema.ensure_object();
        drop_null(object);
        object.remove("title");
        if let Some(Value::String(description)) = object.get_mut("description") {
            *description = unwrap_lines(description);
        }
        transform_subschemas(self, schema);
    }
}

fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get("type") {
        let others: Vec<_> = types.iter().filter(|t| *t != "null").cloned().collect();
        if let [only] = &others[..] {
            object.insert("type".into(), only.clone());
        }
    }
    if let Some(Value::Array(allowed)) = object.get_mut("enum") {
        allowed.retain(|value| !value.is_null());
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    let others: Vec<_> = choices.iter().filter(|c| c.get("type") != Some(&json!("null"))).cloned().collect();
    if let [Value::Object(only)] = &others[..] {
        object.remove("anyOf");
        for (key, value) in only {
            match object.get_mut(key) {
                None => {
                    object.insert(key.clone(), value.clone());
                }
                Some(Value::Array(here)) if key == RULES => {
                    here.splice(0..0, value.as_array().cloned().unwrap_or_default());
                }
                Some(_) => {}
            }
        }
        drop_null(object);
    }
}

/// Doc comments are wrapped for the source file; in a description only blank lines are meant.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
}
