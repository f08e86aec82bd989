//! What one label key may be: a set of values or all values but a set, within integer bounds, with a wanted number of
//! distinct values.
//!
//! ```text
//!                complement  values            bounds
//!  In            no          given
//!  NotIn         yes         given (excluded)
//!  Exists        yes         none
//!  DoesNotExist  no          none
//!  Gt n / Lt n   yes         none              >= n+1 / <= n-1
//!  Gte n / Lte n yes         none              >= n / <= n
//! ```
//! Pure algebra over one key. Sets of keys are [`crate::requirements`]; whether a user may write a requirement at all is
//! [`validate`].

mod entry;
mod operator;
#[cfg(test)]
mod properties;
mod validate;

use std::collections::BTreeSet;
use std::fmt;

pub use entry::Entry;
pub use operator::Operator;
pub use validate::{Invalid, validate};

use crate::labels;

/// Values shown before "and n others".
const SHOWN_VALUES: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    complement: bool,
    values: BTreeSet<String>,
    gte: Option<i64>,
    lte: Option<i64>,
    min_values: Option<u32>,
    /// The label must be there. What the operator alone does not tell once requirements have been intersected: `Exists` and
    /// `NotIn [a]` leave a complement that absence does not satisfy, `In [a]` and `NotIn [a]` leave what nothing satisfies.
    present: bool,
}

impl Requirement {
    /// The key is normalised through the alias table. A bound operator reads its first value; without an integer there,
    /// which [`validate`] refuses beforehand, nothing can match.
    #[must_use]
    pub fn new<V>(key: &str, operator: Operator, values: V, min_values: Option<u32>) -> Self
    where
        V: IntoIterator,
        V::Item: Into<String>,
    {
        let mut requirement = Self {
            key: labels::normalize(key).to_owned(),
            complement: false,
            values: BTreeSet::new(),
            gte: None,
            lte: None,
            min_values,
            present: !matches!(operator, Operator::NotIn | Operator::DoesNotExist),
        };
        let mut values = values.into_iter().map(Into::into);
        match operator {
            Operator::In => requirement.values = values.collect(),
            Operator::NotIn => {
                requirement.complement = true;
                requirement.values = values.collect();
                // Excluding nothing is Exists, as in the reference.
                requirement.present = requirement.values.is_empty();
            }
            Operator::Exists => requirement.complement = true,
            Operator::DoesNotExist => {}
            Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte => {
                let bound = values.next().and_then(|text| integer(&text));
                requirement.bound(operator, bound);
            }
        }
        requirement
    }

    /// A step beyond the end of the integers leaves nothing, so the requirement stays DoesNotExist.
    fn bound(&mut self, operator: Operator, value: Option<i64>) {
        match operator {
            Operator::Gt => self.gte = value.and_then(|n| n.checked_add(1)),
            Operator::Gte => self.gte = value,
            Operator::Lt => self.lte = value.and_then(|n| n.checked_sub(1)),
            _ => self.lte = value,
        }
        self.complement = self.gte.is_some() || self.lte.is_some();
        self.present = self.complement;
    }

    /// `key In [value]`, what a label is.
    #[must_use]
    pub fn is(key: &str, value: impl Into<String>) -> Self {
        Self::new(key, Operator::In, [value.into()], None)
    }

    #[must_use]
    pub fn one_of<V>(key: &str, values: V) -> Self
    where
        V: IntoIterator,
        V::Item: Into<String>,
    {
        Self::new(key, Operator::In, values, None)
    }

    #[must_use]
    pub fn none_of<V>(key: &str, values: V) -> Self
    where
        V: IntoIterator,
        V::Item: Into<String>,
    {
        Self::new(key, Operator::NotIn, values, None)
    }

    #[must_use]
    pub fn exists(key: &str) -> Self {
        Self::new(key, Operator::Exists, [""; 0], None)
    }

    #[must_use]
    pub fn does_not_exist(key: &str) -> Self {
        Self::new(key, Operator::DoesNotExist, [""; 0], None)
    }

    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The values listed: allowed ones, or excluded ones when [`Self::is_complement`].
    #[must_use]
    pub const fn values(&self) -> &BTreeSet<String> {
        &self.values
    }

    #[must_use]
    pub const fn is_complement(&self) -> bool {
        self.complement
    }

    /// Least integer allowed.
    #[must_use]
    pub const fn gte(&self) -> Option<i64> {
        self.gte
    }

    /// Greatest integer allowed.
    #[must_use]
    pub const fn lte(&self) -> Option<i64> {
        self.lte
    }

