//! What AWS warned about as decisions on the page: spot interruptions, maintenance, stopped instances. Pure.

use proto::interruptionwatcher::v1 as pb;

use super::convert::seconds;
use super::picture::All;
use super::shown::{Decision, Node};

/// Messages about nodes of ours, and those that were not understood; the others concern nobody here.
pub(super) fn decisions(
    events: Vec<pb::InterruptionEvent>,
    nodes: &All<Node>,
    known: &All<Decision>,
) -> Vec<(String, Decision)> {
    let concerns_us = |event: &pb::InterruptionEvent| {
        !event.node_claims.is_empty() || event.kind() == pb::MessageKind::Malformed
    };
    let mut all = Vec::new();
    for event in events.into_iter().filter(concerns_us) {
        let key = key(&event);
        let before = known.get(&key);
        let mut own = decision(event, nodes);
        // Its nodes keep the names under which they were first shown: they go.
        if let Some(before) = before {
            own.remove.clone_from(&before.remove);
        }
        all.push((key, own));
    }
    all
}

fn key(event: &pb::InterruptionEvent) -> String {
    let received = seconds(event.received_at.as_ref()).unwrap_or_default();
    let instance = event.instance_ids.first().map(String::as_str).unwrap_or_default();
    format!("interruption/{}/{instance}/{received}", event.id)
}

fn decision(event: pb::InterruptionEvent, nodes: &All<Node>) -> Decision {
    let node_of = |claim: &str| {
        let node = nodes.iter().find(|(_, node)| node.claim == claim);
        node.map_or_else(|| claim.to_owned(), |(name, _)| name.clone())
    };
    let received = seconds(event.received_at.as_ref()).unwrap_or_default();
    let happened = seconds(event.event_time.as_ref());
    let done = action(event.action());
    let took = event.handled_in.as_ref().map_or(0, |took| took.seconds);
    let mut own = Decision {
        kind: "interruption",
        at: happened.unwrap_or(received),
        reason: reason(event.kind()).to_owned(),
        phase: done.to_owned(),
        ended: true,
        remove: event.node_claims.iter().map(|claim| node_of(&claim.name)).collect(),
        trace: event
            .node_claims
            .first()
            .map(|claim| ("interruption-watcher", "nodeclaim", claim.name.clone())),
        detail: event.detail,
        ..Decision::default()
    };
    if let Some(happened) = happened {
        own.step(happened, "warned by AWS".to_owned());
    }
    own.step(received, "received".to_owned());
    own.step(received.saturating_add(took), done.to_owned());
    own
}

fn reason(kind: pb::MessageKind) -> &'static str {
    match kind {
        pb::MessageKind::Unspecified => "unknown message",
        pb::MessageKind::SpotInterrupted => "spot interruption",
        pb::MessageKind::RebalanceRecommendation => "rebalance recommendation",
        pb::MessageKind::ScheduledChange => "scheduled change",
        pb::MessageKind::InstanceStopped => "instance stopped",
        pb::MessageKind::InstanceTerminated => "instance terminated",
        pb::MessageKind::CapacityReservationInterrupted => "capacity reservation interrupted",
        pb::MessageKind::InstanceStatus => "instance status check failed",
        pb::MessageKind::SystemStatus => "system status check failed",
        pb::MessageKind::EventStatus => "scheduled event",
        pb::MessageKind::NoOp => "nothing to do",
        pb::MessageKind::Malformed => "message not understood",
    }
}

fn action(action: pb::Action) -> &'static str {
    match action {
        pb::Action::Unspecified | pb::Action::None => "no action",
        pb::Action::Drain => "drain begun",
        pb::Action::TerminateNow => "terminated at once",
    }
}
