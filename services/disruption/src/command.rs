//! One decision on its way: who goes, what comes instead, and what only this process knows of it. The rest is in the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::churn::Realised;
pub(crate) use policy::command::Stage;
use policy::command::{Memory, Words};
use policy::{Method, Reason};
use proto::types::v1 as types;
use tracing::Span;

use crate::actor::plus;
use crate::command_annotation::CommandAnnotation;
use crate::writes::{Error, is_refusal};

/// Nodes named in events and logs.
const NAMED: usize = 10;
/// Refusals of the API server in a row, about one member, after which it is given up: 7 seconds with the pauses between them.
const MOST_REFUSALS: u32 = 4;
/// Failures of any kind in a row: minutes, in which a leader that reaches no API server has lost its lease.
const MOST_FAILURES: u32 = 8;
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(2);
/// How long a command may keep its pools from being looked at.
const LONGEST_UNSETTLED: SignedDuration = SignedDuration::from_secs(20);

/// Before something that failed this many times in a row is tried again: a second, doubled each time.
pub(crate) fn pause(failures: u32) -> SignedDuration {
    SignedDuration::from_secs(1 << failures.saturating_sub(1).min(7)).min(LONGEST_PAUSE)
}

/// Whether a command wants a write for what it is about to do, or to take back what it did: failures of the one say nothing about the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    Forward,
    Back,
}

/// What a write of a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Note, taint or reason.
    Trace,
    /// The deletion of a member.
    Removal,
    /// Everything off a member.
    Undo,
    /// Everything off a member without which the command goes on.
    Release,
    /// The deletion of a replacement.
    Drop,
}

impl Purpose {
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Self::Trace | Self::Removal => Direction::Forward,
            Self::Undo | Self::Release | Self::Drop => Direction::Back,
        }
    }
}

/// Failures in a row about one claim or its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    all: u32,
    refusals: u32,
    last: String,
}

/// A node that goes.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) node: Arc<str>,
    pub(crate) node_uid: Arc<str>,
    pub(crate) claim: Arc<str>,
    pub(crate) claim_uid: Arc<str>,
    pub(crate) pool: Arc<str>,
    pub(crate) capacity_type: Arc<str>,
    /// Pods that the decision knew and that must move. `None`: decided by another process, which did not write them down.
    pub(crate) pods: Option<BTreeSet<Arc<str>>>,
}

/// A decision that is not yet carried out.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) method: Method,
    pub(crate) members: Vec<Member>,
    pub(crate) planned: Vec<types::PlannedNode>,
    /// Per hour.
    pub(crate) saving: MicroDollars,
    pub(crate) pods_moved: u32,
    /// How long the saving takes to make up for the time in which old and new nodes are both paid.
    pub(crate) payback: SignedDuration,
}

/// What the last reading of a member's pods found.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    /// When the reading began.
    pub(crate) at: Timestamp,
    pub(crate) obstacle: Option<Blocked>,
    pub(crate) newcomers: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) id: Arc<str>,
    pub(crate) proposal: Proposal,
    /// How many members it was made for.
    pub(crate) removes: usize,
    /// How many replacements there must be.
    pub(crate) needs: usize,
    pub(crate) proposed: Timestamp,
    pub(crate) memory: Memory,
    /// NodeClaims that were ordered: name to uid.
    pub(crate) ordered: BTreeMap<Arc<str>, Arc<str>>,
    /// NodeClaims made for it that the watch has shown: one that is missing then is gone, and one that comes after the end comes late.
    pub(crate) shown: BTreeSet<Arc<str>>,
    /// What reading the pods found, by claim.
    pub(crate) found: BTreeMap<Arc<str>, Looked>,
    /// Writes and reads that failed, by claim.
    pub(crate) failures: BTreeMap<(Direction, Arc<str>), Failures>,
    /// Orders of replacements in a row that were not answered.
    pub(crate) refused_orders: u32,
    /// Second looks in a row that were not answered.
    pub(crate) unanswered: u32,
    /// Claims that were deleted, whether the watch has shown it or not.
    pub(crate) deleted: BTreeSet<Arc<str>>,

    /// Something was written for it, by this process or the one before.
    pub(crate) begun: bool,
    /// It was said that it is taken back, and why.
    pub(crate) told_back: bool,
    /// What others are shown: of its last step.
    pub(crate) stage: Stage,
    pub(crate) changed: Timestamp,
    /// Why it was taken back, or what it waits for.
    pub(crate) detail: String,
    /// Child tasks of the present step that are still under way.
    pub(crate) open: usize,
    /// The provisioner is being asked whether the proposal still holds.
    pub(crate) validating: bool,
    /// When time alone may change what is next.
    pub(crate) wake: Option<Timestamp>,
    /// Nothing is next before its second look, whatever happens to the objects.
    pub(crate) second_look: Option<Timestamp>,
    /// Something failed: not to be tried again before.
    pub(crate) hold: Option<Timestamp>,
    /// What came of it after its pods ran again.
    pub(crate) realised: Option<Realised>,
    pub(crate) span: Span,
}

