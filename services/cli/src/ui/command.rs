//! A command of disruption as a decision on the page. Pure.

use proto::disruption::v1 as pb;

use super::convert::seconds;
use super::shown::Decision;

pub(super) fn decision(reply: pb::Command, known: Option<&Decision>, now: i64) -> Decision {
    let (phase, ended) = match reply.phase() {
        pb::CommandPhase::Unspecified => ("unknown", false),
        pb::CommandPhase::Validating => ("validating", false),
        pb::CommandPhase::Replacing => ("replacing", false),
        pb::CommandPhase::Removing => ("removing", false),
        pb::CommandPhase::Done => ("done", true),
        pb::CommandPhase::RolledBack => ("rolled back", true),
    };
    let mut own = Decision {
        kind: "disruption",
        at: seconds(reply.proposed_at.as_ref()).or_else(|| known.map(|known| known.at)).unwrap_or(now),
        phase: phase.to_owned(),
        ended,
        remove: reply.remove_nodes,
        add: reply.replacements.into_iter().map(|claim| claim.name).collect(),
        saving: Some(reply.saving_micro_usd_per_hour),
        realised: reply.realised_micro_usd_per_hour,
        moved: Some(reply.pods_moved),
        detail: reply.detail,
        reason: reply.reason,
        method: reply.method,
        trace: Some(("disruption", "command", reply.id)),
        steps: known.map(|known| known.steps.clone()).unwrap_or_default(),
    };
    let what =
        if own.detail.is_empty() { own.phase.clone() } else { format!("{}: {}", own.phase, own.detail) };
    own.step(seconds(reply.changed_at.as_ref()).unwrap_or(now), what);
    own
}
