//! From raw objects to those that an index takes.

use std::{collections::HashSet, sync::Arc};

use kube::{Resource, ResourceExt as _, core::DeserializeGuard};
use tracing::warn;

use crate::{Metrics, metrics::Kind};

/// Sorts out what does not parse, drops what no index needs.
pub(super) struct Parser<K> {
    kind: String,
    slim: fn(&mut K),
    metrics: Metrics,
    /// Objects that do not parse, by name. No index holds one of them once the list is complete that follows the first time.
    malformed: HashSet<String>,
    /// An object that parsed before, or was never seen, does not parse now.
    pub(super) outdated: bool,
}

impl<K: Resource<DynamicType = ()>> Parser<K> {
    pub(super) fn new(metrics: &Metrics, slim: fn(&mut K)) -> Self {
        Self {
            kind: K::kind(&()).into_owned(),
            slim,
            metrics: metrics.clone(),
            malformed: HashSet::new(),
            outdated: false,
        }
    }

    /// Part of a full list: what is left out of it leaves the index.
    pub(super) fn listed(&mut self, object: DeserializeGuard<K>) -> Option<Arc<K>> {
        self.parsed(object).0
    }

    pub(super) fn applied(&mut self, object: DeserializeGuard<K>) -> Option<Arc<K>> {
        let (object, ceased) = self.parsed(object);
        self.outdated |= ceased;
        object
    }

    pub(super) fn deleted(&mut self, object: DeserializeGuard<K>) -> Option<Arc<K>> {
        let name = object.0.is_err().then(|| full_name(&object));
        let object = self.applied(object);
        if let Some(name) = name {
            self.malformed.remove(&name);
        }
        object
    }

    /// The object without what nobody here reads, and whether it does not parse for the first time.
    fn parsed(&mut self, object: DeserializeGuard<K>) -> (Option<Arc<K>>, bool) {
        // Formatting a name for each of many thousand objects would cost more than taking them in.
        let ceased = (object.0.is_err() || !self.malformed.is_empty()) && self.note(&object);
        let Ok(mut object) = object.0 else { return (None, ceased) };
        // Often half of an object's size, and of interest to nobody here.
        object.meta_mut().managed_fields = None;
        (self.slim)(&mut object);
        (Some(Arc::new(object)), false)
    }

    /// Whether the object does not parse for the first time.
    fn note(&mut self, object: &DeserializeGuard<K>) -> bool {
        let name = full_name(object);
        let Err(error) = &object.0 else {
            self.malformed.remove(&name);
            return false;
        };
        self.metrics.watch_malformed.get_or_create(&Kind { kind: self.kind.clone() }).inc();
        let ceased = self.malformed.insert(name.clone());
        if ceased {
            let kind = &self.kind;
            warn!(kind, name, %error, "object does not parse and is left out until it is corrected");
        }
        ceased
    }
}

fn full_name<K: Resource<DynamicType = ()>>(object: &DeserializeGuard<K>) -> String {
    match object.meta().namespace.as_deref() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}
