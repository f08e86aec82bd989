//! The part of JSON Schema that the chart's schemas use: which values it refuses, and why. Helm refuses the same ones, but only once
//! the upgrade runs.

use regex::Regex;
use serde_json::{Map, Value};

/// One value that a schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Keys from the top, and numbers of list items.
    pub(super) path: Vec<String>,
    pub(super) reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    UnknownKey,
    /// What is expected in its place.
    Expected(String),
    MissingKey(String),
}

pub(super) fn refusals(schema: &Value, value: &Value) -> Vec<Refusal> {
    let mut found = Vec::new();
    judge(schema, value, &mut Vec::new(), &mut found);
    found
}

fn judge(schema: &Value, value: &Value, path: &mut Vec<String>, found: &mut Vec<Refusal>) {
    let Value::Object(schema) = schema else { return };
    if !fits(schema, value) {
        let reason = Reason::Expected(describe(schema));
        found.push(Refusal { path: path.clone(), reason });
        return;
    }
    match value {
        Value::Object(fields) => judge_fields(schema, fields, path, found),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                judge(schema, item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn judge_fields(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<Refusal>,
) {
    for key in strings(schema.get("required")) {
        if !fields.contains_key(key) {
            found.push(Refusal { path: path.clone(), reason: Reason::MissingKey(key.to_owned()) });
        }
    }
    for (key, value) in fields {
        path.push(key.clone());
        let known = schema.get("properties").and_then(|properties| properties.get(key));
        match (known, schema.get("additionalProperties")) {
            // Helm takes null as "no value of mine".
            (Some(_), _) if value.is_null() => {}
            (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => judge(schema, value, path, found),
            (None, Some(Value::Bool(false))) => {
                found.push(Refusal { path: path.clone(), reason: Reason::UnknownKey });
            }
            (None, _) => {}
        }
        path.pop();
    }
}

/// Whether the value itself is allowed; its fields and items are another matter.
fn fits(schema: &Map<String, Value>, value: &Value) -> bool {
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let types = types(schema);
    if !types.is_empty() && !types.iter().any(|name| is_of(value, name)) {
        return false;
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        return false;
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf")
        && !choices.iter().any(|choice| refusals(choice, value).is_empty())
    {
        return false;
    }
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            limit("minimum").is_none_or(|minimum| number >= minimum)
                && limit("maximum").is_none_or(|maximum| number <= maximum)
        }
        Value::String(text) => {
            let length = text.chars().count() as f64;
            limit("minLength").is_none_or(|minimum| length >= minimum)
                && limit("maxLength").is_none_or(|maximum| length <= maximum)
                && pattern(schema).is_none_or(|pattern| pattern.is_match(text))
        }
        Value::Object(fields) => limit("maxProperties").is_none_or(|maximum| fields.len() as f64 <= maximum),
        _ => true,
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

/// A pattern that cannot be read refuses nothing; a test reads them all.
fn pattern(schema: &Map<String, Value>) -> Option<Regex> {
    Regex::new(schema.get("pattern")?.as_str()?).ok()
}

fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        many => strings(many),
    }
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What the schema allows, for people.
fn describe(schema: &Map<String, Value>) -> String {
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let each = choices.iter().filter_map(Value::as_object).map(describe);
        return each.collect::<Vec<_>>().join(", or ");
    }
    let quoted = |value: &Value| value.to_string();
    if let Some(Value::Array(allowed)) = schema.get("enum") {
        return format!("one of {}", allowed.iter().map(quoted).collect::<Vec<_>>().join(", "));
    }
    let mut text = match types(schema).as_slice() {
        [] => "another value".to_owned(),
        types => format!("of type {}", types.join(" or ")),
    };
    for (keyword, words) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "with a length of at least"),
        ("maxLength", "with a length of at most"),
        ("maxProperties", "with keys, at most"),
        ("pattern", "that matches"),
    ] {
        match schema.get(keyword) {
            Some(Value::String(limit)) => text.push_str(&format!(" {words} {limit}")),
            Some(limit) => text.push_str(&format!(" {words} {limit}")),
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, value: Value, expected: &[(&str, Reason)]) {
        let found: Vec<(String, Reason)> =
            refusals(&schema, &value).into_iter().map(|each| (each.path.join("."), each.reason)).collect();
        let expected: Vec<(String, Reason)> =
            expected.iter().map(|(path, reason)| ((*path).to_owned(), reason.clone())).collect();
        assert_eq!(found, expected, "{value}");
    }

    fn expected(text: &str) -> Reason {
        Reason::Expected(text.to_owned())
    }

    #[test]
    fn each_refused_value_is_named_by_its_path_with_what_is_expected() {
        let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "port": port, "ports": {"type": "array", "items": port},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "anything": {"type": "object"}}});
        check(schema.clone(), json!({"port": 8080, "anything": {"x": [1]}, "labels": {"a": "b"}}), &[]);
        let range = expected("of type integer at least 1 at most 65535");
        check(schema.clone(), json!({"port": "8080"}), &[("port", range.clone())]);
        check(schema.clone(), json!({"port": 1.5}), &[("port", range.clone())]);
        check(schema.clone(), json!({"ports": [1, 0]}), &[("ports.1", range)]);
        check(schema.clone(), json!({"labels": {"a": 1}}), &[("labels.a", expected("of type string"))]);
        check(schema.clone(), json!({"prot": 1}), &[("prot", Reason::UnknownKey)]);
        check(schema, json!({"port": null}), &[]);
    }

    #[test]
    fn texts_choices_and_required_keys_are_judged() {
        let duration = json!({"type": "string", "pattern": "^[0-9]+s$"});
        check(duration, json!("10"), &[("", expected("of type string that matches ^[0-9]+s$"))]);
        let flag = json!({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}]});
        check(flag.clone(), json!("true"), &[]);
        let choices = expected("of type boolean, or one of \"true\", \"false\"");
        check(flag, json!("yes"), &[("", choices)]);
        let named = json!({"type": "array", "items": {"type": "object", "required": ["name"]}});
        check(named, json!([{"value": "x"}]), &[("0", Reason::MissingKey("name".to_owned()))]);
    }

    /// Words that say nothing about a value.
    const REMARKS: [&str; 2] = ["$schema", "title"];
    const KEYWORDS: [&str; 13] = [
        "type",
        "properties",
        "additionalProperties",
        "required",
        "items",
        "enum",
        "anyOf",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "maxProperties",
    ];

    /// Otherwise a rule of a schema would be passed over in silence.
    fn knows_every_word_of(schema: &Value) {
        let Value::Object(schema) = schema else { return };
        for (word, value) in schema {
            assert!(REMARKS.contains(&word.as_str()) || KEYWORDS.contains(&word.as_str()), "{word}");
            match (word.as_str(), value) {
                ("properties", Value::Object(all)) => all.values().for_each(knows_every_word_of),
                ("anyOf", Value::Array(all)) => all.iter().for_each(knows_every_word_of),
                ("items" | "additionalProperties", schema) => knows_every_word_of(schema),
                ("pattern", Value::String(text)) => assert!(Regex::new(text).is_ok(), "{text}"),
                _ => {}
            }
        }
    }

    #[test]
    fn the_schemas_of_the_chart_use_nothing_that_is_not_judged() {
        knows_every_word_of(&super::super::chart::schema().unwrap());
    }
}
