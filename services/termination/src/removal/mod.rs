//! The actor that takes nodes and claims down. It owns the cluster state, decides with `policy::drain`, and has every write done by
//! a child task whose answer comes back as a fact; no object has two writes under way at once.
//!
//! ```text
//! watches ─ facts ─┐                       ┌─ work: writes (child tasks) ── answers = facts ─┐
//! EC2 ── news ─────┼─> state, dirty keys ──> passes ─┼─ evicting: paced by evictions         │
//! time ── schedule ┘                       └─ knowledge: wishes about instances              │
//!        ^───────────────────────────────────────────────────────────────────────────────────┘
//! questions ──> report
//! ```
//!
//! Followers keep the cluster state warm and answer questions; only the leader acts.

mod claim_pass;
mod evicting;
mod evictions;
mod knowledge;
mod node_pass;
mod questions;
mod report;
mod schedule;
mod work;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use policy::drain::Pod;
use runtime::Leadership;
use runtime::lease::Term;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use questions::Removals;
pub(crate) use report::{Drain, Phase, Wait};

use self::evictions::Evictions;
use self::knowledge::Knowledge;
use self::questions::Question;
use self::schedule::Schedule;
use self::work::Work;
use crate::cluster::{ClusterState, Fact, Key};
use crate::events::Events;
use crate::instances::{Instances, News};
use crate::metrics::Metrics;
use crate::writes::{Error, Evicted, Writes};

/// Facts taken in one go before anything is decided: a burst costs one decision for each object it touches.
const AT_ONCE: usize = 512;
const LONGEST_SLEEP: Duration = Duration::from_secs(2);

/// What the service is told to be like.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) region: String,
    pub(crate) evictions_at_once: usize,
}

/// Where facts go in.
#[derive(Clone)]
pub(crate) struct Intake(pub(crate) mpsc::Sender<Fact>);

/// The end of a child task.
enum Done {
    Write { key: Key, what: &'static str, result: Result<Vec<Fact>, Error> },
    Evicted { pod: Arc<Pod>, node: Arc<str>, answer: Evicted },
    Deleted { pod: Arc<Pod>, node: Arc<str>, result: Result<(), Error> },
}

pub(crate) struct Actor {
    options: Options,
    writes: Writes,
    events: Events,
    metrics: Metrics,
    leadership: Leadership,
    facts: mpsc::Receiver<Fact>,
    news: mpsc::Receiver<News>,
    questions: mpsc::Receiver<Question>,
    changes: watch::Sender<u64>,

    cluster: ClusterState,
    listed: BTreeSet<&'static str>,
    dirty: BTreeSet<Key>,
    schedule: Schedule,
    work: HashMap<Key, Work>,
    knowledge: Knowledge,
    evictions: Evictions,
    next_round: Option<Timestamp>,
    /// Pods that are being deleted for a deadline.
    deleting: BTreeSet<Arc<str>>,
    tasks: JoinSet<Done>,
    term: Option<Term>,
    jitter: u32,
}

pub(crate) struct Parts {
    pub(crate) writes: Writes,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) instances: Instances,
    pub(crate) news: mpsc::Receiver<News>,
    pub(crate) leadership: Leadership,
}

