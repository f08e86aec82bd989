//! The checks, in the reference's order.

use std::sync::Arc;

use jiff::Timestamp;
use model::do_not_disrupt::Protection;
use model::duration::NillableDuration;
use model::labels;
use model::price::MicroDollars;

use super::{Blocked, Consolidatable, Costs, Pdbs, Policy, Pool, PoolOf, Resident, Subject};
use crate::consolidation::Candidate;
use crate::method::{Class, Method};

/// The first thing that holds the node whatever the method.
pub fn check(subject: &Subject, class: Class, pdbs: &Pdbs, now: Timestamp) -> Result<(), Blocked> {
    if let Some(blocked) = state(subject, now).into_iter().next() {
        return Err(blocked);
    }
    if class == Class::Eventual && subject.bounded() {
        return Ok(());
    }
    held_by_pods(subject, pdbs, now).next().map_or(Ok(()), Err)
}

/// [`check`], and what the method asks for beyond.
pub fn eligible(subject: &Subject, method: Method, pdbs: &Pdbs, now: Timestamp) -> Result<(), Blocked> {
    check(subject, method.class(), pdbs, now)?;
    own_conditions(subject, method)
}

/// What has come to hold a node since its command was begun; asked of pods that were read live. The command's own traces, and
/// what it made happen (nominations, recent pod events), do not count. What only time can cure, a PodDisruptionBudget that is
/// spent, comes last, and not at all for eventual methods: the drain honours it.
pub fn still_free(subject: &Subject, method: Method, pdbs: &Pdbs, now: Timestamp) -> Result<(), Blocked> {
    if subject.do_not_disrupt {
        return Err(Blocked::NodeAnnotation);
    }
    let eventual = method.class() == Class::Eventual;
    let pods_matter = !(eventual && subject.bounded());
    let (spent, lasting): (Vec<Blocked>, Vec<Blocked>) =
        held_by_pods(subject, pdbs, now).filter(|_| pods_matter).partition(Blocked::is_spent_pdb);
    if let Some(blocked) = lasting.into_iter().next() {
        return Err(blocked);
    }
    let costs = Costs::of(subject);
    if method == Method::Emptiness && !costs.is_empty() {
        return Err(Blocked::NotEmpty { pods: costs.pods });
    }
    spent.into_iter().find(|_| !eventual).map_or(Ok(()), Err)
}

/// Everything that holds the node now, the most decisive first, each thing once: what holds it for every reason, then what
/// keeps single reasons away. Empty when some method would take it, budgets and savings aside.
pub fn obstacles(subject: &Subject, pdbs: &Pdbs, now: Timestamp) -> Vec<Blocked> {
    let mut all = state(subject, now);
    // Pods do not hold up drift that a deadline bounds.
    let pods_matter = !all.is_empty() || !subject.is_drifted() || !subject.bounded();
    all.extend(held_by_pods(subject, pdbs, now));
    if !all.is_empty() && pods_matter {
        return all;
    }
    let mut refused = Vec::new();
    for method in [Method::Emptiness, Method::StaticDrift, Method::Drift, Method::SingleNode] {
        match eligible(subject, method, pdbs, now) {
            Ok(()) => return Vec::new(),
            Err(blocked) if !refused.contains(&blocked) => refused.push(blocked),
            Err(_) => {}
        }
    }
    // That a pool is not of the other kind explains nothing.
    refused.retain(|blocked| !matches!(blocked, Blocked::NotFixedSize { .. } | Blocked::LeftToEmptiness));
    refused
}

/// What the objects say, without the pods.
fn state(subject: &Subject, now: Timestamp) -> Vec<Blocked> {
    let mut found = Vec::new();
    if let Some(id) = &subject.command {
        found.push(Blocked::InCommand(Arc::clone(id)));
    }
    if subject.claim.is_none() && subject.conflicting_claims.is_empty() {
        found.push(Blocked::NotOurs);
        return found;
    }
    if !subject.conflicting_claims.is_empty() {
        found.push(Blocked::ConflictingClaims(subject.conflicting_claims.clone()));
    }
    if subject.node.is_none() {
        found.push(Blocked::NoNode);
    } else if !subject.initialized {
        found.push(Blocked::NotInitialized);
    }
    found.extend(subject.leaving.map(Blocked::Leaving));
    found.extend(subject.foreign_taint.clone().map(Blocked::ForeignTaint));
    let nominated = subject.nominated_until.filter(|until| *until > now);
    found.extend(nominated.map(|until| Blocked::Nominated { until }));
    if subject.do_not_disrupt {
        found.push(Blocked::NodeAnnotation);
    }
    match &subject.pool {
        PoolOf::NoLabel => found.push(Blocked::NoPoolLabel),
        PoolOf::Missing(pool) => found.push(Blocked::PoolMissing(Arc::clone(pool))),
        PoolOf::Known(pool) => found.extend(
            pool.types_unknown.clone().map(|why| Blocked::TypesUnknown { pool: Arc::clone(&pool.name), why }),
        ),
    }
    found
}

