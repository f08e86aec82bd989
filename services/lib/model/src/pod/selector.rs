//! Label selectors over pods and namespaces. `matchLabels` entries are `In` with one value.

use crate::catalog::LabelMap;

/// All requirements must hold. Without any it selects everything; "selects nothing" is the absence of a selector
/// (`Option::None` wherever one is optional).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    pub requirements: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorRequirement {
    pub key: String,
    pub operator: SelectorOperator,
    /// Empty for `Exists` and `DoesNotExist`.
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// The selector of a `matchLabels` map.
    pub fn of_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let requirements =
            labels.into_iter().map(|(key, value)| SelectorRequirement::is(key, value)).collect();
        Self { requirements }
    }

    pub fn matches(&self, labels: &LabelMap) -> bool {
        self.requirements.iter().all(|r| r.matches(labels))
    }
}

impl SelectorRequirement {
    /// `key In [value]`.
    pub fn is(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: SelectorOperator::In, values: vec![value.to_owned()] }
    }

    /// An absent key satisfies `NotIn` and `DoesNotExist`, as in the Kubernetes API.
    pub fn matches(&self, labels: &LabelMap) -> bool {
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|v| self.values.contains(v));
        match self.operator {
            SelectorOperator::In => listed(),
            SelectorOperator::NotIn => !listed(),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}
