//! One removal, step by step, so that nothing irreversible happens unseen and any process can take over at any instant.
//!
//! ```text
//! proposed ─ wait ─ validate ─ take (note, taint) ─ settle ─ look ─ replace ─ mark ─ wait Initialized ─ look ─ delete ─ done
//!     └────────────┴────────────────┴──────────────────┴───────┴───────┴────────┴─────────┴─────────────┘
//!                    roll back: drop unused replacements, then unmark, untaint, unnote
//! ```
//! Without replacements the first look is left out:
//! ```text
//! … take ─ settle ─ mark ─ look ─ delete ─ done
//! ```
//! [`next_step`] is a function of what the objects say ([`View`]) and of the little that only the deciding process knows
//! ([`Memory`]); a process that finds a command of another starts with an empty memory. Every step may be carried out twice,
//! or in part.
//!
//! How the objects carry the state:
//! - a *note* (annotation `karpenter.sh/disruption-command` with id, method, numbers and time) on every claim that goes,
//!   written first and taken away last, so that what it says about the taint can be relied on;
//! - the taint `karpenter.sh/disrupted:NoSchedule` on its node, and condition DisruptionReason on the claim;
//! - the bare id under the same annotation on every replacement. Replacements are dropped before the first note is taken away:
//!   a replacement without noted members is therefore one that is needed.
//!
//! Rules: a new process goes on only where everything was taken and everything ordered; else it rolls back, since nobody has
//! the plan any more. Pods are read live after the taint has had time to reach the scheduler, and again right before claims are
//! deleted. A node that somebody else removes ends a plan that relied on it. Running out of time matters only while something is
//! still missing.
//!
//! What was bought is used: once a command has begun, only a do-not-disrupt annotation, a pod that can never be evicted, a pod that
//! landed, a lost node or replacement, and a write that the API server refuses for good take it back. A PodDisruptionBudget that
//! allows nothing at the moment is waited for, or, for drift, left to the drain, which honours it.
//!
//! Nothing waits for ever: every [`Step::Wait`] has a time or ends with [`Timing::timeout`], writes are tried a bounded number
//! of times ([`Member::refused`] on the way forward, [`Member::stuck`] and [`Replacement::stuck`] on the way back), and so are reads
//! and questions. All times are of the clock of the deciding process.
//!
//! What a person sees of a command follows from its next step ([`Step::stage`]); nothing is decided by it.

mod next;
mod stage;
mod text;
mod validate;
mod why;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::candidate::Blocked;
use crate::method::Method;

pub use next::{next_step, orphans, strays};
pub use stage::Stage;
pub use text::{Words, member_text, text};
pub use validate::{Invalid, same_shape};
pub use why::Why;

/// A command as the objects show it.
#[derive(Clone, Debug)]
pub struct View {
    pub method: Method,
    /// How many members it was made for.
    pub removes: usize,
    /// How many replacements must be initialised first.
    pub needs: usize,
    pub proposed: Timestamp,
    /// Members whose claim still exists and, once the command was begun, has its note; before, those of the proposal.
    pub members: Vec<Member>,
    /// Claims with its id.
    pub replacements: Vec<Replacement>,
    pub memory: Memory,
}

/// A node that goes.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: Arc<str>,
    pub claim: Arc<str>,
    /// Claim or Node has a deletion timestamp, whoever set it.
    pub leaving: bool,
    pub noted: bool,
    pub tainted: bool,
    /// DisruptionReason is True.
    pub marked: bool,
    /// Its Node is gone, or another has its name, while the claim stays.
    pub lost: bool,
    /// A write to it was tried as often as makes sense: the last error.
    pub refused: Option<String>,
    /// Taking its traces off was tried as often as makes sense.
    pub stuck: bool,
    /// When its pods were last read from the API (not from a watch), by the clock of the process that read them, at the start:
    /// `obstacle` and `newcomers` are as of then.
    pub looked: Option<Timestamp>,
    /// What holds it, from [`crate::candidate::still_free`].
    pub obstacle: Option<Blocked>,
    /// Pods that must move and that the decision did not know, as `namespace/name`. Empty where it is not known what the
    /// decision knew.
    pub newcomers: Vec<String>,
}

impl Member {
    fn is_taken(&self) -> bool {
        self.noted && self.tainted
    }

    fn waits_for_pdb(&self) -> bool {
        self.obstacle.as_ref().is_some_and(Blocked::is_spent_pdb)
    }