/// Annotations of all pods come before all budgets, as in the reference.
fn held_by_pods<'a>(
    subject: &'a Subject,
    pdbs: &'a Pdbs,
    now: Timestamp,
) -> impl Iterator<Item = Blocked> + 'a {
    let annotation = move |resident: &Arc<Resident>| {
        let until = match resident.pod.protection(now) {
            Protection::Until(nanos) => Timestamp::from_nanosecond(nanos).ok(),
            _ => None,
        };
        resident.is_protected(now).then(|| Blocked::PodAnnotation { pod: resident.pod.key(), until })
    };
    let budget = move |resident: &Arc<Resident>| {
        let block = pdbs.block(&resident.pod, now)?;
        Some(Blocked::Pdb { pod: resident.pod.key(), block })
    };
    subject.pods.iter().filter_map(annotation).chain(subject.pods.iter().filter_map(budget))
}

fn own_conditions(subject: &Subject, method: Method) -> Result<(), Blocked> {
    let PoolOf::Known(pool) = &subject.pool else { return Err(Blocked::NoPoolLabel) };
    let named = || Arc::clone(&pool.name);
    match (method, pool.fixed_size) {
        (Method::StaticDrift, false) => return Err(Blocked::NotFixedSize { pool: named() }),
        (Method::StaticDrift | Method::Drift, _) if !subject.is_drifted() => {
            return Err(Blocked::NotDrifted);
        }
        (Method::StaticDrift, true) | (Method::Drift, false) => return Ok(()),
        (_, true) => return Err(Blocked::FixedSize { pool: named() }),
        (_, false) => {}
    }
    if method == Method::Emptiness { emptiness(subject, pool) } else { consolidation(subject, pool) }
}

fn emptiness(subject: &Subject, pool: &Pool) -> Result<(), Blocked> {
    consolidation_on(pool)?;
    if subject.buffer_pods > 0 {
        return Err(Blocked::BufferPods(subject.buffer_pods));
    }
    let costs = Costs::of(subject);
    if !costs.is_empty() {
        return Err(Blocked::NotEmpty { pods: costs.pods });
    }
    consolidatable(subject)
}

fn consolidation(subject: &Subject, pool: &Pool) -> Result<(), Blocked> {
    let offering = &subject.offering;
    let instance_type = match &offering.instance_type {
        Some(name) if offering.type_known => name,
        name => return Err(Blocked::TypeUnknown { instance_type: name.clone() }),
    };
    let capacity_type = offering.capacity_type.as_ref().ok_or(Blocked::NoCapacityType)?;
    let zone = offering.zone.as_ref().ok_or(Blocked::NoZone)?;
    // The reference takes a price it does not know for 0 and may delete such a node; what cannot be priced is left here.
    if offering.price.is_none() {
        return Err(Blocked::NoPrice {
            instance_type: Arc::clone(instance_type),
            zone: Arc::clone(zone),
            capacity_type: Arc::clone(capacity_type),
        });
    }
    consolidation_on(pool)?;
    let costs = Costs::of(subject);
    if costs.is_empty() {
        return Err(match subject.buffer_pods {
            0 => Blocked::LeftToEmptiness,
            count => Blocked::BufferPods(count),
        });
    }
    if pool.policy == Policy::WhenEmpty {
        return Err(Blocked::OnlyWhenEmpty { pool: Arc::clone(&pool.name), pods: costs.pods });
    }
    consolidatable(subject)
}

fn consolidation_on(pool: &Pool) -> Result<(), Blocked> {
    match pool.consolidate_after {
        NillableDuration::Never => Err(Blocked::ConsolidationOff { pool: Arc::clone(&pool.name) }),
        NillableDuration::After(_) => Ok(()),
    }
}

fn consolidatable(subject: &Subject) -> Result<(), Blocked> {
    match subject.claim.as_ref().map(|claim| claim.consolidatable) {
        Some(Consolidatable::Yes) => Ok(()),
        Some(Consolidatable::NotBefore(at)) => Err(Blocked::NotConsolidatable { not_before: Some(at) }),
        Some(Consolidatable::No) | None => Err(Blocked::NotConsolidatable { not_before: None }),
    }
}

impl Subject {
    pub fn is_drifted(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.drifted.is_some())
    }

    /// A deadline bounds how long pods can hold it.
    fn bounded(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.termination_grace_period.is_some())
    }

    pub fn costs(&self) -> Costs {
        Costs::of(self)
    }

    /// As the searches take it; `None` without a Node or a pool. Whether it is eligible has been asked before.
    pub fn candidate(&self) -> Option<Candidate> {
        let PoolOf::Known(pool) = &self.pool else { return None };
        let offering = &self.offering;
        let whole = offering.type_known && offering.capacity_type.is_some() && offering.zone.is_some();
        Some(Candidate {
            node: Arc::clone(self.node.as_ref()?),
            pool: Arc::clone(&pool.name),
            instance_type: offering.instance_type.clone().filter(|_| whole),
            price: offering.price.unwrap_or(MicroDollars::ZERO),
            spot: offering.capacity_type.as_deref() == Some(labels::SPOT),
            reschedule_cost: Costs::of(self).reschedule,
            holds_buffers: self.buffer_pods > 0,
        })
    }
}
