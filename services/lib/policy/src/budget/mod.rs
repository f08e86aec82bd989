//! Disruption budgets: how many nodes of a pool may be away at the same time, by reason and by the hour.
//!
//! ```text
//! NodePool.spec.disruption.budgets ── Budgets::read ──> Budgets ── allowed(reason, total, now) ──> Allowed
//! nodes of the pool ───────────────── Counts::of ─────> total, away                                 └── minus away: State
//! ```
//! All active budgets of a reason hold, so the smallest counts. A budget that cannot be read makes the whole pool allow
//! nothing for every reason, and [`Problem`] says which and why: what was meant as a limit must not turn into none. The
//! API's schema lets some such texts through (cron, above all).
//!
//! Only voluntary disruption asks; expiry, repair, interruption and deletion by people do not, but the nodes they take count
//! as away.

mod counts;
mod read;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::duration::GoDuration;

use crate::consolidation;
use crate::cron::{self, Schedule};
use crate::method::Reason;

pub use counts::{CountedNode, Counts};

/// What a pool without an applicable budget allows: the reference's largest integer.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// A budget as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// A number, or a percentage.
    pub nodes: String,
    /// `None` is every reason; an empty list is none.
    pub reasons: Option<Vec<Reason>>,
    pub schedule: Option<String>,
    pub duration: Option<GoDuration>,
}

/// The budgets of one pool, read once per generation of the NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    limits: Vec<Limit>,
    problem: Option<Problem>,
}

/// Why a pool allows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Position in the list, from 0.
    pub index: usize,
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "spec.disruption.budgets[{}] cannot be read, so nothing is disrupted: {}",
            self.index, self.detail
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    /// Position in the list, from 0.
    index: usize,
    nodes: Nodes,
    reasons: Option<Vec<Reason>>,
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    Count(u32),
    /// Of all nodes, rounded up.
    Percent(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    text: String,
    schedule: Schedule,
    seconds: i64,
}

/// How many nodes may be away, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub nodes: u32,
    /// The budget that is smallest; `None` when none applies.
    pub by: Option<Binding>,
}

/// The budget that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Position in the list, from 0.
    pub index: usize,
    /// As written: `10%`, `0`.
    pub nodes: String,
    /// Its schedule, as written.
    pub schedule: Option<String>,
    /// When its window shuts, where it has one that does.
    pub until: Option<Timestamp>,
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.disruption.budgets[{}] (nodes: {:?}", self.index, self.nodes)?;
        if let Some(schedule) = &self.schedule {
            write!(f, ", schedule: {schedule:?}")?;
        }
        if let Some(until) = self.until {
            write!(f, ", until {until}")?;
        }
        f.write_str(")")
    }
}

impl Budgets {
    /// Never fails: what cannot be read is remembered as [`Budgets::problem`].
    pub fn read(specs: &[Spec]) -> Self {
        let mut budgets = Self::default();
        for (index, spec) in specs.iter().enumerate() {
            match read::limit(index, spec) {
                Ok(limit) => budgets.limits.push(limit),
                Err(detail) if budgets.problem.is_none() => {
                    budgets.problem = Some(Problem { index, detail });
                }
                Err(_) => {}
            }
        }
        budgets
    }

    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Of a pool with `total` nodes that count.
    pub fn allowed(&self, reason: Reason, total: u32, now: Timestamp) -> Allowed {
        if let Some(problem) = &self.problem {
            let by = Binding { index: problem.index, nodes: "0".to_owned(), schedule: None, until: None };
            return Allowed { nodes: 0, by: Some(by) };
        }
        let now = now.as_second();
        let least = self
            .limits
            .iter()
            .filter(|limit| limit.applies_to(reason) && limit.is_active(now))
            .map(|limit| (limit.nodes.of(total), limit.index, limit))
            .min_by_key(|(nodes, index, _)| (*nodes, *index));
        match least {
            None => Allowed { nodes: UNLIMITED, by: None },
            Some((nodes, _, limit)) => Allowed { nodes, by: Some(limit.binding(now)) },
        }
    }

    /// What is left for a reason, given who is away already.
    pub fn state(&self, reason: Reason, counts: Counts, now: Timestamp) -> State {
        let Allowed { nodes: allowed, by } = self.allowed(reason, counts.total, now);
        let problem = self.problem.clone().map(Box::new);
        State { reason, allowed, away: counts.away, total: counts.total, by: by.map(Box::new), problem }
    }
}

/// One pool and reason, at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub reason: Reason,
    /// How many may be away together.
    pub allowed: u32,
    /// How many are.
    pub away: u32,
    /// Nodes that count.
    pub total: u32,
    pub by: Option<Box<Binding>>,
    pub problem: Option<Box<Problem>>,
}

impl State {
    /// How many more may go. Never negative, whatever happened outside.
    pub fn available(&self) -> u32 {
        self.allowed.saturating_sub(self.away)
    }

    /// The pool should be told that its budget forbids disruption.
    pub fn forbids(&self) -> bool {
        self.allowed == 0 && self.total > 0
    }
}

/// Why nothing may go; for people. Meaningful when [`State::available`] is 0.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(problem) = &self.problem {
            return problem.fmt(f);
        }
        let Self { allowed, away, total, reason, .. } = self;
        match &self.by {
            Some(by) => write!(
                f,
                "{by} allows {allowed} of {total} nodes to be away for {reason}, and {away} are away or not ready"
            ),
            None => write!(f, "no budget limits {reason}"),
        }
    }
}

/// The states of many pools for one reason, as the searches of [`consolidation`] take them.
pub fn allowance<'a>(
    states: impl IntoIterator<Item = (&'a Arc<str>, &'a State)>,
) -> consolidation::Allowance {
    states.into_iter().map(|(pool, state)| (Arc::clone(pool), state.available())).collect::<BTreeMap<_, _>>()
}

impl Limit {
    fn applies_to(&self, reason: Reason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
    }

    fn is_active(&self, now: i64) -> bool {
        self.window.as_ref().is_none_or(|window| cron::active(&window.schedule, window.seconds, now))
    }

    fn binding(&self, now: i64) -> Binding {
        let until = |window: &Window| cron::ends(&window.schedule, window.seconds, now);
        Binding {
            index: self.index,
            nodes: self.nodes.to_string(),
            schedule: self.window.as_ref().map(|window| window.text.clone()),
            until: self.window.as_ref().and_then(until).and_then(|s| Timestamp::from_second(s).ok()),
        }
    }
}

impl Nodes {
    fn of(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let nodes = (u64::from(percent) * u64::from(total)).div_ceil(100);
                u32::try_from(nodes).unwrap_or(UNLIMITED)
            }
        }
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}