    fn has_traces(&self) -> bool {
        self.noted || self.tainted || self.marked
    }
}

/// A claim made for the command.
#[derive(Clone, Debug)]
pub struct Replacement {
    pub claim: Arc<str>,
    /// Has a deletion timestamp: it failed, or somebody removed it.
    pub leaving: bool,
    /// Since when it is initialised. Later doubts about its readiness do not count.
    pub initialized: Option<Timestamp>,
    /// Pods that need a place run there or were promised to it.
    pub used: bool,
    /// Deleting it was tried as often as makes sense.
    pub stuck: bool,
}

/// What only the process that decided knows.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The nodes to order; a process without them cannot order any.
    pub plan: bool,
    /// The second look found everything as planned.
    pub validated: bool,
    /// Since when this process has seen all members tainted.
    pub tainted: Option<Timestamp>,
    /// Since when this process has seen all members marked and all replacements initialised.
    pub ready: Option<Timestamp>,
    /// Reads of the members' pods in a row that took longer than [`Timing::fresh`].
    pub stale_reads: u32,
    /// It was decided to take everything back.
    pub giving_up: Option<Why>,
}

/// The spans of time between steps.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the proposal to its second look, for methods that have one.
    pub validation: SignedDuration,
    /// From the taint to the look at the pods: as long as a scheduler may still act on the node as it was.
    pub settle: SignedDuration,
    /// How old a look at a member may be when its claim is deleted.
    pub fresh: SignedDuration,
    /// From the proposal to giving up, see [`timeout`].
    pub timeout: SignedDuration,
}

impl Timing {
    /// The reference's, with so many nodes in all commands under way.
    pub fn standard(queued: usize) -> Self {
        Self {
            validation: SignedDuration::from_secs(15),
            settle: SignedDuration::from_secs(1),
            fresh: SignedDuration::from_secs(5),
            timeout: timeout(queued),
        }
    }
}

/// 80 ms for every node in all commands under way, at least ten minutes and at most an hour.
pub fn timeout(queued: usize) -> SignedDuration {
    let millis = i64::try_from(queued).unwrap_or(i64::MAX).saturating_mul(80);
    SignedDuration::from_millis(millis).clamp(SignedDuration::from_mins(10), SignedDuration::from_hours(1))
}

/// What to do next. Afterwards, or when anything changes, ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before then; `None`: until an object changes.
    Wait { until: Option<Timestamp>, what: Waiting },
    /// Ask candidates, budgets and the simulation again; then set [`Memory::validated`] or [`Memory::giving_up`].
    Validate,
    /// Write what is missing on each member, in this order: note, taint.
    Take(Vec<Arc<str>>),
    /// Read the pods of these members from the API, in a state that has what was written on them.
    Look(Vec<Arc<str>>),
    /// Order the replacements; the same id never orders twice.
    Replace,
    /// Write the reason on these claims. With it the provisioner counts the node as one that will be gone, so it comes only once
    /// there are replacements; it also has a version later than whatever the scheduler did before it saw the taint.
    Mark(Vec<Arc<str>>),
    /// Delete these claims, each with uid and resourceVersion as preconditions: a process that lost the lead may have sent this
    /// and be heard only after another has taken everything back. Taking back changes the claim (the mark) before the node
    /// (the taint), so a late deletion is then refused. On a conflict, ask again.
    Delete(Vec<Arc<str>>),
    /// Take the mark off all members that stay, then delete these replacements, which nobody uses. The mark first: with it goes
    /// the version of the claims that a late [`Step::Delete`] of another process names.
    Drop { claims: Vec<Arc<str>>, why: Why },
    /// Take the traces off these members, in this order: mark, taint, note.
    Undo { claims: Vec<Arc<str>>, why: Why },
    /// The same for members that stay while the command goes on without them.
    Release { claims: Vec<Arc<str>>, why: Why },
    /// All members are gone or going.
    Done,
    /// No trace is left but on members that cannot be written.
    RolledBack(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    SecondLook,
    Scheduler,
    Replacements,
    DisruptionBudget,
}

impl Waiting {
    pub const fn words(self) -> &'static str {
        match self {
            Self::SecondLook => "waiting to be looked at again",
            Self::Scheduler => "waiting until the scheduler has seen the taint",
            Self::Replacements => "waiting for replacements to be initialized",
            Self::DisruptionBudget => "waiting for a PodDisruptionBudget to allow a disruption",
        }
    }
}
