//! The actor that decides which nodes go. It owns the cluster state and the commands; every write and every question to
//! others is done by a child task whose answer comes back as a message.
//!
//! ```text
//! watches ─ facts ─> state ─┬─> conditions: Consolidatable, Drifted, expiry, repair ─── writes (child tasks)
//! time ─────────────────────┤
//!                           ├─> pass: candidates, budgets ─> search (child task, asks the provisioner) ─> proposals
//!                           └─> execution: wait, validation, taint, replacements, last validation, removal, or rollback
//! ```
//!
//! Followers keep the cluster state warm and answer questions; only the leader acts. A new leader finds the commands of the one
//! before in the objects (`recovery`).

mod conditions;
mod execution;
mod ledger;
mod pass;
mod pools;
mod progress;
mod recovery;
mod report;
mod rollback;
mod schedule;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consolidation::search::{Found, Verdict};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use policy::churn::Backoff;
use proto::types::v1 as types;
use runtime::Leadership;
use runtime::lease::Term;
use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{info, warn};

pub(crate) use report::{Commands, Explained, NodeReport, Report};

use self::schedule::Schedule;
use crate::cluster::{ClusterState, Fact, Touched};
use crate::command::{Command, Member, Purpose, pause};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::probe::{Probes, Seen, Told};
use crate::simulation::Planned;
use crate::writes::{Error, Writes};

/// Facts taken in one go before anything is decided: a burst costs one decision.
const AT_ONCE: usize = 2048;
/// Kinds that must have been listed before anything is decided.
const KINDS: usize = 6;
/// Writes of conditions under way at once: after a restart thousands may be due, and what commands write must not wait behind.
const MARKS_AT_ONCE: usize = 16;
/// Before a new leader asks again for the claims that it could not list.
const LIST_AGAIN: Duration = Duration::from_secs(1);
const LONGEST_SLEEP: Duration = Duration::from_secs(2);
/// Without any news everything is looked at this often: budgets open and protections end by time alone.
const IDLE_LOOK: SignedDuration = SignedDuration::from_secs(10);
/// How long commands that ended are shown, and how many at most.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);
const MOST_REMEMBERED: usize = 2000;

/// What the service is told to be like.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) validation_wait: SignedDuration,
    /// A what-if that failed is asked again after this long, whatever is known to have changed.
    pub(crate) full_look_interval: SignedDuration,
    pub(crate) look_interval: SignedDuration,
    pub(crate) settle_wait: SignedDuration,
    pub(crate) spot_to_spot: bool,
    pub(crate) node_repair: bool,
}

impl Options {
    pub(crate) fn of(config: &crate::Config) -> Self {
        let span = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let (flags, gates) = (&config.disruption, &config.settings.feature_gates);
        Self {
            validation_wait: span(flags.validation_wait),
            full_look_interval: span(flags.full_look_interval),
            look_interval: span(flags.look_interval),
            settle_wait: span(flags.settle_wait),
            spot_to_spot: gates.spot_to_spot_consolidation,
            node_repair: gates.node_repair,
        }
    }
}

/// Asks the actor.
#[derive(Clone)]
pub(crate) struct Disruptions {
    questions: mpsc::Sender<Question>,
    changes: watch::Receiver<u64>,
    node_changes: watch::Receiver<u64>,
}

/// An answer is `None` until the whole cluster was seen.
enum Question {
    Report(oneshot::Sender<Option<Report>>),
    /// About one node, by its name or its NodeClaim's.
    Node(Arc<str>, oneshot::Sender<Option<Option<Explained>>>),
    Commands(oneshot::Sender<Option<Commands>>),
    Cancel(Arc<str>, oneshot::Sender<Option<Result<Command, NotCancelled>>>),
}

/// Why a command was not cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotCancelled {
    NotLeading,
    Unknown,
    /// Its NodeClaims are being deleted, or it is over.
    TooLate,
}

/// No answer to a question.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Silent {
    Stopping,
    NotSynced,
}

impl Disruptions {
    /// Everything there is to tell.
    pub(crate) async fn report(&self) -> Result<Report, Silent> {
        self.ask(Question::Report).await
    }

    /// One node with the command that it is part of; `None` where it is none of ours.
    pub(crate) async fn node(&self, name: &str) -> Result<Option<Explained>, Silent> {
        let name: Arc<str> = Arc::from(name);
        self.ask(|reply| Question::Node(Arc::clone(&name), reply)).await
    }