    #[must_use]
    pub const fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Lowers or lifts the wanted number of values, as the best-effort policy does.
    pub fn set_min_values(&mut self, min_values: Option<u32>) {
        self.min_values = min_values;
    }

    /// The operator to report. Bounds do not show in it: `Gt 3` reports Exists.
    #[must_use]
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// Whether a node without the label satisfies this.
    #[must_use]
    pub const fn allows_absence(&self) -> bool {
        !self.present
    }

    /// Neither a value nor absence satisfies this: it was made of requirements that contradict each other.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.present && self.is_empty()
    }

    /// No value is allowed: DoesNotExist, or a contradiction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// How many values are allowed; those of a complement are counted as if `i64::MAX` existed, bounds ignored.
    #[must_use]
    pub fn len(&self) -> i64 {
        let listed = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        if self.complement { i64::MAX - listed } else { listed }
    }

    #[must_use]
    pub fn contains(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && within(value, self.gte, self.lte)
    }

    /// The only value allowed, if there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        match (self.complement, self.values.len()) {
            (false, 1) => self.values.first().map(String::as_str),
            _ => None,
        }
    }

    /// Some allowed value, the same one every time: the least listed, or the integer nearest to zero that is neither
    /// excluded nor out of bounds, positive ones first. `None` when nothing, or no integer, is allowed.
    #[must_use]
    pub fn any(&self) -> Option<String> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let least = self.gte.unwrap_or(i64::MIN);
        let most = self.lte.unwrap_or(i64::MAX);
        // Only as many can be excluded as are listed, so the search ends.
        let upwards = least.max(0)..=most;
        let downwards = (least..=most.min(-1)).rev();
        upwards.chain(downwards).map(|n| n.to_string()).find(|n| !self.values.contains(n))
    }

    /// Exactly the values that both allow. `key` is that of `self`.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = tighter(self.lte, other.lte);
        let min_values = self.min_values.max(other.min_values);
        let present = self.present || other.present;
        let key = self.key.clone();
        if crossed(gte, lte) {
            return Self {
                key,
                complement: false,
                values: BTreeSet::new(),
                gte: None,
                lte: None,
                min_values,
                present,
            };
        }
        let complement = self.complement && other.complement;
        let candidates: Vec<&String> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).collect(),
            (true, false) => other.values.difference(&self.values).collect(),
            (false, true) => self.values.difference(&other.values).collect(),
            (false, false) => self.values.intersection(&other.values).collect(),
        };
        let values = candidates.into_iter().filter(|v| within(v, gte, lte)).cloned().collect();
        Self {
            key,
            complement,
            values,
            gte: if complement { gte } else { None },
            lte: if complement { lte } else { None },
            min_values,
            present,
        }
    }

    /// Whether the intersection allows anything, without building it. Two complements overlap unless their bounds cross:
    /// exclusions are not counted against the room between bounds.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let gte = self.gte.max(other.gte);
        let lte = tighter(self.lte, other.lte);
        if crossed(gte, lte) {
            return false;
        }
        let (listed, against) = match (self.complement, other.complement) {
            (true, true) => return true,
            (true, false) => (other, self),
            (false, true) => (self, other),
            (false, false) if self.values.len() <= other.values.len() => (self, other),
            (false, false) => (other, self),
        };
        listed
            .values
            .iter()
            .any(|value| against.values.contains(value) != against.complement && within(value, gte, lte))
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// With a bound, only integers are within.
fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    integer(value).is_some_and(|n| gte.is_none_or(|least| least <= n) && lte.is_none_or(|most| n <= most))
}

fn tighter(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (some, None) | (None, some) => some,
    }
}

fn crossed(gte: Option<i64>, lte: Option<i64>) -> bool {
    matches!((gte, lte), (Some(least), Some(most)) if least > most)
}

/// `key In [a b]`, `key Exists >=2 <=8 minValues 3`; at most five values.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.operator())?;
        if !self.values.is_empty() {
            let shown: Vec<&str> = self.values.iter().take(SHOWN_VALUES).map(String::as_str).collect();
            write!(f, " [{}", shown.join(" "))?;
            if self.values.len() > SHOWN_VALUES {
                write!(f, " and {} others", self.values.len() - SHOWN_VALUES)?;
            }
            write!(f, "]")?;
        }
        if let Some(least) = self.gte {
            write!(f, " >={least}")?;
        }
        if let Some(most) = self.lte {
            write!(f, " <={most}")?;
        }
        if let Some(count) = self.min_values {
            write!(f, " minValues {count}")?;
        }
        Ok(())
    }
}
