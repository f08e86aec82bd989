//! Resources as dense columns of integers: memory-like ones in bytes, all others in thousandths. Requests round up and
//! capacity rounds down, so rounding is only ever cautious.
//!
//! Volumes that new nodes can have attached are columns too, one for each CSI driver. A claim that several pods share is counted
//! for each of them there, which is cautious; nodes that exist count claims, see `engine::existing`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::pod::Volume;
use model::quantity::Quantity;
use model::resources::{self, Resources};
pub(crate) use packing::{fits, times};
use rustc_hash::FxHashMap;

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;
pub(crate) const PODS: usize = 2;
/// One pod, in the unit of the `pods` column.
pub(crate) const ONE_POD: i64 = 1000;
const ONE_VOLUME: i64 = 1000;
/// Stands for no limit: no node has a million volumes attached.
const UNLIMITED: i64 = 1_000_000 * ONE_VOLUME;

/// Most volumes attached to a node, by CSI driver.
pub(crate) type AttachLimits = BTreeMap<Arc<str>, u32>;

#[derive(Clone, Debug)]
pub(crate) struct Dims {
    names: Vec<String>,
    index: FxHashMap<String, usize>,
    /// Columns of CSI drivers that some type limits and some pod needs.
    drivers: BTreeMap<Arc<str>, usize>,
    /// CSI drivers that some type limits.
    limited: BTreeSet<Arc<str>>,
}

fn in_bytes(name: &str) -> bool {
    name == resources::MEMORY
        || name == resources::EPHEMERAL_STORAGE
        || name.starts_with(resources::HUGE_PAGES_PREFIX)
}

impl Dims {
    /// Columns for the four ordinary resources and for every name that something asks for. What nobody asks for needs no
    /// column.
    pub(crate) fn new<'a>(requests: impl Iterator<Item = &'a Resources>) -> Self {
        let mut dims = Self {
            names: Vec::new(),
            index: FxHashMap::default(),
            drivers: BTreeMap::new(),
            limited: BTreeSet::new(),
        };
        for name in [resources::CPU, resources::MEMORY, resources::PODS] {
            dims.add(name);
        }
        let mut more = BTreeSet::new();
        for request in requests {
            for (name, amount) in request.iter() {
                if !dims.index.contains_key(name) && !amount.is_zero() && !more.contains(name) {
                    more.insert(name.to_owned());
                }
            }
        }
        for name in more {
            dims.add(&name);
        }
        dims
    }

    /// Adds a column for every driver that the limits name and one of the volumes needs.
    pub(crate) fn with_volumes<'a>(
        mut self,
        limits: impl Iterator<Item = &'a AttachLimits>,
        volumes: impl Iterator<Item = &'a Volume>,
    ) -> Self {
        for limits in limits {
            if !limits.keys().all(|driver| self.limited.contains(driver)) {
                self.limited.extend(limits.keys().cloned());
            }
        }
        if self.limited.is_empty() {
            return self;
        }
        let needed: BTreeSet<&Arc<str>> = volumes
            .filter_map(|v| v.driver.as_ref())
            .filter(|driver| self.limited.contains(*driver))
            .collect();
        let needed: Vec<Arc<str>> = needed.into_iter().cloned().collect();
        for driver in needed {
            self.drivers.insert(Arc::clone(&driver), self.names.len());
            self.add(&format!("attachable-volumes-csi-{driver}"));
        }
        self
    }

    fn add(&mut self, name: &str) {
        self.index.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, dim: usize) -> &str {
        &self.names[dim]
    }

    /// Whether every resource that is asked for has a column.
    pub(crate) fn covers(&self, requests: &Resources) -> bool {
        requests.iter().all(|(name, amount)| amount.is_zero() || self.index.contains_key(name))
    }

    /// Whether every volume that new nodes limit has a column.
    pub(crate) fn covers_volumes(&self, volumes: &[Volume]) -> bool {
        let drivers = || volumes.iter().filter_map(|volume| volume.driver.as_ref());
        drivers().all(|driver| self.drivers.contains_key(driver) || !self.limited.contains(driver))
    }

    /// As [`Dims::requests`], with what the pod attaches: driver and claim of each volume.
    pub(crate) fn requests_with(&self, from: &Resources, attachments: &[(Arc<str>, Arc<str>)]) -> Box<[i64]> {
        let mut out = self.requests(from);
        for (driver, _) in attachments {
            if let Some(&dim) = self.drivers.get(driver) {
                out[dim] += ONE_VOLUME;
            }
        }
        out
    }

    /// Requests of one pod, which also counts as one pod.
    pub(crate) fn requests(&self, from: &Resources) -> Box<[i64]> {
        let mut out = vec![0; self.len()].into_boxed_slice();
        for (name, amount) in from.iter() {
            if let Some(&dim) = self.index.get(name) {
                out[dim] = if in_bytes(name) { amount.value_ceil() } else { amount.milli_ceil() }.max(0);
            }
        }
        out[PODS] = ONE_POD;
        out
    }

    /// Drivers without a limit take any number of volumes.
    pub(crate) fn capacity(&self, from: &Resources, limits: &AttachLimits) -> Box<[i64]> {
        let amount = |name: &String| {
            let amount = from.get(name);
            if in_bytes(name) { amount.value_floor() } else { amount.milli_floor() }
        };
        let mut out: Box<[i64]> = self.names.iter().map(amount).collect();
        for (driver, &dim) in &self.drivers {
            out[dim] = limits.get(driver).map_or(UNLIMITED, |most| i64::from(*most) * ONE_VOLUME);
        }
        out
    }

    pub(crate) fn quantity(&self, dim: usize, amount: i64) -> Quantity {
        if in_bytes(&self.names[dim]) { Quantity::from_bytes(amount) } else { Quantity::from_milli(amount) }
    }

    /// Back to named quantities; zero entries are left out, and so are volumes, which are no resource.
    pub(crate) fn resources(&self, amounts: &[i64]) -> Resources {
        amounts
            .iter()
            .enumerate()
            .filter(|(dim, amount)| **amount != 0 && !self.drivers.values().any(|volumes| volumes == dim))
            .map(|(dim, amount)| (self.names[dim].clone(), self.quantity(dim, *amount)))
            .collect()
    }
}
