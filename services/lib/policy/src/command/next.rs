//! The decision itself.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Member, Replacement, Step, Timing, View, Waiting, Why};
use crate::drain::time::plus;
use crate::method::Class;

/// The next step of a command. Steps that write name only what is left to write.
pub fn next_step(view: &View, timing: &Timing, now: Timestamp) -> Step {
    if let Some(why) = &view.memory.giving_up {
        return roll_back(view, why.clone());
    }
    if !view.members.iter().any(Member::has_traces) {
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
    if view.looked.is_none_or(|looked| looked < settled) {
        return Step::Look;
    }
    if let Some(step) = replacements(view, timing, now) {
        return step;
    }
    let ready = view.replacements.iter().filter_map(|r| r.initialized).max().unwrap_or(settled);
    let stale = |looked: Timestamp| looked < ready.max(settled) || plus(looked, timing.fresh) < now;
    if view.looked.is_none_or(stale) {
        return Step::Look;
    }
    Step::Delete(names(view.alive()))
}

impl View {
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
        let complete = view.alive().all(|member| member.noted && member.tainted);
        if !complete || view.members.len() < view.removes || view.replacements.len() < view.needs {
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

/// Whatever holds a member, as of the last look.
fn held(view: &View, member: &Member) -> Option<Why> {
    let node = || Arc::clone(&member.node);
    if let Some(by) = &member.obstacle {
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
    Some(Step::Undo { claims: names(back.into_iter()), why })
}

fn replacements(view: &View, timing: &Timing, now: Timestamp) -> Option<Step> {
    if view.ready() {
        return None;
    }
    if plus(view.proposed, timing.timeout) < now {
        return Some(roll_back(view, Why::TimedOut { minutes: timing.timeout.as_mins() }));
    }
    if view.replacements.len() < view.needs {
        return Some(Step::Replace);
    }
    let until = Some(plus(view.proposed, timing.timeout));
    Some(Step::Wait { until, what: Waiting::Replacements })
}

/// Unused replacements first: see the module's words on notes. Those of a node that leaves all the same are needed.
fn roll_back(view: &View, why: Why) -> Step {
    let needed = view.members.iter().any(|member| member.leaving);
    let unused = |r: &&Replacement| !r.leaving && !r.used && !needed;
    let drop: Vec<Arc<str>> = view.replacements.iter().filter(unused).map(|r| Arc::clone(&r.claim)).collect();
    if !drop.is_empty() {
        return Step::Drop(drop);
    }
    let claims = names(view.alive().filter(|member| member.has_traces()));
    if claims.is_empty() { Step::RolledBack(why) } else { Step::Undo { claims, why } }
}

/// Members whose taint or mark belongs to no command: somebody rolled back and was interrupted. Their traces are to be taken
/// off. A node that is leaving keeps its taint.
pub fn strays<'a>(members: impl IntoIterator<Item = &'a Member>) -> Vec<Arc<str>> {
    let stray = |member: &&Member| !member.leaving && !member.noted && (member.tainted || member.marked);
    names(members.into_iter().filter(stray))
}
