//! A set of requirements, one per key: what a pod asks, a pool allows or an instance type offers.
//!
//! A key that is not in the set allows every value. Comparison between two sets is directional, see
//! [`Requirements::compatible`].

mod compatible;
#[cfg(test)]
mod properties;
mod suggest;

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;

pub use compatible::{Conflict, Incompatible};

use crate::labels;
use crate::requirement::{Entry, Requirement};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requirements(BTreeMap<String, Requirement>);

impl Requirements {
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Each label is an `In` of its one value.
    #[must_use]
    pub fn from_labels<K: AsRef<str>, V: Into<String>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        labels.into_iter().map(|(key, value)| Requirement::is(key.as_ref(), value)).collect()
    }

    /// Entries on one key are intersected.
    #[must_use]
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        entries.into_iter().map(Requirement::from).collect()
    }

    /// Narrows the key to what is also allowed by `requirement`.
    pub fn add(&mut self, requirement: Requirement) {
        match self.0.entry(requirement.key().to_owned()) {
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(requirement);
            }
            btree_map::Entry::Occupied(mut occupied) => {
                let both = occupied.get().intersect(&requirement);
                occupied.insert(both);
            }
        }
    }

    /// Adds every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    #[must_use]
    pub fn with(mut self, requirement: Requirement) -> Self {
        self.add(requirement);
        self
    }

    /// Puts `requirement` in place of what was there.
    pub fn replace(&mut self, requirement: Requirement) -> Option<Requirement> {
        self.0.insert(requirement.key().to_owned(), requirement)
    }

    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.0.remove(labels::normalize(key))
    }

    /// `None` means that every value is allowed. Aliases are understood.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(labels::normalize(key))
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Requirement> {
        self.0.get_mut(labels::normalize(key))
    }

    /// Like [`Self::get`], with Exists in place of an undefined key.
    #[must_use]
    pub fn get_or_exists(&self, key: &str) -> Requirement {
        self.get(key).cloned().unwrap_or_else(|| Requirement::exists(key))
    }

    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// In order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Requirement> {
        self.0.values()
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels that are already decided: keys with exactly one allowed value.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.iter()
            .filter_map(|requirement| Some((requirement.key().to_owned(), requirement.single()?.to_owned())))
            .collect()
    }

    /// What the API writes, in order of the keys.
    #[must_use]
    pub fn to_entries(&self) -> Vec<Entry> {
        self.iter().flat_map(Requirement::to_entries).collect()
    }

    /// Keys that want several values to stay possible, and how many.
    pub fn min_values(&self) -> impl Iterator<Item = (&str, u32)> {
        self.iter().filter_map(|requirement| Some((requirement.key(), requirement.min_values()?)))
    }

    /// The first key on which nothing satisfies the set, not even the absence of the label.
    #[must_use]
    pub fn contradiction(&self) -> Option<&str> {
        self.iter().find(|requirement| requirement.is_impossible()).map(Requirement::key)
    }

    #[must_use]
    pub fn has_min_values(&self) -> bool {
        self.min_values().next().is_some()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut set = Self::new();
        set.extend(requirements);
        set
    }
}

impl Extend<Requirement> for Requirements {
    fn extend<I: IntoIterator<Item = Requirement>>(&mut self, requirements: I) {
        for requirement in requirements {
            self.add(requirement);
        }
    }
}

impl<'a> IntoIterator for &'a Requirements {
    type Item = &'a Requirement;
    type IntoIter = btree_map::Values<'a, String, Requirement>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.values()
    }
}

/// Comma separated, in order of the keys.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}
