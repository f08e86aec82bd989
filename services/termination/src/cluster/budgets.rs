//! PodDisruptionBudgets, by namespace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use policy::drain;
use policy::drain::pdb::Pdb;
use runtime::watch::Change;

#[derive(Default)]
pub(super) struct Budgets {
    /// Namespace to name to budget.
    all: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Pdb>>>,
    coverage: u64,
}

impl Budgets {
    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = &Arc<Pdb>> {
        self.all.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Pdb>> {
        self.all.get(namespace)?.get(name)
    }

    /// The one budget that covers a pod. None, when several do: those are refused whatever they allow.
    pub(super) fn covering(&self, pod: &drain::Pod) -> Option<Arc<Pdb>> {
        let mut covering = self.of(&pod.namespace).filter(|pdb| pdb.selects(pod));
        let first = covering.next()?;
        covering.next().is_none().then(|| Arc::clone(first))
    }

    /// Moves when a budget came, went or changed what it covers.
    pub(super) fn coverage(&self) -> u64 {
        self.coverage
    }

    pub(super) fn change(&mut self, change: Change<PodDisruptionBudget>) {
        match change {
            Change::Applied(pdb) => {
                if let Some(pdb) = residents::pdb(&pdb) {
                    self.put(pdb);
                }
            }
            Change::Deleted(pdb) => {
                self.coverage += 1;
                let (namespace, name) = (pdb.metadata.namespace.as_deref(), pdb.metadata.name.as_deref());
                if let (Some(namespace), Some(name)) = (namespace, name)
                    && let Some(own) = self.all.get_mut(namespace)
                {
                    own.remove(name);
                    if own.is_empty() {
                        self.all.remove(namespace);
                    }
                }
            }
            Change::Reset(all) => {
                self.coverage += 1;
                self.all.clear();
                all.iter().filter_map(|pdb| residents::pdb(pdb)).for_each(|pdb| self.put(pdb));
            }
        }
    }

    fn put(&mut self, pdb: Pdb) {
        let own = self.all.entry(pdb.namespace.clone()).or_default();
        if own.get(&pdb.name).is_none_or(|old| old.selector != pdb.selector) {
            self.coverage += 1;
        }
        own.insert(pdb.name.clone(), Arc::new(pdb));
    }
}
