//! NodePools, DaemonSets and namespaces: what new nodes can be made from, and what runs on each of them anyway.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodePool;
use api::conditions;
use api::convert;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::DaemonSet as ApiDaemonSet;
use k8s_openapi::api::core::v1 as core;
use model::catalog::InstanceType;
use model::duration::NillableDuration;
use model::pool::{DaemonSet, NodePool as Pool};
use rustc_hash::FxHashMap;
use tracing::warn;

use crate::catalog::Offer;

type Key = (String, String);

#[derive(Default)]
pub(super) struct Daemons {
    objects: BTreeMap<Key, Arc<ApiDaemonSet>>,
    /// The newest pod of each set: it shows what admission made of the template.
    newest: FxHashMap<Key, Arc<core::Pod>>,
    pub(super) converted: BTreeMap<Key, DaemonSet>,
}

pub(super) fn key_of_set(set: &ApiDaemonSet) -> Key {
    (set.metadata.namespace.clone().unwrap_or_default(), set.metadata.name.clone().unwrap_or_default())
}

impl Daemons {
    /// Says whether overhead of nodes changed.
    pub(super) fn set(&mut self, set: Arc<ApiDaemonSet>) -> bool {
        let key = key_of_set(&set);
        self.objects.insert(key.clone(), set);
        self.convert(&key)
    }

    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.objects.remove(key);
        self.newest.remove(key);
        self.converted.remove(key).is_some()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    /// Takes note of a daemon's pod. Says whether overhead of nodes changed.
    pub(super) fn saw(&mut self, pod: &Arc<core::Pod>) -> bool {
        let owner = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let Some(owner) = owner.filter(|o| o.kind == "DaemonSet") else { return false };
        let key = (pod.metadata.namespace.clone().unwrap_or_default(), owner.name.clone());
        let age = |p: &core::Pod| p.metadata.creation_timestamp.as_ref().map(|t| t.0);
        if self.newest.get(&key).is_some_and(|known| age(known) > age(pod)) {
            return false;
        }
        self.newest.insert(key.clone(), Arc::clone(pod));
        self.convert(&key)
    }

    fn convert(&mut self, key: &Key) -> bool {
        let Some(object) = self.objects.get(key) else { return false };
        let newest = self.newest.get(key).map(|p| &**p);
        match convert::daemon_set(object, newest, &|_| None) {
            Ok(set) if self.converted.get(key) == Some(&set) => false,
            Ok(set) => {
                self.converted.insert(key.clone(), set);
                true
            }
            Err(error) => {
                warn!(%error, "DaemonSet left out until it is corrected");
                self.converted.remove(key).is_some()
            }
        }
    }
}

pub(super) fn is_ready(pool: &NodePool) -> bool {
    let all = pool.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions::is_true(all, conditions::READY)
}

/// Pools that nodes may be made from now, with what they offer. A pool that cannot be read, or whose class offers nothing yet,
/// is left out.
///
/// `held` counts, by reservation, the claims that are to be launched into it and are not yet: their room is taken.
pub(crate) fn usable(
    pools: &BTreeMap<String, Arc<NodePool>>,
    offer: &Offer,
    held: &BTreeMap<String, u32>,
) -> Vec<Pool> {
    let mut less: Vec<(Types, Types)> = Vec::new();
    let mut all = Vec::new();
    for (name, pool) in pools {
        let class = &pool.spec.template.spec.node_class_ref;
        let leaving = pool.metadata.deletion_timestamp.is_some();
        if !class.is_supported() || leaving || !is_ready(pool) {
            continue;
        }
        // Without subnets a class sells nothing anywhere: its status is ready before the types that follow from it are.
        let sells = |types: &&Arc<Vec<InstanceType>>| types.iter().any(|t| !t.offerings.is_empty());
        let Some(types) = offer.types_for(&class.name, name).filter(sells) else {
            continue;
        };
        let types = if held.is_empty() { Arc::clone(types) } else { without_held(types, held, &mut less) };
        match convert::node_pool(pool, types) {
            Ok(pool) => all.push(pool),
            Err(error) => warn!(nodepool = name, %error, "NodePool left out until it is corrected"),
        }
    }
    all
}

/// What a class sells, shared by its pools.
type Types = Arc<Vec<InstanceType>>;

/// Pools of one class keep sharing one list: the solver recognises it by identity.
fn without_held(
    types: &Arc<Vec<InstanceType>>,
    held: &BTreeMap<String, u32>,
    made: &mut Vec<(Types, Types)>,
) -> Arc<Vec<InstanceType>> {
    if let Some((_, known)) = made.iter().find(|(from, _)| Arc::ptr_eq(from, types)) {
        return Arc::clone(known);
    }
    let is_held = |t: &InstanceType| {
        t.offerings.iter().any(|o| o.reservation.as_ref().is_some_and(|r| held.contains_key(&*r.id)))
    };
    let less = if types.iter().any(is_held) {
        let mut own = (**types).clone();
        for offering in own.iter_mut().flat_map(|t| &mut t.offerings) {
            if let Some(reservation) = &mut offering.reservation {
                let taken = held.get(&*reservation.id).copied().unwrap_or(0);
                reservation.capacity = reservation.capacity.saturating_sub(taken);
            }
        }
        Arc::new(own)
    } else {
        Arc::clone(types)
    };
    made.push((Arc::clone(types), Arc::clone(&less)));
    less
}

/// `consolidateAfter` by pool, where nodes settle at all.
pub(super) fn settling(pools: &BTreeMap<String, Arc<NodePool>>) -> BTreeMap<String, SignedDuration> {
    let after = |pool: &NodePool| match &pool.spec.disruption.consolidate_after {
        NillableDuration::After(after) => Some(after.nanos()).filter(|n| *n > 0),
        NillableDuration::Never => None,
    };
    pools
        .iter()
        .filter_map(|(name, pool)| Some((name.clone(), SignedDuration::from_nanos(after(pool)?))))
        .collect()
}
