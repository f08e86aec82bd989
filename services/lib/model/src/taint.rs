//! Taints and tolerations, compared as the Kubernetes scheduler compares them, including its numeric operators.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::labels;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that is none of the closed set it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is none of {expected}")]
pub struct UnknownName {
    pub found: String,
    pub expected: &'static str,
}

impl FromStr for Effect {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "NoSchedule" => Ok(Self::NoSchedule),
            "PreferNoSchedule" => Ok(Self::PreferNoSchedule),
            "NoExecute" => Ok(Self::NoExecute),
            _ => Err(UnknownName {
                found: text.to_owned(),
                expected: "NoSchedule, PreferNoSchedule, NoExecute",
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: Effect,
}

impl Taint {
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<String>, effect: Effect) -> Self {
        Self { key: key.into(), value: value.into(), effect }
    }

    /// What a node carries from boot until its registration.
    #[must_use]
    pub fn unregistered() -> Self {
        Self::new(labels::UNREGISTERED_TAINT, "", Effect::NoExecute)
    }

    /// What a node carries once it was chosen for disruption or is being terminated.
    #[must_use]
    pub fn disrupted() -> Self {
        Self::new(labels::DISRUPTED_TAINT, "", Effect::NoSchedule)
    }

    /// Same key and effect. The value does not distinguish taints.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    #[must_use]
    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }

    /// Whether the taint goes away by itself while a node starts: ignored in scheduling until the node is initialised,
    /// and in the way of that initialisation.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.key.starts_with(labels::READINESS_TAINT_PREFIX)
            || EPHEMERAL.iter().any(|(key, effect)| self.key == *key && self.effect == *effect)
    }
}

/// Taints of a starting node, by key and effect.
pub const EPHEMERAL: [(&str, Effect); 5] = [
    (labels::NOT_READY_TAINT, Effect::NoSchedule),
    (labels::NOT_READY_TAINT, Effect::NoExecute),
    (labels::UNREACHABLE_TAINT, Effect::NoSchedule),
    (labels::CLOUD_UNINITIALIZED_TAINT, Effect::NoSchedule),
    (labels::UNREGISTERED_TAINT, Effect::NoExecute),
];

/// `key=value:Effect`, as kubectl writes it.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect)
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
    /// Tolerates taints whose integer value is below the toleration's.
    Lt,
    /// Tolerates taints whose integer value is above the toleration's.
    Gt,
}

impl FromStr for TolerationOperator {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "" | "Equal" => Ok(Self::Equal),
            "Exists" => Ok(Self::Exists),
            "Lt" => Ok(Self::Lt),
            "Gt" => Ok(Self::Gt),
            _ => Err(UnknownName { found: text.to_owned(), expected: "Equal, Exists, Lt, Gt" }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Empty matches every key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    pub operator: TolerationOperator,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Absent matches every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// How long a NoExecute taint is borne; no part of matching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// What relaxation adds to a pod that nothing else would place: it puts up with every soft taint.
    #[must_use]
    pub fn of_every_soft_taint() -> Self {
        Self {
            operator: TolerationOperator::Exists,
            effect: Some(Effect::PreferNoSchedule),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => {
                integers(&taint.value, &self.value).is_some_and(|(taint, own)| taint < own)
            }
            TolerationOperator::Gt => {
                integers(&taint.value, &self.value).is_some_and(|(taint, own)| taint > own)
            }
        }
    }
}

fn integers(a: &str, b: &str) -> Option<(i64, i64)> {
    Some((decimal_integer(a)?, decimal_integer(b)?))
}

/// An integer in its one canonical spelling: no plus sign, no leading zero, no minus zero.
fn decimal_integer(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

/// The first taint, of any effect, that no toleration bears. Soft taints count too: they are relaxed by adding
/// [`Toleration::of_every_soft_taint`], not by looking away.
#[must_use]
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !taint.is_tolerated_by(tolerations))
}

/// All of them, for explanations.
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    taints.iter().filter(|taint| !taint.is_tolerated_by(tolerations))
}

/// Adds the taints of `with` that are not there yet by key and effect; those that are keep their value.
pub fn merge(taints: &mut Vec<Taint>, with: &[Taint]) {
    for taint in with {
        if !taints.iter().any(|own| own.is_same_as(taint)) {
            taints.push(taint.clone());
        }
    }
}
