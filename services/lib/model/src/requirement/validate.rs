//! The runtime check of a written requirement, the same for NodePools, NodeOverlays and pods.

use super::{Entry, Operator};
use crate::labels;

/// Why a requirement may not be used. Messages name the key and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("label {key} is restricted: it cannot be required{}", hint(.key))]
    Restricted { key: String },
    #[error("label {key} has none of the values [{}] in [{}]", .known.join(" "), .values.join(" "))]
    NoKnownValue { key: String, values: Vec<String>, known: &'static [&'static str] },
    #[error("label {key} has {valid} known values where minValues asks for {wanted}")]
    TooFewKnownValues { key: String, valid: usize, wanted: u32 },
    #[error("{key:?} is no label key: {reason}")]
    Key { key: String, reason: &'static str },
    #[error("{value:?} is no label value of {key}: {reason}")]
    Value { key: String, value: String, reason: &'static str },
    #[error("label {key}: operator In needs at least one value")]
    NoValues { key: String },
    #[error("label {key}: {listed} values are listed where minValues asks for {wanted}")]
    TooFewValues { key: String, listed: usize, wanted: u32 },
    #[error("label {key}: operator {operator} needs one integer of at least 0, not [{}]", .values.join(" "))]
    Bound { key: String, operator: Operator, values: Vec<String> },
}

fn hint(key: &str) -> &'static str {
    if key == labels::HOSTNAME {
        " (node names are not known before a node exists)"
    } else {
        " (only well-known labels of this domain can)"
    }
}

/// Checks one requirement; the first rule it breaks is reported.
pub fn validate(entry: &Entry) -> Result<(), Invalid> {
    let key = labels::normalize(&entry.key).to_owned();
    if labels::is_restricted(&key) {
        return Err(Invalid::Restricted { key });
    }
    check_closed_values(entry, &key)?;
    if let Err(reason) = labels::check_qualified_name(&key) {
        return Err(Invalid::Key { key, reason });
    }
    for value in &entry.values {
        if let Err(reason) = labels::check_value(value) {
            return Err(Invalid::Value { key, value: value.clone(), reason });
        }
    }
    check_count(entry, key)
}

fn check_closed_values(entry: &Entry, key: &str) -> Result<(), Invalid> {
    let Some(known) = labels::closed_values(key).filter(|_| entry.operator == Operator::In) else {
        return Ok(());
    };
    let valid = entry.values.iter().filter(|value| known.contains(&value.as_str())).count();
    if valid == 0 {
        return Err(Invalid::NoKnownValue { key: key.to_owned(), values: entry.values.clone(), known });
    }
    match entry.min_values {
        Some(wanted) if valid < wanted as usize => {
            Err(Invalid::TooFewKnownValues { key: key.to_owned(), valid, wanted })
        }
        _ => Ok(()),
    }
}

fn check_count(entry: &Entry, key: String) -> Result<(), Invalid> {
    if entry.operator == Operator::In {
        if entry.values.is_empty() {
            return Err(Invalid::NoValues { key });
        }
        if let Some(wanted) = entry.min_values.filter(|wanted| entry.values.len() < *wanted as usize) {
            return Err(Invalid::TooFewValues { key, listed: entry.values.len(), wanted });
        }
    }
    if entry.operator.is_bound() {
        let single = match entry.values.as_slice() {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        if single.is_none_or(|n| n < 0) {
            return Err(Invalid::Bound { key, operator: entry.operator, values: entry.values.clone() });
        }
    }
    Ok(())
}
