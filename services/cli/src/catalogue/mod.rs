//! The instance types a plan may choose from: the built-in catalogue, one in the plan format, or what
//! `aws ec2 describe-instance-types` prints.
//!
//! All three end as `model` instance types, resolved: capacity and overhead as a node of an EC2NodeClass would report them. The
//! plan format is resolved already.

mod builtin;
mod describe;
mod figures;
mod plan_format;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::{EC2NodeClass, convert};
use cloud::derive::{Family, NodeClass};
use model::catalog::InstanceType;
use serde_json::Value;

use crate::manifest::InputError;
use figures::Table;

#[derive(Clone, Debug)]
pub struct Catalogue {
    /// As nodes of a class without any choice made: AL2023 with default kubelet settings.
    pub types: Arc<Vec<InstanceType>>,
    /// What types of other classes are derived from; the plan format has no such figures.
    table: Option<Table>,
    /// Where it came from, for people.
    pub origin: String,
    /// Things a person should know about it, such as types left out because nobody knows their price.
    pub remarks: Vec<String>,
}

/// The catalogue in a file, or the built-in one.
pub fn load(path: Option<&str>) -> Result<Catalogue, InputError> {
    let Some(path) = path else { return Ok(builtin()) };
    let text = std::fs::read_to_string(path).map_err(|error| InputError::of_file(path, error))?;
    parse(&text, path)
}

/// What the binary has built in.
pub fn builtin() -> Catalogue {
    let table = builtin::table();
    let origin = format!("built-in catalogue of {}", table.region);
    Catalogue::derived(table, origin, Vec::new())
}

impl Catalogue {
    fn derived(table: Table, origin: String, remarks: Vec<String>) -> Self {
        let types = Arc::new(table.resolve(&NodeClass::new(Family::Al2023)));
        Self { types, table: Some(table), origin, remarks }
    }

    /// The types as nodes of this class: its image family, kubelet settings, volumes and the zones of its subnets. `None` where the
    /// catalogue is resolved already.
    pub fn types_of(&self, class: &EC2NodeClass) -> Option<Arc<Vec<InstanceType>>> {
        let mut plain = convert::node_class(class);
        if class.spec.resolved_ami_family().is_none() {
            // A manifest that names no image stands for EKS's own.
            plain.family = Family::Al2023;
        }
        self.table.as_ref().map(|table| Arc::new(table.resolve(&plain)))
    }
}

/// Either JSON format; `name` is the file's, for messages.
pub fn parse(text: &str, name: &str) -> Result<Catalogue, InputError> {
    // Only the top-level keys tell the formats apart.
    let keys: indexmap::IndexMap<String, serde::de::IgnoredAny> =
        serde_json::from_str(text).map_err(|error| syntax(name, &error))?;
    if keys.contains_key("InstanceTypes") {
        return describe::parse(text, name);
    }
    if keys.contains_key("instanceTypes") {
        return plan_format::parse(text, name);
    }
    Err(InputError {
        line: 1,
        field: "instanceTypes".to_owned(),
        ..InputError::of_file(
            name,
            "is missing: a catalogue has instanceTypes (plan format) or InstanceTypes (aws ec2 describe-instance-types)",
        )
    })
}

fn syntax(name: &str, error: &serde_json::Error) -> InputError {
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or_default().to_owned();
    InputError { line: error.line().max(1), ..InputError::of_file(name, problem) }
}

/// Typed reading with the line and the field of the first mistake.
fn read_typed<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T, InputError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| InputError { field: error.path().to_string(), ..syntax(name, error.inner()) })
}

/// The line of the n-th type, for mistakes that show only after parsing.
fn line_of_type(text: &str, index: usize, list: &str) -> usize {
    let quoted = format!("\"{list}\"");
    let Some(start) = text.find(&quoted) else { return 1 };
    let mut stream = text[start..].match_indices("\"name\"");
    if list == "InstanceTypes" {
        stream = text[start..].match_indices("\"InstanceType\"");
    }
    let offset = stream.nth(index).map_or(0, |(at, _)| at);
    text[..start + offset].matches('\n').count() + 1
}

/// A number in JSON as exact text; floats print shortest, so nothing is lost.
fn number_text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}
