//! Which domains a pod must stay in when new nodes are packed again: those that its own rules decided, and those where other
//! pods count on it.

use packing::Bits;
use smallvec::SmallVec;

use super::bin::Bin;
use super::choice::{Choice, Choices};
use super::demand::DemandId;
use super::state::State;
use crate::topology::groups::{NO_DOMAIN, TopoKeyId};

/// What one topology key leaves a pod. One domain, or, where only pods that run already keep it away from some, all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) key: TopoKeyId,
    pub(crate) allowed: Bits,
    /// The node must be in one decided domain.
    pub(crate) pin: bool,
}

pub(crate) type Holds = SmallVec<[Hold; 2]>;

impl State<'_> {
    /// By topology key, in order. `None`: a rule of the pod needs a domain that its node does not have yet, so that nothing but
    /// the node as it is will do.
    pub(crate) fn holds(&self, bin: &Bin, demand: DemandId, rung: u16) -> Option<Holds> {
        let world = self.world;
        let (class, variant) = (self.class_of(demand), self.variant(demand, rung));
        let mut out = Holds::new();
        for &group in &variant.domain_groups {
            let key = world.topo_key_of(group);
            self.decided(bin, key).map(|hold| add(&mut out, hold))?;
        }
        for &group in &class.kept_from_domain {
            let key = world.topo_key_of(group);
            if self.live_anti.contains(&group) {
                self.decided(bin, key).map(|hold| add(&mut out, hold))?;
                continue;
            }
            // Nobody who is to be placed states the rule: where it keeps pods away from does not change any more.
            let stating = self.ledger.stating(world, group);
            if stating.iter().any(|n| *n > 0) {
                let mut allowed = Bits::new(stating.len());
                stating.iter().enumerate().filter(|(_, n)| **n == 0).for_each(|(d, _)| allowed.set(d));
                add(&mut out, Hold { key, allowed, pin: false });
            }
        }
        for group in class.selected.iter().filter(|g| self.live.contains(g)) {
            if let Some(hold) = self.decided(bin, world.topo_key_of(*group)) {
                add(&mut out, hold);
            }
        }
        out.sort_by_key(|hold| hold.key);
        Some(out)
    }

    fn decided(&self, bin: &Bin, key: TopoKeyId) -> Option<Hold> {
        let domain = bin.domains[key];
        (domain != NO_DOMAIN).then(|| {
            let mut allowed = Bits::new(self.world.groups.keys[key].values.len());
            allowed.set(domain as usize);
            Hold { key, allowed, pin: true }
        })
    }
}

fn add(holds: &mut Holds, hold: Hold) {
    match holds.iter_mut().find(|known| known.key == hold.key) {
        Some(known) => {
            known.allowed.keep(&hold.allowed);
            known.pin |= hold.pin;
        }
        None => holds.push(hold),
    }
}

/// Holds as choices without limits: the rules behind them were asked when the domains were decided.
pub(crate) fn as_choices(holds: &[Hold]) -> Option<Choices> {
    let choice = |hold: &Hold| {
        let order: SmallVec<[u32; 4]> = hold.allowed.iter().map(|d| d as u32).collect();
        let quota = SmallVec::from_elem(u32::MAX, order.len());
        Choice { key: hold.key, allowed: hold.allowed.clone(), pin: hold.pin, order, quota }
    };
    (!holds.is_empty()).then(|| holds.iter().map(choice).collect())
}