impl Actor {
    pub(crate) fn new(options: Options, parts: Parts) -> (Self, Removals, Intake) {
        let (intake, facts) = mpsc::channel(4096);
        let (ask, questions) = mpsc::channel(64);
        let (changes, changed) = watch::channel(0);
        let actor = Self {
            knowledge: Knowledge::new(parts.instances, options.region.clone()),
            options,
            writes: parts.writes,
            events: parts.events,
            metrics: parts.metrics,
            leadership: parts.leadership,
            facts,
            news: parts.news,
            questions,
            changes,
            cluster: ClusterState::default(),
            listed: BTreeSet::new(),
            dirty: BTreeSet::new(),
            schedule: Schedule::default(),
            work: HashMap::new(),
            evictions: Evictions::default(),
            next_round: None,
            deleting: BTreeSet::new(),
            tasks: JoinSet::new(),
            term: None,
            jitter: 1,
        };
        (actor, Removals::new(ask, changed), Intake(intake))
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut facts = Vec::with_capacity(AT_ONCE);
        loop {
            // Also before each wait: a change that came while the loop was busy wakes nobody.
            self.lead_or_follow().await;
            let wake = self.next_wake();
            // In no order: writes may end faster than the loop turns, and watches and questions must get their turn all the same.
            tokio::select! {
                () = stop.cancelled() => {
                    self.tasks.abort_all();
                    return Ok(());
                }
                _ = self.leadership.changed() => continue,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.done(done)?;
                    while let Some(done) = self.tasks.try_join_next() {
                        self.done(done)?;
                    }
                }
                Some(news) = self.news.recv() => {
                    self.dirty.extend(self.knowledge.heard(news));
                    while let Ok(news) = self.news.try_recv() {
                        self.dirty.extend(self.knowledge.heard(news));
                    }
                }
                Some(question) = self.questions.recv() => self.answer(question),
                taken = self.facts.recv_many(&mut facts, AT_ONCE) => {
                    if taken == 0 {
                        stop.cancelled().await;
                        return Ok(());
                    }
                    for fact in facts.drain(..) {
                        self.learn(fact);
                    }
                }
                () = tokio::time::sleep(wake) => {}
            }
            self.act(Timestamp::now());
        }
    }

    /// Long sleeps are cut short: the wall clock may jump, and a lease may end.
    fn next_wake(&self) -> Duration {
        let next = [self.schedule.next(), self.next_round].into_iter().flatten().min();
        let span = next.map(|at| at.duration_since(Timestamp::now()));
        span.map_or(LONGEST_SLEEP, |span| Duration::try_from(span).unwrap_or_default().min(LONGEST_SLEEP))
    }

    async fn lead_or_follow(&mut self) {
        if self.leadership.is_leader() {
            if self.term.is_none() {
                info!("leads: takes nodes and nodeclaims down from now on");
                self.term = Some(self.leadership.term().await);
                self.dirty.extend(self.cluster.leaving());
            }
        } else if self.term.take().is_some() {
            info!("follows: another replica takes nodes down");
            self.tasks.abort_all();
            while self.tasks.join_next().await.is_some() {}
            self.knowledge.forget_all();
            self.evictions.clear();
            self.deleting.clear();
            self.work.clear();
        }
    }

    fn learn(&mut self, fact: Fact) {
        let (kind, whole) = fact.kind();
        if matches!(fact, Fact::Pdb(_)) {
            // Budgets decide who is asked for next.
            self.next_round.get_or_insert_with(Timestamp::now);
        }
        self.cluster.apply(fact, &mut self.dirty);
        if whole && self.listed.insert(kind) && self.is_synced() {
            self.dirty.extend(self.cluster.leaving());
        }
    }

    fn is_synced(&self) -> bool {
        self.listed.len() == Fact::KINDS
    }

    fn act(&mut self, now: Timestamp) {
        self.dirty.extend(self.schedule.due(now));
        if !self.is_synced() {
            return;
        }
        if !self.dirty.is_empty() {
            self.changes.send_modify(|version| *version += 1);
        }
        for key in std::mem::take(&mut self.dirty) {
            self.pass(&key, now);
        }
        if self.next_round.is_some_and(|round| round <= now) {
            self.evict(now);
        }
    }

    fn pass(&mut self, key: &Key, now: Timestamp) {
        let leaving = match key {
            Key::Node(name) => self.cluster.node(name).is_some_and(|node| node.is_leaving()),
            Key::Claim(name) => self.cluster.claim(name).is_some_and(|claim| claim.is_leaving()),
        };
        if !leaving {
            self.close(key, now);
            return;
        }
        if self.term.is_none() {
            return;
        }
        match key {
            Key::Node(name) => self.node_pass(name, now),
            Key::Claim(name) => self.claim_pass(name, now),
        }
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) -> anyhow::Result<()> {
        let now = Timestamp::now();
        match done {
            Err(error) if error.is_cancelled() => {}
            // A bug: the process ends with its message.
            Err(error) => return Err(error.into()),
            Ok(Done::Write { key, what, result }) => self.written(&key, what, result, now),
            Ok(Done::Evicted { pod, node, answer }) => self.evicted(&pod, &node, &answer, now),
            Ok(Done::Deleted { pod, node, result }) => self.deleted(&pod, node, result, now),
        }
        Ok(())
    }

    /// Jitter need not be unpredictable, only spread out.
    fn random(&mut self) -> u32 {
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.jitter >> 16
    }
}