    pub(crate) async fn commands(&self) -> Result<Commands, Silent> {
        self.ask(Question::Commands).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Result<Result<Command, NotCancelled>, Silent> {
        let id: Arc<str> = Arc::from(id);
        self.ask(|reply| Question::Cancel(Arc::clone(&id), reply)).await
    }

    async fn ask<T>(&self, question: impl Fn(oneshot::Sender<Option<T>>) -> Question) -> Result<T, Silent> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(question(reply)).await.map_err(|_| Silent::Stopping)?;
        answer.await.map_err(|_| Silent::Stopping)?.ok_or(Silent::NotSynced)
    }

    /// Moves whenever a command may look different.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Moves whenever the report may be another: the cluster changed, or was looked at.
    pub(crate) fn node_changes(&self) -> watch::Receiver<u64> {
        self.node_changes.clone()
    }
}

/// What a look at the pods of one claim's node read, and when it was asked for.
struct Live {
    claim: Arc<str>,
    pods: Result<(Timestamp, Vec<Pod>), Error>,
}

/// The end of a child task.
#[expect(clippy::large_enum_variant, reason = "each is handled as soon as it arrives; few exist at a time")]
enum Done {
    /// Conditions of a claim were written, or the claim was deleted.
    Marked {
        claim: Arc<str>,
        result: Result<Option<Fact>, Error>,
    },
    /// The condition of a NodePool was written.
    PoolMarked {
        pool: Arc<str>,
        result: Result<Fact, Error>,
    },
    Seen {
        result: Result<Told, Status>,
        began: Timestamp,
    },
    Looked {
        result: Result<Pass, Status>,
        began: Timestamp,
    },
    Checked {
        id: Arc<str>,
        result: Result<validation::Checked, Status>,
    },
    /// One write of a step of a command.
    Wrote {
        id: Arc<str>,
        claim: Arc<str>,
        purpose: Purpose,
        result: Result<Vec<Fact>, Error>,
    },
    Ordered {
        id: Arc<str>,
        result: Result<Vec<types::ObjectRef>, Status>,
    },
    Read {
        id: Arc<str>,
        pods: Vec<Live>,
    },
    /// A taint or condition that no command wanted was taken off.
    Cleaned {
        claim: Arc<str>,
        result: Result<Vec<Fact>, Error>,
    },
}

/// What the last what-if said about a node.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    pub(crate) verdict: Verdict,
    pub(crate) at: Timestamp,
    /// What it was said about; the same again need not be asked again.
    basis: u64,
}

/// What a search found, and whom it was about.
pub(crate) struct Pass {
    found: Found<Planned>,
    /// The nodes that it could choose from, and what was known about each when it began.
    members: BTreeMap<Arc<str>, (Member, u64)>,
}

pub(crate) struct Actor {
    options: Options,
    writes: Writes,
    events: Events,
    metrics: Metrics,
    probes: Probes,
    leadership: Leadership,
    facts: mpsc::Receiver<Fact>,
    questions: mpsc::Receiver<Question>,
    changes: watch::Sender<u64>,
    node_changes: watch::Sender<u64>,

    cluster: ClusterState,
    listed: BTreeSet<&'static str>,
    touched: Touched,
    /// Claims whose conditions are being written; at most one write a claim at a time.
    marking: BTreeSet<Arc<str>>,
    /// Claims to be looked at when a write about another has ended.
    unmarked: BTreeSet<Arc<str>>,
    /// When claims must be looked at although nothing happens.
    due: Schedule,
    cleaning: BTreeSet<Arc<str>>,
    /// Writes of conditions that failed in a row, by claim.
    failed_marks: BTreeMap<Arc<str>, u32>,

    commands: BTreeMap<Arc<str>, Command>,
    ended: VecDeque<Command>,
    looking: bool,
    /// Something changed since the last look began.
    dirty: bool,
    next_look: Timestamp,
    last_look: Timestamp,
    /// Pools cool down after replacements that failed or were not used.
    resting: Backoff,
    /// Nodes are left alone for a while after a command for them was taken back.
    node_backoff: Backoff,
    /// Claims with traces that could not be taken off; they are tried again after a while.
    left_behind: Backoff,
    /// When a pool was last consolidated, for its cool-down.
    consolidated: BTreeMap<Arc<str>, Timestamp>,
    /// What commands promised and what came of it.
    ledger: ledger::Ledger,
    /// The last search for many nodes at once that found nothing, by what it was given.
    fruitless: Option<u64>,
    seen: HashMap<Arc<str>, Seen>,
    /// When the provisioner was last asked for it.
    seen_at: Timestamp,
    /// Placement groups of EC2NodeClasses.
    groups: HashMap<Arc<str>, Option<Arc<str>>>,
    /// Version of prices and offerings, as last told.
    catalogue: u64,
    /// NodePools that a person asked to be evaluated at once, and since when that is known.
    evaluate_now: BTreeMap<Arc<str>, Timestamp>,
    /// Claims whose capacity reservation is not chosen any more, and since when that is known.
    reservation_lost: BTreeMap<Arc<str>, Timestamp>,
    /// NodePools whose condition is being written.
    marking_pools: BTreeSet<Arc<str>>,
    /// What was last said about a node in an event, and until when it need not be repeated.
    told: HashMap<Arc<str>, (String, Timestamp)>,
    probed: HashMap<Arc<str>, Probed>,

