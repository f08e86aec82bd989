//! What a command writes on a node and its claim, and taking it off again: note, taint, reason, and back in the opposite
//! order, so that the note can be relied on. Safe to repeat.

use api::conditions::Finding;
use jiff::Timestamp;
use model::labels;
use policy::Reason;

use crate::cluster::{DISRUPTION_REASON, Fact, applied};
use crate::command::Member;
use crate::writes::{Error, Target, Writes};

fn targets(member: &Member) -> (Target<'_>, Target<'_>) {
    let claim = Target { name: &member.claim, uid: &member.claim_uid };
    (claim, Target { name: &member.node, uid: &member.node_uid })
}

pub(crate) async fn on(writes: &Writes, member: &Member, note: &str) -> Result<Vec<Fact>, Error> {
    let (claim, node) = targets(member);
    let noted = applied(writes.annotate(claim, &[(labels::COMMAND, Some(note))]).await?);
    Ok(vec![noted, applied(writes.taint(node, true).await?)])
}

/// Why it goes, once that may be known.
pub(crate) async fn mark(
    writes: &Writes,
    member: &Member,
    reason: Reason,
    now: Timestamp,
) -> Result<Fact, Error> {
    let mark = (DISRUPTION_REASON, Some(Finding::holds_because(reason.as_str(), reason.as_str())));
    Ok(applied(writes.mark(targets(member).0, &[mark], None, now).await?))
}

/// Takes only the reason off the claim: its version changes, so that a deletion that a former leader sent is refused.
pub(crate) async fn unmark(writes: &Writes, member: &Member, now: Timestamp) -> Result<Fact, Error> {
    Ok(applied(writes.mark(targets(member).0, &[(DISRUPTION_REASON, None)], None, now).await?))
}

/// Leaves a claim alone that is being deleted: whoever deleted it decides then.
pub(crate) async fn off(writes: &Writes, member: &Member, now: Timestamp) -> Result<Vec<Fact>, Error> {
    let (claim, node) = targets(member);
    let object = writes.mark(claim, &[(DISRUPTION_REASON, None)], None, now).await?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(vec![applied(object)]);
    }
    let mut facts: Vec<Fact> = Vec::new();
    // A process that found its note after the Node had gone knows no name of it.
    if !member.node.is_empty() {
        match writes.taint(node, false).await {
            Ok(node) => facts.push(applied(node)),
            Err(Error::Gone) => {}
            Err(error) => return Err(error),
        }
    }
    facts.push(applied(writes.annotate(claim, &[(labels::COMMAND, None)]).await?));
    Ok(facts)
}
