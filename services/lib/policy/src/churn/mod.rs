//! Brakes against disturbance that is not worth it: minimum saving, payback time, cool-down and backoff per pool.
//!
//! All but the backoff and the cost per pod are opt-in, by annotations of the NodePool, since its schema is the reference's and has no place for them:
//!
//! | annotation | value | without it |
//! |---|---|---|
//! | `karpenter.sh/consolidation-many-for-many` | `true` | at most one node replaces others |
//! | `karpenter.sh/consolidation-minimum-saving` | `5%` of what is replaced, or `0.02` dollars an hour | any saving will do |
//! | `karpenter.sh/consolidation-cool-down` | `10m` between two consolidations of the pool | none |
//! | `karpenter.sh/consolidation-longest-payback` | `4h` | a day for several by several, none else |
//! | `karpenter.sh/consolidation-cost-per-pod` | `0.02` dollars for moving one pod, `0` for none | `0.01` |
//! | `karpenter.sh/disruption-paused-until` | `2026-11-18T08:00:00Z` | not paused |
//!
//! A value that cannot be read stops consolidation of the pool and is told, rather than being taken for no brake. Emptiness and
//! drift are not braked: they have no saving to weigh.
//!
//! Payback: while old and new nodes run side by side, both are paid. `price of the new × that time ÷ saving` is how long the
//! saving takes to make up for it.
//!
//! Cost per pod: a command that replaces nodes must earn what moving its pods costs within an hour, which is about how long a plan lasts.
//! Deletions buy nothing and are not weighed.

mod backoff;
mod ledger;
mod settings;

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;

use crate::consolidation::Refusal;
use crate::drain::time::plus;

pub use backoff::{Backoff, FIRST_REST, LONGEST_REST};
pub use ledger::{Account, Realised};
pub use settings::{COST_PER_POD, Minimum, Settings};

/// How long old and new nodes are assumed to run side by side: launch, initialisation and drain.
pub const SIDE_BY_SIDE: SignedDuration = SignedDuration::from_mins(5);
/// Longest payback of several nodes by several where the pool does not say.
pub const MANY_PAYBACK: SignedDuration = SignedDuration::from_hours(24);

/// A move in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub removed: MicroDollars,
    pub added: MicroDollars,
    pub new_nodes: usize,
    /// Pods that move.
    pub pods: u32,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worth {
    /// Per hour.
    pub saving: MicroDollars,
    pub payback: SignedDuration,
}

impl Move {
    pub fn saving(self) -> MicroDollars {
        self.removed - self.added
    }

    /// How long the saving takes to make up for the time in which both are paid. Without a saving: for ever.
    pub fn payback(self) -> SignedDuration {
        let saving = i128::from(self.saving().get());
        if saving <= 0 {
            return SignedDuration::MAX;
        }
        let seconds = i128::from(self.added.get()) * i128::from(SIDE_BY_SIDE.as_secs()) / saving;
        SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
    }
}

/// Whether all pools that a consolidation touches find it worth while.
pub fn worth<'a>(movement: Move, pools: impl IntoIterator<Item = &'a Settings>) -> Result<Worth, Refusal> {
    let saving = movement.saving();
    let payback = movement.payback();
    for pool in pools {
        if let Some(problem) = &pool.problem {
            return Err(Refusal::Setting(problem.clone()));
        }
        if movement.new_nodes > 1 && !pool.many_for_many {
            return Err(Refusal::TooManyNew(movement.new_nodes));
        }
        let wanted = pool.minimum_saving.of(movement.removed);
        if saving < wanted {
            return Err(Refusal::TooLittleSaved { saving, wanted });
        }
        let per_pod = pool.cost_per_pod;
        if movement.new_nodes > 0 && saving < per_pod.saturating_mul(i64::from(movement.pods)) {
            return Err(Refusal::CostsMore { saving, pods: movement.pods, per_pod });
        }
        let default = (movement.new_nodes > 1).then_some(MANY_PAYBACK);
        if let Some(longest) = pool.longest_payback.or(default).filter(|longest| payback > *longest) {
            return Err(Refusal::PaysBackLate { minutes: payback.as_mins(), longest: longest.as_mins() });
        }
    }
    Ok(Worth { saving, payback })
}

/// Until when a pool is left alone after its last consolidation; `None` when that is over. After a restart the last one is the
/// creation of the youngest NodeClaim that was made for a command.
pub fn cooling_until(settings: &Settings, last: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let until = plus(last?, settings.cool_down);
    (settings.cool_down > SignedDuration::ZERO && now < until).then_some(until)
}
