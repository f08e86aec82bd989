//! Nodes or claims, found by name and by provider id: the one thing that joins the two kinds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use runtime::watch::{Change, Versioned};

/// What [`Joined`] needs to know of an object.
pub(super) trait Identity: Versioned {
    fn name(&self) -> &Arc<str>;
    fn provider_id(&self) -> Option<&Arc<str>>;
}

/// An object that came, went or changed, and a provider id whose holders are concerned.
pub(super) type Moved = (Arc<str>, Option<Arc<str>>);

pub(super) struct Joined<T> {
    by_name: HashMap<Arc<str>, Arc<T>>,
    by_provider: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl<T> Default for Joined<T> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), by_provider: HashMap::new() }
    }
}

impl<T: Identity> Joined<T> {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.by_name.values()
    }

    /// By name. An empty provider id matches nothing.
    pub(super) fn with(&self, provider_id: &str) -> impl Iterator<Item = &Arc<T>> {
        self.names_with(provider_id).filter_map(|name| self.by_name.get(name))
    }

    pub(super) fn names_with(&self, provider_id: &str) -> impl Iterator<Item = &Arc<str>> {
        self.by_provider.get(provider_id).into_iter().flatten()
    }

    /// `read` makes the state of an object; `None` skips it.
    pub(super) fn change<K>(&mut self, change: Change<K>, read: impl Fn(&K) -> Option<T>) -> Vec<Moved> {
        let mut moved = Vec::new();
        match change {
            Change::Applied(object) => {
                if let Some(state) = read(&object) {
                    self.put(state, &mut moved);
                }
            }
            Change::Deleted(object) => {
                if let Some(state) = read(&object) {
                    // Not a namesake that came meanwhile.
                    if self.by_name.get(state.name()).is_some_and(|known| known.uid() == state.uid()) {
                        self.remove(state.name(), &mut moved);
                    }
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.by_name.keys().cloned().collect();
                for state in all.iter().filter_map(|object| read(object)) {
                    gone.remove(state.name());
                    self.put(state, &mut moved);
                }
                for name in gone {
                    self.remove(&name, &mut moved);
                }
            }
        }
        moved
    }

    fn put(&mut self, state: T, moved: &mut Vec<Moved>) {
        let known = self.by_name.get(state.name());
        if known.is_some_and(|known| known.is_newer_than(&state)) {
            return;
        }
        let before = known.and_then(|known| known.provider_id().cloned());
        let (name, after) = (state.name().clone(), state.provider_id().cloned());
        if before != after {
            self.unlink(before.as_ref(), &name);
            if let Some(id) = &after {
                self.by_provider.entry(id.clone()).or_default().insert(name.clone());
            }
            if before.is_some() {
                moved.push((name.clone(), before));
            }
        }
        self.by_name.insert(name.clone(), Arc::new(state));
        moved.push((name, after));
    }

    fn remove(&mut self, name: &str, moved: &mut Vec<Moved>) {
        let Some(state) = self.by_name.remove(name) else { return };
        self.unlink(state.provider_id(), state.name());
        moved.push((state.name().clone(), state.provider_id().cloned()));
    }

    fn unlink(&mut self, provider_id: Option<&Arc<str>>, name: &str) {
        let Some(id) = provider_id else { return };
        if let Some(names) = self.by_provider.get_mut(id) {
            names.remove(name);
            if names.is_empty() {
                self.by_provider.remove(id);
            }
        }
    }
}
