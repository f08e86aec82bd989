//! A requirement as the API writes it: key, operator, values, minValues.

use serde::{Deserialize, Serialize};

use super::{Operator, Requirement};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub key: String,
    pub operator: Operator,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Entry {
    #[must_use]
    pub fn new<V>(key: impl Into<String>, operator: Operator, values: V) -> Self
    where
        V: IntoIterator,
        V::Item: Into<String>,
    {
        Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }
}

impl From<&Entry> for Requirement {
    fn from(entry: &Entry) -> Self {
        Self::new(&entry.key, entry.operator, entry.values.iter().map(String::as_str), entry.min_values)
    }
}

impl Requirement {
    /// Back to what the API can hold. Bounds win over the set: a NotIn within bounds loses its exclusions, as in the
    /// reference. Two bounds take two entries, each with minValues.
    #[must_use]
    pub fn to_entries(&self) -> Vec<Entry> {
        let entry =
            |operator, values| Entry { key: self.key.clone(), operator, values, min_values: self.min_values };
        let bounds: Vec<Entry> = [(Operator::Gte, self.gte), (Operator::Lte, self.lte)]
            .into_iter()
            .filter_map(|(operator, bound)| Some(entry(operator, vec![bound?.to_string()])))
            .collect();
        if bounds.is_empty() {
            vec![entry(self.operator(), self.values.iter().cloned().collect())]
        } else {
            bounds
        }
    }
}