impl Command {
    pub(crate) fn method(&self) -> Method {
        self.proposal.method
    }

    pub(crate) fn reason(&self) -> Reason {
        self.proposal.method.reason()
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.proposal.members
    }

    pub(crate) fn member(&self, claim: &str) -> Option<&Member> {
        self.members().iter().find(|member| *member.claim == *claim)
    }

    pub(crate) fn decision(&self) -> &'static str {
        if self.needs == 0 { "delete" } else { "replace" }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::RolledBack)
    }

    /// A simulation would not yet see what this command does to the cluster. What takes longer than it should does not hold up
    /// other decisions.
    pub(crate) fn is_unsettled(&self, now: Timestamp) -> bool {
        let in_between = match self.stage {
            Stage::Taking | Stage::Ordering | Stage::RollingBack => true,
            Stage::Settling => self.needs > 0,
            _ => false,
        };
        in_between && now < plus(self.changed, LONGEST_UNSETTLED)
    }

    /// Counts a failed write or read; says how long to wait before the next.
    pub(crate) fn failed(&mut self, to: Direction, claim: &Arc<str>, error: &Error) -> SignedDuration {
        let failures = self.failures.entry((to, Arc::clone(claim))).or_default();
        failures.all += 1;
        failures.refusals += u32::from(is_refusal(error));
        failures.last = error.to_string();
        pause(failures.all)
    }

    pub(crate) fn succeeded(&mut self, to: Direction, claim: &Arc<str>) {
        self.failures.remove(&(to, Arc::clone(claim)));
    }

    pub(crate) fn has_failed(&self, to: Direction, claim: &Arc<str>) -> bool {
        self.failures.contains_key(&(to, Arc::clone(claim)))
    }

    /// The last error about a claim that was tried as often as makes sense.
    pub(crate) fn refusal(&self, to: Direction, claim: &Arc<str>) -> Option<&str> {
        let failures = self.failures.get(&(to, Arc::clone(claim)))?;
        let over = failures.refusals >= MOST_REFUSALS || failures.all >= MOST_FAILURES;
        over.then_some(failures.last.as_str())
    }

    /// Counts a second look that was not answered; `None` when that was the last.
    pub(crate) fn not_answered(&mut self) -> Option<SignedDuration> {
        self.unanswered += 1;
        (self.unanswered < MOST_FAILURES).then(|| pause(self.unanswered))
    }

    /// The command goes on without it.
    pub(crate) fn release(&mut self, claim: &str) {
        self.proposal.members.retain(|member| *member.claim != *claim);
    }

    /// Says whether others see a difference.
    pub(crate) fn show(&mut self, stage: Stage, detail: String, now: Timestamp) -> bool {
        let differs = (self.stage, &self.detail) != (stage, &detail);
        if self.stage != stage {
            self.changed = now;
        }
        (self.stage, self.detail) = (stage, detail);
        differs
    }

    /// As the reference writes it in events and logs.
    pub(crate) fn text(&self) -> String {
        let mut nodes: Vec<&str> = self.members().iter().map(|member| &*member.node).take(NAMED).collect();
        if self.members().len() > NAMED {
            nodes.push("…");
        }
        let pools: BTreeSet<&str> = self.members().iter().map(|member| &*member.pool).collect();
        let pools: Vec<&str> = pools.into_iter().collect();
        policy::command::text(&Words {
            reason: self.reason(),
            id: &self.id,
            pools: &pools,
            nodes: &nodes,
            replacements: self.needs,
            saving: self.proposal.saving,
        })
    }

    pub(crate) fn note(&self) -> CommandAnnotation {
        CommandAnnotation {
            id: self.id.to_string(),
            method: self.method().as_str().to_owned(),
            removes: u32::try_from(self.removes).unwrap_or(u32::MAX),
            needs: u32::try_from(self.needs).unwrap_or(u32::MAX),
            proposed: crate::writes::rfc3339(self.proposed),
            saves: self.proposal.saving.get(),
            pods: self.proposal.pods_moved,
            payback: self.proposal.payback.as_secs(),
        }
    }
}
