//! Sharing of equal pod specs among pods.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use model::pod::PodSpec;

/// Hands out one `Arc` for equal specs, as long as anyone holds it. Replicas of a workload then cost a pointer each, and the
/// solver recognises them by it.
#[derive(Debug, Default)]
pub struct Specs {
    known: BTreeMap<u64, Vec<Weak<PodSpec>>>,
    /// Entries at which dead ones are swept out next.
    sweep_at: usize,
}

impl Specs {
    pub fn share(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        let key = fingerprint(&spec);
        if let Some(found) = self
            .known
            .get(&key)
            .and_then(|same| same.iter().filter_map(Weak::upgrade).find(|known| **known == spec))
        {
            return found;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, same| {
                same.retain(|weak| weak.strong_count() > 0);
                !same.is_empty()
            });
            self.sweep_at = (self.known.len() * 2).max(1024);
        }
        let shared = Arc::new(spec);
        self.known.entry(key).or_default().push(Arc::downgrade(&shared));
        shared
    }
}

/// Of the fields in which specs usually differ; the rest is left to the comparison.
fn fingerprint(spec: &PodSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    spec.labels.hash(&mut hasher);
    spec.node_selector.hash(&mut hasher);
    spec.priority.hash(&mut hasher);
    spec.host_ports.hash(&mut hasher);
    for (name, amount) in spec.requests.iter().filter(|(_, amount)| !amount.is_zero()) {
        name.hash(&mut hasher);
        amount.hash(&mut hasher);
    }
    for constraint in &spec.topology_spread {
        constraint.topology_key.hash(&mut hasher);
        constraint.selector.hash(&mut hasher);
    }
    for term in spec.affinity.iter().chain(&spec.anti_affinity) {
        term.topology_key.hash(&mut hasher);
        term.selector.hash(&mut hasher);
    }
    hasher.finish()
}
