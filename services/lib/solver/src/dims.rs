//! Resources as dense columns of integers: memory-like ones in bytes, all others in thousandths. Requests round up and
//! capacity rounds down, so rounding is only ever cautious.

use model::quantity::Quantity;
use model::resources::{self, Resources};
pub(crate) use packing::{fits, times};
use rustc_hash::FxHashMap;

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;
pub(crate) const PODS: usize = 2;
/// One pod, in the unit of the `pods` column.
pub(crate) const ONE_POD: i64 = 1000;

#[derive(Clone, Debug)]
pub(crate) struct Dims {
    names: Vec<String>,
    index: FxHashMap<String, usize>,
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
        let mut dims = Self { names: Vec::new(), index: FxHashMap::default() };
        for name in [resources::CPU, resources::MEMORY, resources::PODS] {
            dims.add(name);
        }
        let mut more = std::collections::BTreeSet::new();
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

    pub(crate) fn capacity(&self, from: &Resources) -> Box<[i64]> {
        self.names
            .iter()
            .map(|name| {
                let amount = from.get(name);
                if in_bytes(name) { amount.value_floor() } else { amount.milli_floor() }
            })
            .collect()
    }

    pub(crate) fn quantity(&self, dim: usize, amount: i64) -> Quantity {
        if in_bytes(&self.names[dim]) { Quantity::from_bytes(amount) } else { Quantity::from_milli(amount) }
    }

    /// Back to named quantities; zero entries are left out.
    pub(crate) fn resources(&self, amounts: &[i64]) -> Resources {
        amounts
            .iter()
            .enumerate()
            .filter(|(_, amount)| **amount != 0)
            .map(|(dim, amount)| (self.names[dim].clone(), self.quantity(dim, *amount)))
            .collect()
    }
}
