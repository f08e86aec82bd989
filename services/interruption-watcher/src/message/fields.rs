//! Fields of an envelope, with errors that say where and what.

use serde_json::{Map, Value};

pub(super) type Object = Map<String, Value>;

/// A body that cannot be used, and never will be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub(crate) struct Malformed {
    field: String,
    why: String,
}

const NO_TEXT: &str = "";
const NO_ELEMENTS: &[Value] = &[];

impl Malformed {
    pub(super) fn at(field: &str, why: String) -> Self {
        Self { field: field.to_owned(), why }
    }

    pub(super) fn wrong_type(field: &str, wanted: &str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Self::at(field, format!("expected {wanted}, found {found}"))
    }
}

pub(super) fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Object, Malformed> {
    value.as_object().ok_or_else(|| Malformed::wrong_type(path, "an object", value))
}

/// Absent and null count as empty, as they do for the reference's decoder.
pub(super) fn text_or_empty<'a>(object: &'a Object, name: &str, path: &str) -> Result<&'a str, Malformed> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(NO_TEXT),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Malformed::wrong_type(path, "a string", other)),
    }
}

pub(super) fn text<'a>(object: &'a Object, name: &str, path: &str) -> Result<&'a str, Malformed> {
    let text = text_or_empty(object, name, path)?;
    if text.is_empty() { Err(Malformed::at(path, "it is missing".to_owned())) } else { Ok(text) }
}

pub(super) fn elements<'a>(object: &'a Object, name: &str, path: &str) -> Result<&'a [Value], Malformed> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(NO_ELEMENTS),
        Some(Value::Array(elements)) => Ok(elements),
        Some(other) => Err(Malformed::wrong_type(path, "an array", other)),
    }
}

pub(super) fn instance_id(detail: &Object) -> Result<&str, Malformed> {
    const PATH: &str = "detail.instance-id";
    let id = text(detail, "instance-id", PATH)?;
    if is_instance_id(id) {
        Ok(id)
    } else {
        Err(Malformed::at(PATH, format!("{:?} is no instance id", id.chars().take(40).collect::<String>())))
    }
}

pub(super) fn is_instance_id(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("i-") else { return false };
    (1..=32).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
