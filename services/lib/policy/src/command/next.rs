//! The decision itself.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Member, Step, Timing, View, Waiting, Why};
use crate::drain::time::plus;
use crate::method::Class;

/// Reads of all pods of a command in a row that took too long to act on.
const MOST_STALE_READS: u32 = 5;

/// The next step of a command. Steps that write name only what is left to write.
pub fn next_step(view: &View, timing: &Timing, now: Timestamp) -> Step {
    if let Some(why) = &view.memory.giving_up {
        return roll_back(view, why.clone());
    }
    if !view.is_begun() {
        return proposal(view, timing, now);
    }
    if view.alive().next().is_none() {
        return Step::Done;
    }
    if let Some(why) = broken(view) {
        return roll_back(view, why);
    }
    if let Some(step) = released(view) {
        return step;
    }
    if view.must_be_asked_again() {
        return Step::Validate;
    }
    let untaken = names(view.alive().filter(|member| !member.is_taken()));
    if !untaken.is_empty() {
        return Step::Take(untaken);
    }
    let Some(tainted) = view.memory.tainted else {
        let until = Some(plus(now, timing.settle));
        return Step::Wait { until, what: Waiting::Scheduler };
    };
    let settled = plus(tainted, timing.settle);
    if now < settled {
        return Step::Wait { until: Some(settled), what: Waiting::Scheduler };
    }
    let late = plus(view.proposed, timing.timeout) < now;
    let timed_out = || roll_back(view, Why::TimedOut { minutes: timing.timeout.as_mins() });
    if view.replacements.len() < view.needs {
        let unread = names(view.alive().filter(|member| member.looked.is_none_or(|looked| looked < settled)));
        return match () {
            () if late => timed_out(),
            () if !unread.is_empty() => Step::Look(unread),
            () => spent_pdb(view, timing, now).unwrap_or(Step::Replace),
        };
    }
    let unmarked = names(view.alive().filter(|member| !member.marked));
    if !unmarked.is_empty() {
        return Step::Mark(unmarked);
    }
    if !view.ready() {
        let until = Some(plus(view.proposed, timing.timeout));
        return if late { timed_out() } else { Step::Wait { until, what: Waiting::Replacements } };
    }
    last_look(view, timing, now)
}

/// Pods are read once more, right before the step that cannot be taken back.
fn last_look(view: &View, timing: &Timing, now: Timestamp) -> Step {
    let since = view.memory.ready.unwrap_or(now);
    let is_fresh = |member: &&Member| {
        member.looked.is_some_and(|looked| looked >= since && now <= plus(looked, timing.fresh))
    };
    let fresh = names(view.alive().filter(is_fresh));
    // Members that nothing was planned with together do not wait for each other.
    if view.method.may_shrink() && !fresh.is_empty() {
        return Step::Delete(fresh);
    }
    if fresh.len() == view.alive().count() {
        return spent_pdb(view, timing, now).unwrap_or(Step::Delete(fresh));
    }
    if view.memory.stale_reads >= MOST_STALE_READS {
        return roll_back(view, Why::ReadTooSlowly { seconds: timing.fresh.as_secs() });
    }
    Step::Look(names(view.alive()))
}

/// A spent PodDisruptionBudget is waited for until time runs out; drift does not wait, since the drain honours it anyway.
fn spent_pdb(view: &View, timing: &Timing, now: Timestamp) -> Option<Step> {
    let waits = view.method.class() == Class::Graceful;
    let member = view.alive().filter(|_| waits).find(|member| member.waits_for_pdb())?;
    if plus(view.proposed, timing.timeout) < now {
        let by = member.obstacle.clone()?;
        return Some(roll_back(view, Why::Blocked { node: Arc::clone(&member.node), by }));
    }
    let again = plus(member.looked.unwrap_or(now), timing.fresh);
    if again <= now {
        return Some(Step::Look(names(view.alive())));
    }
    Some(Step::Wait { until: Some(again), what: Waiting::DisruptionBudget })
}

impl View {
    /// Something was written on a member.
    pub fn is_begun(&self) -> bool {
        self.members.iter().any(Member::has_traces)
    }

    fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.leaving)
    }

    fn ready(&self) -> bool {
        self.replacements.iter().filter(|r| r.initialized.is_some()).count() >= self.needs
    }

    /// Another process decided it.
    fn is_inherited(&self) -> bool {
        !self.memory.plan
    }

    /// A removal without replacements that another process decided: whether the pods still fit elsewhere must be asked anew.
    /// What is empty shows by its pods alone.
    fn must_be_asked_again(&self) -> bool {
        self.is_inherited()
            && self.needs == 0
            && self.method.class() == Class::Graceful
            && !self.method.may_shrink()
            && !self.memory.validated
    }
}

fn names<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<Arc<str>> {
    members.map(|member| Arc::clone(&member.claim)).collect()
}

