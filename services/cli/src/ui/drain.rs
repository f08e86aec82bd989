//! A removal as a decision on the page, and what it waits for. Pure.

use proto::termination::v1 as pb;

use super::convert::seconds;
use super::shown::{Decision, Drain};

pub(super) fn key(reply: &pb::Drain) -> String {
    match &reply.node_claim {
        Some(claim) if !claim.name.is_empty() => claim.name.clone(),
        _ => reply.node.clone(),
    }
}

fn phase(reply: &pb::Drain) -> &'static str {
    match reply.phase() {
        pb::DrainPhase::Unspecified => "unknown",
        pb::DrainPhase::Draining => "draining",
        pb::DrainPhase::Detaching => "detaching volumes",
        pb::DrainPhase::Terminating => "terminating",
        pb::DrainPhase::Gone => "gone",
    }
}

pub(super) fn decision(reply: &pb::Drain, known: Option<&Decision>, now: i64) -> Decision {
    let phase = phase(reply);
    let name = if reply.node.is_empty() { key(reply) } else { reply.node.clone() };
    let mut own = Decision {
        kind: "removal",
        at: seconds(reply.since.as_ref()).or_else(|| known.map(|known| known.at)).unwrap_or(now),
        reason: reply.reason.clone(),
        phase: phase.to_owned(),
        ended: reply.phase() == pb::DrainPhase::Gone,
        remove: vec![name],
        moved: Some(reply.pods_total),
        trace: Some(match reply.node.as_str() {
            "" => ("termination", "nodeclaim", key(reply)),
            node => ("termination", "node", node.to_owned()),
        }),
        detail: reply.waiting.first().map(|waiting| waiting.detail.clone()).unwrap_or_default(),
        steps: known.map(|known| known.steps.clone()).unwrap_or_default(),
        ..Decision::default()
    };
    own.step(now, phase.to_owned());
    own
}

pub(super) fn shown(reply: pb::Drain) -> Drain {
    let waiting = reply.waiting.iter().map(|each| {
        let pod = each.pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default();
        (each.kind.clone(), pod, each.detail.clone())
    });
    Drain {
        phase: phase(&reply),
        since: seconds(reply.since.as_ref()),
        deadline: seconds(reply.deadline.as_ref()),
        total: reply.pods_total,
        gone: reply.pods_gone,
        waiting: waiting.collect(),
        node: reply.node,
        reason: reply.reason,
    }
}
