//! The parts of a plan that its violations concern. They are held back, and everything else may be carried out: one odd
//! workload does not stop the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels;
use model::price::MicroDollars;

use super::violation::{Place, Violation};
use crate::plan::{NewNode, Plan, PodRef};

/// A pod whose place in the plan breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPod {
    pub pod: PodRef,
    /// The first violation that concerns it, as a sentence.
    pub why: Arc<str>,
}

/// Why, by place.
#[derive(Default)]
struct Rejected {
    new_nodes: BTreeMap<usize, Arc<str>>,
    existing: BTreeMap<Arc<str>, Arc<str>>,
}

/// The plan without the places that `violations` name. Their pods are `unreached`, so that the next decision has them again.
/// The rest may still break a rule that only held together with what was taken out: it must be checked again.
pub fn hold_back(mut plan: Plan, violations: &[Violation]) -> (Plan, Vec<HeldPod>) {
    let mut rejected = Rejected::default();
    let mut held: BTreeMap<PodRef, Arc<str>> = BTreeMap::new();
    for violation in violations {
        let why: Arc<str> = Arc::from(violation.to_string());
        if let Violation::PodForgotten { pod } = violation
            && let Some((namespace, name)) = pod.split_once('/')
        {
            held.insert(PodRef { namespace: Arc::from(namespace), name: Arc::from(name) }, why);
            continue;
        }
        rejected.add(violation, &why, &plan);
    }
    let mut index = 0;
    plan.new_nodes.retain(|node| {
        let why = rejected.new_nodes.get(&index);
        index += 1;
        why.inspect(|why| held.extend(node.pods.iter().map(|pod| (pod.clone(), Arc::clone(why))))).is_none()
    });
    plan.existing.retain(|node| {
        let why = rejected.existing.get(&node.node);
        why.inspect(|why| held.extend(node.pods.iter().map(|pod| (pod.clone(), Arc::clone(why))))).is_none()
    });
    let known: BTreeSet<&PodRef> =
        plan.unschedulable.iter().map(|left| &left.pod).chain(&plan.unreached).collect();
    let unknown: Vec<PodRef> = held.keys().filter(|pod| !known.contains(pod)).cloned().collect();
    plan.unreached.extend(unknown);
    let prices = plan.new_nodes.iter().map(|node| node.launch.price.get());
    plan.cost = MicroDollars::new(prices.fold(0, i64::saturating_add));
    plan.lower_bound = None;
    (plan, held.into_iter().map(|(pod, why)| HeldPod { pod, why }).collect())
}

impl Rejected {
    fn add(&mut self, violation: &Violation, why: &Arc<str>, plan: &Plan) {
        use Violation as V;
        match violation {
            V::PodForgotten { .. } | V::WrongCost { .. } | V::BoundAboveCost { .. } => {}
            V::PodTwice { pod } | V::PodNotAsked { pod } | V::RefusedPodPlaced { pod, .. } => {
                let has = |pods: &[PodRef]| pods.iter().any(|own| own.to_string() == *pod);
                self.new_nodes(plan, why, |node| has(&node.pods));
                for node in plan.existing.iter().filter(|node| has(&node.pods)) {
                    self.place(&Place::Existing(Arc::clone(&node.node)), why);
                }
            }
            V::LimitExceeded { pool, .. } => self.new_nodes(plan, why, |node| node.pool == *pool),
            V::ReservationOvercommitted { .. } => self.new_nodes(plan, why, |node| {
                node.requirements.get_or_exists(labels::CAPACITY_TYPE).contains(labels::RESERVED)
            }),
            // One of the two is enough, and a node that exists may have either pod already.
            V::AntiAffinityBroken { at: Place::Existing(_), other_at: place @ Place::New { .. }, .. } => {
                self.place(place, why);
            }
            V::AntiAffinityBroken { at: at @ Place::Existing(_), other_at, .. } => {
                self.place(at, why);
                self.place(other_at, why);
            }
            V::UnknownPool { at }
            | V::FixedSizePool { at }
            | V::NodeWithoutPods { at }
            | V::NoTypes { at }
            | V::UnknownType { at, .. }
            | V::TypeTwice { at, .. }
            | V::TooManyTypes { at, .. }
            | V::TypeCannotLaunch { at, .. }
            | V::WiderThanPool { at, .. }
            | V::WrongRequests { at, .. }
            | V::UnknownNode { at }
            | V::NodeGoesAway { at }
            | V::NodeSettles { at, .. }
            | V::NodeNotInitialized { at, .. }
            | V::DoesNotFit { at, .. }
            | V::NotSelected { at, .. }
            | V::Untolerated { at, .. }
            | V::PortConflict { at, .. }
            | V::VolumeOutOfReach { at, .. }
            | V::TooManyVolumes { at, .. }
            | V::SpreadUndecided { at, .. }
            | V::SpreadSkewed { at, .. }
            | V::AffinityUnmet { at, .. }
            | V::AntiAffinityBroken { at, .. }
            | V::TooFewValues { at, .. }
            | V::RelaxationNotStated { at, .. }
            | V::TypesNotByPrice { at, .. }
            | V::LaunchNotOffered { at, .. }
            | V::LaunchNotPreferred { at, .. }
            | V::WrongPrice { at, .. } => self.place(at, why),
        }
    }

    fn new_nodes(&mut self, plan: &Plan, why: &Arc<str>, concerns: impl Fn(&NewNode) -> bool) {
        for (index, _) in plan.new_nodes.iter().enumerate().filter(|(_, node)| concerns(node)) {
            self.new_nodes.entry(index).or_insert_with(|| Arc::clone(why));
        }
    }

    fn place(&mut self, place: &Place, why: &Arc<str>) {
        match place {
            Place::New { index, .. } => self.new_nodes.entry(*index).or_insert_with(|| Arc::clone(why)),
            Place::Existing(name) => self.existing.entry(Arc::clone(name)).or_insert_with(|| Arc::clone(why)),
        };
    }
}
