//! The last warnings and what was done about them, for `ListEvents` and `WatchEvents`. In memory only: what must not be lost is on the claims.
//!
//! Messages about other people's instances come in floods (rules are account-wide); they have a small place of their own, so
//! that they do not push out what happened to our nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
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
    List { after: u64, limit: usize, instance: String, reply: oneshot::Sender<Listed> },
}

pub(crate) struct Listed {
    /// Newest first.
    pub(crate) entries: Vec<Entry>,
    /// The number of the newest entry of all.
    pub(crate) newest: u64,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Journal {
    mailbox: mpsc::Sender<Command>,
    newest: watch::Receiver<u64>,
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
        self.after(0, limit, instance).await.map(|listed| listed.entries).unwrap_or_default()
    }

    /// Those recorded after the entry of this number, as far as they are kept; `None` when the process ends.
    pub(crate) async fn after(&self, number: u64, limit: usize, instance: String) -> Option<Listed> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Command::List { after: number, limit, instance, reply }).await.ok()?;
        answer.await.ok()
    }

    /// The number of the newest entry; entries are numbered from 1.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.clone()
    }
}

pub(crate) struct Actor {
    mailbox: mpsc::Receiver<Command>,
    ours: VecDeque<(u64, Entry)>,
    others: VecDeque<(u64, Entry)>,
    newest: watch::Sender<u64>,
}

impl Actor {
    pub(crate) fn new() -> (Self, Journal) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let (newest, seen) = watch::channel(0);
        let actor = Self { mailbox, ours: VecDeque::new(), others: VecDeque::new(), newest };
        (actor, Journal { mailbox: sender, newest: seen })
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
                Command::List { after, limit, instance, reply } => {
                    drop(reply.send(self.list(after, limit, &instance)));
                }
            }
        }
    }

    fn record(&mut self, entry: Entry) {
        let concerns_us = !entry.claims.is_empty() || entry.kind.is_none();
        let (ring, most) = if concerns_us { (&mut self.ours, OURS) } else { (&mut self.others, OTHERS) };
        let number = *self.newest.borrow() + 1;
        ring.push_back((number, entry));
        if ring.len() > most {
            ring.pop_front();
        }
        self.newest.send_replace(number);
    }

    fn list(&self, after: u64, limit: usize, instance: &str) -> Listed {
        let about = |entry: &Entry| instance.is_empty() || entry.instances.iter().any(|id| id == instance);
        let all = self.ours.iter().chain(&self.others);
        let found = all.filter(|(number, entry)| *number > after && about(entry));
        let mut entries: Vec<Entry> = found.map(|(_, entry)| entry.clone()).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.received_at));
        entries.truncate(limit);
        Listed { entries, newest: *self.newest.borrow() }
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
        assert_eq!(actor.list(0, usize::MAX, "").entries.len(), OTHERS + 1);
        assert_eq!(actor.list(0, 5, "i-1").entries.len(), 1);
        let newest: Vec<String> = actor.list(0, 2, "").entries.into_iter().map(|entry| entry.id).collect();
        assert_eq!(newest, ["4999", "4998"]);
    }

    #[test]
    fn who_has_seen_some_is_told_the_later_ones_and_how_far_that_is() {
        let (mut actor, journal) = Actor::new();
        actor.record(entry(9, "i-1", true));
        actor.record(entry(8, "i-2", false));
        assert_eq!(*journal.newest().borrow(), 2);
        let later = actor.list(1, usize::MAX, "");
        assert_eq!((later.entries.len(), later.newest), (1, 2), "by when it was handled, not by its time");
        assert_eq!(later.entries[0].id, "8");
        assert!(actor.list(2, usize::MAX, "").entries.is_empty());
        let of_another = actor.list(0, usize::MAX, "i-3");
        assert_eq!((of_another.entries.len(), of_another.newest), (0, 2));
    }

    #[test]
    fn a_malformed_message_counts_as_ours_to_look_at() {
        let (mut actor, _) = Actor::new();
        actor.record(Entry { kind: None, ..entry(1, "", false) });
        assert_eq!((actor.ours.len(), actor.others.len()), (1, 0));
    }
}
