//! Interned sets of requirements, tolerations and taints: equal ones are compared with pools and nodes only once.

use std::hash::Hash;
use std::sync::Arc;

use model::requirements::Requirements;
use model::taint::{Taint, Toleration};
use rustc_hash::FxHashMap;

pub(crate) type ReqSetId = u32;
pub(crate) type TolSetId = u32;
pub(crate) type TaintSetId = u32;

/// Values by small numbers, in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    list: Vec<Arc<T>>,
    index: FxHashMap<Arc<T>, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { list: Vec::new(), index: FxHashMap::default() }
    }
}

impl<T: Hash + Eq> Interned<T> {
    pub(crate) fn add(&mut self, value: T) -> u32 {
        if let Some(id) = self.index.get(&value) {
            return *id;
        }
        let id = u32::try_from(self.list.len()).expect("fewer distinct sets than 2^32");
        let value = Arc::new(value);
        self.list.push(Arc::clone(&value));
        self.index.insert(value, id);
        id
    }

    pub(crate) fn get(&self, id: u32) -> &T {
        &self.list[id as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    pub(crate) requirements: Interned<Requirements>,
    pub(crate) tolerations: Interned<Vec<Toleration>>,
    pub(crate) taints: Interned<Vec<Taint>>,
}
