//! What each node is doing, from the nodes, drains and disruption commands together: the rules of the live page. Pure.

use std::collections::BTreeMap;

use crate::ui::picture::Picture;
use crate::ui::shown::{Decision, Drain, Node};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Launching,
    Registering,
    Ready,
    Draining,
    Replaced,
}

impl State {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Registering => "registering",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Replaced => "being replaced",
        }
    }
}

/// Drains by NodeClaim, and disruption commands in progress by node.
pub(super) struct Removals<'a> {
    drains: BTreeMap<&'a str, &'a Drain>,
    commands: BTreeMap<&'a str, &'a Decision>,
}

impl<'a> Removals<'a> {
    pub(super) fn new(picture: &'a Picture) -> Self {
        let drains = picture.drains.iter().map(|(claim, drain)| (claim.as_str(), &**drain)).collect();
        let active = picture.decisions.values().filter(|each| each.kind == "disruption" && !each.ended);
        let commands = active.flat_map(|each| each.remove.iter().map(|node| (node.as_str(), &**each)));
        Self { drains, commands: commands.collect() }
    }

    /// The state of a node, and what it waits for; empty when it waits for nothing.
    pub(super) fn state(&self, name: &str, node: &Node) -> (State, String) {
        let drain = self.drains.get(node.claim.as_str());
        if node.phase == "deleting" || drain.is_some() {
            return (
                State::Draining,
                drain.map_or_else(|| "is being deleted".to_owned(), |d| drain_waits(d)),
            );
        }
        match (node.phase.as_str(), self.commands.get(name)) {
            ("created" | "launched", _) => (State::Launching, launch_waits(node)),
            ("registered", _) => (State::Registering, launch_waits(node)),
            (_, Some(command)) => (State::Replaced, command_waits(command)),
            (_, None) => (State::Ready, String::new()),
        }
    }
}

fn launch_waits(node: &Node) -> String {
    if node.waits.is_empty() { String::new() } else { format!("waits for {}", node.waits) }
}

fn drain_waits(drain: &Drain) -> String {
    let pods = format!("{}, {} of {} pods gone", drain.phase, drain.gone, drain.total);
    match drain.waiting.first() {
        Some((_, _, detail)) => format!("{pods}; {detail}"),
        None => pods,
    }
}

fn command_waits(command: &Decision) -> String {
    let phase = format!("{}: {}", command.reason, command.phase);
    if command.detail.is_empty() { phase } else { format!("{phase}, {}", command.detail) }
}
