//! Which class is visited when: on every change, when its time has come, after a failure with growing pauses; never twice at
//! once, and not more than a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::EC2NodeClass;
use jiff::Timestamp;
use runtime::Leadership;
use runtime::watch::Change;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reconcile::{Next, Visit};

const AT_ONCE: usize = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const IDLE: Duration = Duration::from_hours(1);

/// What the watch says.
pub(crate) struct Told(pub(super) Change<EC2NodeClass>);

impl From<Change<EC2NodeClass>> for Told {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self(change)
    }
}

pub(super) struct Queue {
    visit: Arc<Visit>,
    leadership: Leadership,
    told: mpsc::Receiver<Told>,
    classes: BTreeMap<String, Entry>,
    running: BTreeSet<String>,
    visits: JoinSet<(String, Next)>,
}

struct Entry {
    class: Arc<EC2NodeClass>,
    /// `None`: nothing to do until something changes.
    due: Option<Instant>,
    failures: u32,
}

impl Queue {
    pub(super) fn new(visit: Arc<Visit>, leadership: Leadership) -> (Self, mpsc::Sender<Told>) {
        let (sender, told) = mpsc::channel(64);
        let queue = Self {
            visit,
            leadership,
            told,
            classes: BTreeMap::new(),
            running: BTreeSet::new(),
            visits: JoinSet::new(),
        };
        (queue, sender)
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut leads = self.leadership.clone();
        loop {
            self.start_due();
            let next = self.next_due().unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = leads.changed() => self.all_due(),
                Some(told) = self.told.recv() => self.take(told.0),
                Some(done) = self.visits.join_next(), if !self.visits.is_empty() => {
                    let (name, next) = done?;
                    self.finished(&name, next);
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    fn take(&mut self, change: Change<EC2NodeClass>) {
        match change {
            Change::Applied(class) => self.put(class),
            Change::Deleted(class) => self.drop_class(class.metadata.name.as_deref().unwrap_or_default()),
            Change::Reset(all) => {
                let names: BTreeSet<&str> = all.iter().filter_map(|c| c.metadata.name.as_deref()).collect();
                let gone: Vec<String> =
                    self.classes.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
                for name in gone {
                    self.drop_class(&name);
                }
                for class in all {
                    self.put(class);
                }
            }
        }
    }

    fn put(&mut self, class: Arc<EC2NodeClass>) {
        let name = class.metadata.name.clone().unwrap_or_default();
        let entry = self.classes.entry(name).or_insert_with(|| Entry {
            class: Arc::clone(&class),
            due: None,
            failures: 0,
        });
        // What only our own status write changed needs no visit: the timer set at its end stands.
        let ours = entry.class.metadata.uid == class.metadata.uid
            && same_wish(&entry.class, &class)
            && entry.due.is_some_and(|due| due > Instant::now());
        entry.class = class;
        if !ours {
            entry.due = Some(Instant::now());
        }
    }

    fn drop_class(&mut self, name: &str) {
        self.classes.remove(name);
        self.visit.resolved.remove(name);
        self.visit.validation.forget(name);
    }

    fn all_due(&mut self) {
        let now = Instant::now();
        for entry in self.classes.values_mut() {
            entry.due = Some(now);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let waiting = self.classes.iter().filter(|(name, _)| !self.running.contains(*name));
        waiting.filter_map(|(_, entry)| entry.due).min()
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for (name, entry) in &mut self.classes {
            if self.running.len() >= AT_ONCE {
                break;
            }
            if entry.due.is_none_or(|due| due > now) || self.running.contains(name) {
                continue;
            }
            entry.due = None;
            let (visit, class, name) = (Arc::clone(&self.visit), Arc::clone(&entry.class), name.clone());
            self.running.insert(name.clone());
            let term = self.leadership.held();
            self.visits.spawn(async move {
                let now = Timestamp::now();
                let next = match term {
                    Some(term) => tokio::select! {
                        biased;
                        // All classes are due when leadership changes.
                        () = term.lost().cancelled_owned() => Next::Wait,
                        next = visit.lead(&class, now) => next,
                    },
                    None => visit.follow(&class, now).await,
                };
                (name, next)
            });
        }
    }

    fn finished(&mut self, name: &str, next: Next) {
        self.running.remove(name);
        let Some(entry) = self.classes.get_mut(name) else { return };
        let pause = match next {
            Next::After(pause) => {
                entry.failures = 0;
                Some(pause)
            }
            Next::Retry => {
                let pause = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(10)).min(LONGEST_PAUSE);
                entry.failures += 1;
                Some(pause)
            }
            Next::Wait => None,
        };
        // A change that came during the visit is due already and goes first.
        if let (None, Some(pause)) = (entry.due, pause) {
            entry.due = Some(Instant::now() + pause);
        }
    }
}

/// Whether two versions differ in nothing that a visit reads, the status apart.
fn same_wish(one: &EC2NodeClass, other: &EC2NodeClass) -> bool {
    let (a, b) = (&one.metadata, &other.metadata);
    a.generation == b.generation
        && a.annotations == b.annotations
        && a.finalizers == b.finalizers
        && a.deletion_timestamp == b.deletion_timestamp
}