/// Nothing was written yet.
fn proposal(view: &View, timing: &Timing, now: Timestamp) -> Step {
    let lost = view.alive().count() < view.removes;
    if view.alive().next().is_none() || (lost && !view.method.may_shrink()) || view.is_inherited() {
        return Step::RolledBack(Why::MemberLost);
    }
    let wait = if view.method.validation_seconds() > 0 { timing.validation } else { SignedDuration::ZERO };
    let due = plus(view.proposed, wait);
    if now < due {
        return Step::Wait { until: Some(due), what: Waiting::SecondLook };
    }
    if !view.memory.validated && view.method.validation_seconds() > 0 {
        return Step::Validate;
    }
    Step::Take(names(view.alive()))
}

/// Why a command that was begun cannot go on.
fn broken(view: &View) -> Option<Why> {
    if view.is_inherited() && !view.method.may_shrink() {
        let complete = view.alive().all(Member::is_taken);
        // An unused replacement is dropped first where a command is taken back: with one that is ready and everything marked, the
        // process before was deleting, and what is left of its members goes, too.
        let unused = view.replacements.iter().any(|replacement| !replacement.used);
        let deleting = view.needs > 0 && view.ready() && unused && view.alive().all(|member| member.marked);
        let whole = view.members.len() >= view.removes || deleting;
        if !complete || !whole || view.replacements.len() < view.needs {
            return Some(Why::Abandoned);
        }
    }
    if let Some(lost) = view.replacements.iter().find(|replacement| replacement.leaving) {
        return Some(Why::ReplacementLost { claim: Some(Arc::clone(&lost.claim)) });
    }
    // Removals of ours come after the replacements; a member that leaves before was taken by somebody else.
    let lost = view.members.iter().any(|member| member.leaving) || view.members.len() < view.removes;
    if view.needs > 0 && lost && !view.ready() {
        return Some(Why::MemberLost);
    }
    if view.method.may_shrink() {
        return None;
    }
    view.alive().find_map(|member| held(view, member))
}

/// Whatever keeps a member from being removed: a write that is refused, its Node that is gone, and what the last look found. A
/// spent PodDisruptionBudget is only waited for, unless nothing is lost by letting the member stay.
fn held(view: &View, member: &Member) -> Option<Why> {
    let node = || Arc::clone(&member.node);
    if let Some(error) = &member.refused {
        return Some(Why::Refused { node: node(), error: error.clone() });
    }
    if member.lost {
        return Some(Why::MemberLost);
    }
    if let Some(by) = &member.obstacle
        && (view.method.may_shrink() || !member.waits_for_pdb())
    {
        return Some(Why::Blocked { node: node(), by: by.clone() });
    }
    let matters = view.method.class() == Class::Graceful;
    let pod = member.newcomers.first().filter(|_| matters)?;
    Some(Why::Landed { node: node(), pod: pod.clone() })
}

/// Members that nothing else was planned with go back alone; the others go on.
fn released(view: &View) -> Option<Step> {
    if !view.method.may_shrink() {
        return None;
    }
    let inherited = |member: &Member| {
        let whole = member.noted && member.tainted;
        (view.is_inherited() && !whole).then_some(Why::Abandoned)
    };
    let reason = |member: &Member| held(view, member).or_else(|| inherited(member));
    let why = view.alive().find_map(reason)?;
    let back: Vec<&Member> = view.alive().filter(|member| reason(member).is_some()).collect();
    if back.len() == view.alive().count() && view.members.len() == back.len() {
        return Some(roll_back(view, why));
    }
    Some(Step::Release { claims: names(back.into_iter()), why })
}

/// Unused replacements first: see the module's words on notes. What cannot be written after all stays as it is.
fn roll_back(view: &View, why: Why) -> Step {
    let drop = unused(view);
    if !drop.is_empty() {
        return Step::Drop { claims: drop, why };
    }
    let claims = names(view.alive().filter(|member| member.has_traces() && !member.stuck));
    if claims.is_empty() { Step::RolledBack(why) } else { Step::Undo { claims, why } }
}

/// Replacements that nobody uses; those of a node that leaves all the same are needed.
fn unused(view: &View) -> Vec<Arc<str>> {
    if view.members.iter().any(|member| member.leaving) {
        return Vec::new();
    }
    let unused = view.replacements.iter().filter(|made| !made.leaving && !made.used && !made.stuck);
    unused.map(|made| Arc::clone(&made.claim)).collect()
}

/// Replacements of a command that was taken back which appeared after its end, because the order was carried out late: they are to be
/// deleted. One that has pods, or stands for a member that went all the same, is needed.
pub fn orphans(view: &View) -> Vec<Arc<str>> {
    if view.members.len() < view.removes { Vec::new() } else { unused(view) }
}

/// Members whose taint or mark belongs to no command: somebody rolled back and was interrupted. Their traces are to be taken
/// off. A node that is leaving keeps its taint.
pub fn strays<'a>(members: impl IntoIterator<Item = &'a Member>) -> Vec<Arc<str>> {
    let stray = |member: &&Member| !member.leaving && !member.noted && (member.tainted || member.marked);
    names(members.into_iter().filter(stray))
}
