//! How fast evictions are asked for: per-pod backoff, and no stampede on a budget that is spent.
//!
//! The reference asks for every pod again and again. A thousand pods behind one budget of one would cost a hundred refused
//! requests a second for nothing; here as many are asked for as the budget allows, and one probe now and then, because
//! what we know of the budget may be old.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::pod::Rank;

pub const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(100);
pub const SLOWEST_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// After the `failures`-th refusal in a row. `jitter`: any number, equally distributed; it takes off up to a quarter.
pub fn backoff(failures: u32, jitter: u32) -> SignedDuration {
    let doubled = 1_i32.checked_shl(failures.saturating_sub(1).min(20)).unwrap_or(i32::MAX);
    let full = FIRST_RETRY.checked_mul(doubled).map_or(SLOWEST_RETRY, |span| span.min(SLOWEST_RETRY));
    let share = i64::from(jitter % 1000);
    full - SignedDuration::from_nanos(i64::try_from(full.as_nanos()).unwrap_or(0) / 4000 * share)
}

/// A pod whose eviction may be asked for.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub not_before: Timestamp,
    pub rank: Rank,
    /// Number of its budget in the list of [`Gate`]s; `None`: no budget covers it, several do, or its budget ignores it.
    pub gate: Option<usize>,
}

/// One budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub allowed: u32,
    /// Evictions asked for and not answered yet.
    pub in_flight: u32,
    /// When a pod may be tried although nothing is allowed.
    pub probe_at: Timestamp,
}

/// Which candidates to ask for now, by their position; longest waiting first, then by rank, at most `slots`.
pub fn admit(candidates: &[Candidate], gates: &[Gate], now: Timestamp, slots: usize) -> Vec<usize> {
    let mut due: Vec<usize> = (0..candidates.len()).filter(|i| candidates[*i].not_before <= now).collect();
    due.sort_by_key(|i| (candidates[*i].not_before, candidates[*i].rank, *i));
    let mut taken: BTreeMap<usize, u32> = BTreeMap::new();
    let mut admitted = Vec::new();
    for index in due {
        if admitted.len() == slots {
            break;
        }
        if let Some(number) = candidates[index].gate
            && let Some(gate) = gates.get(number)
        {
            let busy = gate.in_flight + taken.get(&number).copied().unwrap_or(0);
            let probe = busy == 0 && gate.probe_at <= now;
            if busy >= gate.allowed && !probe {
                continue;
            }
            *taken.entry(number).or_default() += 1;
        }
        admitted.push(index);
    }
    admitted
}

/// The earliest moment at which [`admit`] can answer more although nothing is heard.
pub fn next_turn(candidates: &[Candidate], gates: &[Gate], now: Timestamp) -> Option<Timestamp> {
    let turn = |candidate: &Candidate| match candidate.gate.and_then(|number| gates.get(number)) {
        Some(gate) if gate.in_flight >= gate.allowed => candidate.not_before.max(gate.probe_at),
        _ => candidate.not_before,
    };
    candidates.iter().map(turn).filter(|turn| *turn > now).min()
}