    tasks: JoinSet<Done>,
    term: Option<Term>,
    count: u64,
    jitter: u32,
}

pub(crate) struct Parts {
    pub(crate) writes: Writes,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) probes: Probes,
    pub(crate) leadership: Leadership,
}

impl Actor {
    pub(crate) fn new(options: Options, parts: Parts) -> (Self, Disruptions, mpsc::Sender<Fact>) {
        let (intake, facts) = mpsc::channel(4096);
        let (ask, questions) = mpsc::channel(64);
        let (changes, changed) = watch::channel(0);
        let (node_changes, nodes_changed) = watch::channel(0);
        let actor = Self {
            options,
            writes: parts.writes,
            events: parts.events,
            metrics: parts.metrics,
            probes: parts.probes,
            leadership: parts.leadership,
            facts,
            questions,
            changes,
            node_changes,
            cluster: ClusterState::default(),
            listed: BTreeSet::new(),
            touched: Touched::default(),
            marking: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            due: Schedule::default(),
            cleaning: BTreeSet::new(),
            failed_marks: BTreeMap::new(),
            commands: BTreeMap::new(),
            ended: VecDeque::new(),
            looking: false,
            dirty: true,
            next_look: Timestamp::UNIX_EPOCH,
            last_look: Timestamp::UNIX_EPOCH,
            resting: Backoff::default(),
            node_backoff: Backoff::default(),
            left_behind: Backoff::default(),
            consolidated: BTreeMap::new(),
            ledger: ledger::Ledger::default(),
            fruitless: None,
            jitter: 1,
            seen: HashMap::new(),
            seen_at: Timestamp::UNIX_EPOCH,
            groups: HashMap::new(),
            catalogue: 0,
            evaluate_now: BTreeMap::new(),
            reservation_lost: BTreeMap::new(),
            marking_pools: BTreeSet::new(),
            told: HashMap::new(),
            probed: HashMap::new(),
            tasks: JoinSet::new(),
            term: None,
            count: 0,
        };
        (actor, Disruptions { questions: ask, changes: changed, node_changes: nodes_changed }, intake)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut facts = Vec::with_capacity(AT_ONCE);
        loop {
            // Also before each wait: a change that came while the loop was busy wakes nobody.
            self.lead_or_follow().await;
            let wake = self.next_wake(Timestamp::now());
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
                Some(question) = self.questions.recv() => self.answer(question, Timestamp::now()),
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
    fn next_wake(&self, now: Timestamp) -> Duration {
        let look = (self.dirty && !self.looking).then_some(self.next_look);
        let commands = self
            .commands
            .values()
            .filter(|command| command.open == 0)
            .filter_map(|command| command.hold.max(command.wake));
        let next = [self.due.next(), look].into_iter().flatten().chain(commands).min();
        let span = next.map(|at| at.duration_since(now));
        span.map_or(LONGEST_SLEEP, |span| {
            Duration::try_from(span).unwrap_or_default().clamp(Duration::from_millis(5), LONGEST_SLEEP)
        })
    }

    async fn lead_or_follow(&mut self) {
        if self.leadership.is_leader() {
            if self.term.is_none() && self.is_synced() {
                let claims = match self.writes.all_claims().await {
                    Ok(claims) => claims,
                    Err(error) => {
                        warn!(%error, "cannot list NodeClaims, so nothing is decided yet");
                        tokio::time::sleep(LIST_AGAIN).await;
                        return;
                    }
                };
                info!("leads: decides which nodes go from now on");
                self.learn(Change::Reset(claims.into_iter().map(Arc::new).collect()).into());
                self.term = Some(self.leadership.term().await);
                self.dirty = true;
                self.metrics.passes.completed(Timestamp::now());
                self.touched.claims.extend(self.cluster.claims().map(|claim| claim.name.clone()));
                self.resume_requests();
                self.resume(Timestamp::now());
            }
        } else if self.term.take().is_some() {
            info!("follows: another replica decides");
            self.tasks.abort_all();
            while self.tasks.join_next().await.is_some() {}
            self.marking.clear();
            self.unmarked.clear();
            self.marking_pools.clear();
            self.cleaning.clear();
            self.commands.clear();
            self.left_behind = Backoff::default();
            self.evaluate_now.clear();
            self.ledger = ledger::Ledger::default();
            self.looking = false;
            self.metrics.passes.follows();
        }
    }

    fn learn(&mut self, fact: Fact) {
        let (kind, whole) = fact.kind();
        self.cluster.apply(fact, &mut self.touched);
        if whole {
            self.listed.insert(kind);
        }
    }

    /// Who asked may have gone.
    fn answer(&mut self, question: Question, now: Timestamp) {
        let synced = self.is_synced();
        match question {
            Question::Report(reply) => drop(reply.send(synced.then(|| self.report(now)))),
            Question::Node(name, reply) => drop(reply.send(synced.then(|| self.explained(&name, now)))),
            Question::Commands(reply) => drop(reply.send(synced.then(|| self.all_commands(now)))),
            Question::Cancel(id, reply) => drop(reply.send(synced.then(|| self.cancel(&id)))),
        }
    }

    fn is_synced(&self) -> bool {
        self.listed.len() == KINDS
    }

    fn act(&mut self, now: Timestamp) {
        if !self.is_synced() {
            return;
        }
        self.touched.claims.extend(self.due.due(now));
        let touched = std::mem::take(&mut self.touched);
        self.dirty |= touched.decisions;
        if touched.decisions || !touched.claims.is_empty() {
            self.nodes_changed();
        }
        if self.term.is_none() {
            if !touched.claims.is_empty() {
                // Notes tell it of commands.
                self.changed();
            }
            // A follower decides nothing, but knows prices for those who ask it.
            if !self.looking && now >= plus(self.last_look, IDLE_LOOK) {
                self.ask_prices(now);
            }
            return;
        }
        if touched.decisions {
            self.notice_requests(now);
        }
        self.unmarked.extend(touched.claims);
        while self.marking.len() < MARKS_AT_ONCE {
            let Some(claim) = self.unmarked.pop_first() else { break };
            self.mark(&claim, now);
        }
        self.carry_on(now);
        self.audit(now);
        if now >= plus(self.last_look, IDLE_LOOK) {
            self.dirty = true;
        }
        if self.dirty && !self.looking && now >= self.next_look {
            self.look(now);
        }
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) -> anyhow::Result<()> {
        let now = Timestamp::now();
        match done {
            Err(error) if error.is_cancelled() => {}
            // A bug: the process ends with its message.
            Err(error) => return Err(error.into()),
            Ok(Done::Marked { claim, result }) => {
                self.marking.remove(&claim);
                self.settled(&claim, result.map(|fact| fact.into_iter().collect()), now);
            }
            Ok(Done::Cleaned { claim, result }) => {
                self.cleaning.remove(&claim);
                self.settled(&claim, result, now);
            }
            Ok(Done::PoolMarked { pool, result }) => self.pool_marked(&pool, result),
            Ok(Done::Seen { result, began }) => {
                self.seen(result, began, now);
                self.nodes_changed();
            }
            Ok(Done::Looked { result, began }) => {
                self.looked(result, began, now);
                self.nodes_changed();
            }
            Ok(Done::Checked { id, result }) => self.checked(&id, result, now),
            Ok(Done::Wrote { id, claim, purpose, result }) => self.wrote(&id, &claim, purpose, result, now),
            Ok(Done::Ordered { id, result }) => self.ordered(&id, result, now),
            Ok(Done::Read { id, pods }) => self.read(&id, pods, now),
        }
        Ok(())
    }

    /// A write about one claim ended; the watch tells of those that are gone.
    fn settled(&mut self, claim: &Arc<str>, result: Result<Vec<Fact>, Error>, now: Timestamp) {
        match result {
            Ok(facts) => {
                for fact in facts {
                    self.learn(fact);
                }
                self.failed_marks.remove(claim);
                self.touched.claims.insert(Arc::clone(claim));
            }
            Err(Error::Gone) => drop(self.failed_marks.remove(claim)),
            Err(error) => {
                let failures = self.failed_marks.entry(Arc::clone(claim)).or_default();
                *failures += 1;
                let pause = pause(*failures);
                warn!(nodeclaim = %claim, %error, retry_in = %pause, "not written");
                self.due.at(Arc::clone(claim), plus(now, pause));
            }
        }
    }

    /// Jitter need not be unpredictable, only spread out.
    fn random(&mut self) -> u32 {
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.jitter >> 16
    }

    fn changed(&self) {
        self.changes.send_modify(|version| *version += 1);
        // What is part of a command is held by it.
        self.nodes_changed();
    }

    fn nodes_changed(&self) {
        self.node_changes.send_modify(|version| *version += 1);
    }
}

pub(crate) fn plus(at: Timestamp, span: SignedDuration) -> Timestamp {
    policy::drain::time::plus(at, span)
}
