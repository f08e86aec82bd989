//! The last warnings and what was done about them, for `ListEvents`. In memory only: what must not be lost is on the claims.
//!
//! Messages about other people's instances come in floods (rules are account-wide); they have a small place of their own, so
//! that they do not push out what happened to our nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::claims::Claim;
use crate::message::Kind;

const MAILBOX: usize = 1024;
const OURS: usize = 1000;
const OTHERS: usize = 200;
/// A health event may name thousands.
const MOST_NAMED: usize = 20;

/// What was done, as `ListEvents` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    Nothing,
    Drain,
    TerminateNow,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// EventBridge's id; empty for polled status.
    pub(crate) id: String,
    /// `None`: malformed.
    pub(crate) kind: Option<Kind>,
    pub(crate) instances: Vec<String>,
    pub(crate) claims: Vec<Arc<Claim>>,
    pub(crate) done: Done,
    pub(crate) detail: String,
    pub(crate) event_time: Option<Timestamp>,
    pub(crate) received_at: Timestamp,
    pub(crate) handled_in: Duration,
}

enum Command {
    Record(Box<Entry>),
    List { limit: usize, instance: String, reply: oneshot::Sender<Vec<Entry>> },
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Journal {
    mailbox: mpsc::Sender<Command>,
}

impl Journal {
    pub(crate) async fn record(&self, mut entry: Entry) {
        entry.instances.truncate(MOST_NAMED);
        entry.claims.truncate(MOST_NAMED);
        // Without its owner the process is ending, and nobody will ask.
        let _ = self.mailbox.send(Command::Record(Box::new(entry))).await;
    }

    /// Newest first; an empty `instance` means all.
    pub(crate) async fn list(&self, limit: usize, instance: String) -> Vec<Entry> {
        let (reply, answer) = oneshot::channel();
        let _ = self.mailbox.send(Command::List { limit, instance, reply }).await;
        answer.await.unwrap_or_default()
    }
}

pub(crate) struct Actor {
    mailbox: mpsc::Receiver<Command>,
    ours: VecDeque<Entry>,
    others: VecDeque<Entry>,
}

impl Actor {
    pub(crate) fn new() -> (Self, Journal) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        (Self { mailbox, ours: VecDeque::new(), others: VecDeque::new() }, Journal { mailbox: sender })
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let command = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(command) = self.mailbox.recv() => command,
            };
            match command {
                Command::Record(entry) => self.record(*entry),
                Command::List { limit, instance, reply } => drop(reply.send(self.list(limit, &instance))),
            }
        }
    }

    fn record(&mut self, entry: Entry) {
        let concerns_us = !entry.claims.is_empty() || entry.kind.is_none();
        let (ring, most) = if concerns_us { (&mut self.ours, OURS) } else { (&mut self.others, OTHERS) };
        ring.push_back(entry);
        if ring.len() > most {
            ring.pop_front();
        }
    }

    fn list(&self, limit: usize, instance: &str) -> Vec<Entry> {
        let about = |entry: &&Entry| instance.is_empty() || entry.instances.iter().any(|id| id == instance);
        let mut found: Vec<Entry> = self.ours.iter().chain(&self.others).filter(about).cloned().collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.received_at));
        found.truncate(limit);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(second: i64, instance: &str, ours: bool) -> Entry {
        let object = serde_json::json!({"metadata": {"name": "a", "uid": "1"}});
        let claim = Claim::of(&serde_json::from_value(object).unwrap()).unwrap();
        Entry {
            id: second.to_string(),
            kind: Some(Kind::InstanceTerminated),
            instances: vec![instance.to_owned()],
            claims: if ours { vec![Arc::new(claim)] } else { Vec::new() },
            done: Done::Nothing,
            detail: String::new(),
            event_time: None,
            received_at: Timestamp::from_second(second).unwrap(),
            handled_in: Duration::ZERO,
        }
    }

    #[test]
    fn a_flood_about_others_does_not_push_out_what_happened_to_our_nodes() {
        let (mut actor, _) = Actor::new();
        actor.record(entry(1, "i-1", true));
        for second in 2..5000 {
            actor.record(entry(second, "i-2", false));
        }
        assert_eq!(actor.list(usize::MAX, "").len(), OTHERS + 1);
        assert_eq!(actor.list(5, "i-1").len(), 1);
        let newest: Vec<String> = actor.list(2, "").into_iter().map(|entry| entry.id).collect();
        assert_eq!(newest, ["4999", "4998"]);
    }

    #[test]
    fn a_malformed_message_counts_as_ours_to_look_at() {
        let (mut actor, _) = Actor::new();
        actor.record(Entry { kind: None, ..entry(1, "", false) });
        assert_eq!((actor.ours.len(), actor.others.len()), (1, 0));
    }
}
