//! Resource vectors: an ordered map from resource name to [`Quantity`]. A name that is absent counts as zero.

mod of_pod;

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use of_pod::{Container, PodParts};

use crate::quantity::Quantity;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Pseudo resource of NodePool limits and status: the number of nodes.
pub const NODES: &str = "nodes";
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";
pub const AMD_GPU: &str = "amd.com/gpu";
pub const HABANA_GAUDI: &str = "habana.ai/gaudi";
pub const AWS_NEURON: &str = "aws.amazon.com/neuron";
pub const AWS_NEURON_CORE: &str = "aws.amazon.com/neuroncore";
pub const AWS_POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
pub const AWS_PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
pub const EFA: &str = "vpc.amazonaws.com/efa";
pub const NITRO_ENCLAVE_SLOTS: &str = "eks.amazonaws.com/nip-slots";
/// Huge page sizes are resources of their own, `hugepages-2Mi`, and are taken out of a node's memory.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The amount of `name`, zero when absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or(Quantity::ZERO)
    }

    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn insert(&mut self, name: impl Into<String>, amount: Quantity) -> Option<Quantity> {
        self.0.insert(name.into(), amount)
    }

    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: Quantity) -> Self {
        self.insert(name, amount);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No entry at all; a vector of zeros is not empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every entry of `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own += *amount,
                None => {
                    self.0.insert(name.clone(), *amount);
                }
            }
        }
    }

    /// Subtracts from the resources named here what `other` has of them; results may be negative. What only `other` names
    /// is passed over, so that an overhead on an unknown resource makes nothing negative.
    pub fn sub(&mut self, other: &Self) {
        for (name, own) in &mut self.0 {
            *own -= other.get(name);
        }
    }

    /// Subtracts every entry of `other`: what only `other` names becomes negative.
    pub fn sub_all(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own -= *amount,
                None => {
                    self.0.insert(name.clone(), -*amount);
                }
            }
        }
    }

    /// Raises each entry to that of `other` where that is larger; entries of either side are kept.
    pub fn max(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own = (*own).max(*amount),
                None => {
                    self.0.insert(name.clone(), *amount);
                }
            }
        }
    }

    /// The smaller amount of each resource that both sides name.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.0
            .iter()
            .filter_map(|(name, own)| Some((name.clone(), (*own).min(*other.0.get(name)?))))
            .collect()
    }

    /// Whether these requests go into `available`. Nothing goes where any amount is already negative, and a request of
    /// exactly zero goes anywhere, even for a resource that is not named there.
    #[must_use]
    pub fn fits(&self, available: &Self) -> bool {
        !available.has_negative() && self.0.iter().all(|(name, wanted)| *wanted <= available.get(name))
    }

    #[must_use]
    pub fn has_negative(&self) -> bool {
        self.0.values().any(|amount| amount.is_negative())
    }

    /// The resources of which these requests want more than is available, for explanations.
    pub fn exceeding<'a>(&'a self, available: &'a Self) -> impl Iterator<Item = &'a str> {
        self.iter().filter(|(name, wanted)| *wanted > available.get(name)).map(|(name, _)| name)
    }
}

/// Equal when every resource has the same amount; a zero entry equals an absent one.
impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        let covers = |a: &Self, b: &Self| a.iter().all(|(name, amount)| b.get(name) == amount);
        covers(self, other) && covers(other, self)
    }
}

impl Eq for Resources {}

impl<N: Into<String>> FromIterator<(N, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

impl IntoIterator for Resources {
    type Item = (String, Quantity);
    type IntoIter = btree_map::IntoIter<String, Quantity>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// `cpu=2, memory=4Gi`, in order of the names.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}={amount}")?;
        }
        Ok(())
    }
}
