//! Owns what is known of claims and Nodes, asks what each claim needs next, and has it done, many claims at once. It keeps
//! its index on every replica and acts on the leader only.

use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use runtime::Leadership;
use runtime::lease::Term;
use runtime::watch::Change;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::decision::{Limits, Observed, Step, launch_backoff, next_step};
use super::execution::{Executor, Job, Learned, Outcome};
use super::index::{Index, Name};
use super::queue::{Lane, Queue};
use super::tagging::needs_tags_again;
use super::write::WriteError;

/// EC2 calls are paced where they are made; this bounds memory.
const MOST_LAUNCHES: usize = 512;
/// Few enough to leave the API server to others, many enough that hundreds of nodes join within a second or two.
const MOST_WRITES: usize = 48;
/// EC2 says where it put an instance soon after it runs.
const ASK_PARTITION_EVERY: SignedDuration = SignedDuration::from_secs(2);
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(100);
const SLOWEST_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// What the watches deliver.
pub(crate) enum Message {
    Claims(Change<NodeClaim>),
    Nodes(Change<Node>),
    Classes(Change<EC2NodeClass>),
}

impl From<Change<NodeClaim>> for Message {
    fn from(change: Change<NodeClaim>) -> Self {
        Self::Claims(change)
    }
}

impl From<Change<Node>> for Message {
    fn from(change: Change<Node>) -> Self {
        Self::Nodes(change)
    }
}

impl From<Change<EC2NodeClass>> for Message {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self::Classes(change)
    }
}

type Ended = (Name, Lane, Result<Outcome, WriteError>);

pub(super) struct Actor {
    inbox: mpsc::Receiver<Message>,
    index: Index,
    queue: Queue,
    executor: Arc<Executor>,
    tasks: JoinSet<Ended>,
    /// Failed writes in a row.
    failures: FxHashMap<Name, u32>,
    limits: Limits,
}

impl Actor {
    pub(super) fn new(inbox: mpsc::Receiver<Message>, executor: Executor) -> Self {
        Self {
            inbox,
            index: Index::default(),
            queue: Queue::new(MOST_LAUNCHES, MOST_WRITES),
            executor: Arc::new(executor),
            tasks: JoinSet::new(),
            failures: FxHashMap::default(),
            limits: Limits::default(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut leadership: Leadership,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut term: Option<Term> = None;
        loop {
            if term.is_some() && self.index.is_synced() {
                self.start_what_is_due();
            }
            let lost = term.as_ref().map(Term::lost).unwrap_or_default();
            let leads = term.is_some();
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.tasks.shutdown().await;
                    return Ok(());
                }
                () = lost.cancelled(), if leads => {
                    // The Lease is given back when the term is dropped, after the last write has ended.
                    self.tasks.shutdown().await;
                    self.queue.clear();
                    self.failures.clear();
                    term = None;
                }
                begun = leadership.term(), if !leads => {
                    term = Some(begun);
                    self.executor.launch.term_began();
                    for name in self.index.names() {
                        self.queue.nudge(name);
                    }
                }
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) => anyhow::bail!("a step of a claim's life failed: {error}"),
                },
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message, leads),
                    None => {
                        stop.cancelled().await;
                        return Ok(());
                    }
                },
                () = sleep_until(self.queue.next_timer()), if leads => self.queue.fire(Timestamp::now()),
            }
        }
    }

    fn take(&mut self, message: Message, leads: bool) {
        let names = match message {
            Message::Claims(change) => {
                if let Change::Applied(claim) = &change
                    && leads
                    && let Some(known) = self.index.claim(claim.metadata.name.as_deref().unwrap_or_default())
                    && needs_tags_again(&known.object, claim)
                {
                    self.executor.tags.wanted(claim);
                }
                self.index.claims_changed(change)
            }
            Message::Nodes(change) => self.index.nodes_changed(change),
            Message::Classes(change) => self.index.classes_changed(change),
        };
        if leads {
            names.into_iter().for_each(|name| self.queue.nudge(name));
        }
    }

    fn start_what_is_due(&mut self) {
        while let Some(name) = self.queue.next() {
            let Some(claim) = self.index.claim(&name) else { continue };
            let (object, now) = (claim.object.clone(), Timestamp::now());
            let nodes = self.index.nodes_of(&object);
            let seen = Observed { claim: &object, nodes: &nodes, memory: &claim.memory, limits: self.limits };
            let step = next_step(&seen, now);
            let lane = match step {
                Step::Leave | Step::Wait(None) => continue,
                Step::Wait(Some(at)) => {
                    self.queue.wake_at(name, at);
                    continue;
                }
                Step::Launch => Lane::Launch,
                _ => Lane::Write,
            };
            if !self.queue.start(&name, lane) {
                continue;
            }
            let class = self.index.class(&object.spec.node_class_ref.name).filter(|_| lane == Lane::Launch);
            let job = Job { name: name.clone(), claim: object, class, step, now };
            let executor = self.executor.clone();
            self.tasks.spawn(async move {
                let done = executor.carry_out(&job).await;
                (name, lane, done)
            });
        }
    }

    fn ended(&mut self, (name, lane, done): Ended) {
        let nudged = self.queue.finished(&name, lane);
        let now = Timestamp::now();
        match done {
            Ok(outcome) => {
                self.failures.remove(&name);
                self.learn(&name, outcome, now);
                self.queue.nudge(name);
            }
            Err(error) => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                let wait = retry_after(*failures);
                match error {
                    // The watch will tell; until then nothing can be done.
                    WriteError::Gone => info!(nodeclaim = &*name, "the claim or its node is gone"),
                    WriteError::Kube(error) => {
                        let chain = runtime_chain(&error);
                        warn!(nodeclaim = &*name, error = chain, ?wait, "write failed, trying again");
                    }
                }
                match now.checked_add(wait) {
                    Ok(at) if !nudged => self.queue.wake_at(name, at),
                    _ => self.queue.nudge(name),
                }
            }
        }
    }

    fn learn(&mut self, name: &Name, outcome: Outcome, now: Timestamp) {
        if let Some(claim) = outcome.claim {
            self.index.claim_written(claim);
        }
        if let Some(node) = outcome.node {
            self.index.node_written(node);
        }
        if outcome.learned == Learned::Deleted {
            self.index.claim_deleted(name, now);
            return;
        }
        let Some(memory) = self.index.memory(name) else { return };
        match outcome.learned {
            Learned::Nothing | Learned::Deleted => {}
            Learned::LaunchFailed => {
                memory.failed_launches += 1;
                memory.launch_after = now.checked_add(launch_backoff(memory.failed_launches)).ok();
            }
            Learned::PartitionUnknown => {
                memory.ask_partition_after = now.checked_add(ASK_PARTITION_EVERY).ok()
            }
            Learned::Scanned => memory.scanned = Some(now),
        }
    }
}

fn retry_after(failures: u32) -> SignedDuration {
    let doubled = 1_i32.checked_shl(failures.saturating_sub(1).min(10)).unwrap_or(i32::MAX);
    FIRST_RETRY.checked_mul(doubled).map_or(SLOWEST_RETRY, |wait| wait.min(SLOWEST_RETRY))
}

fn runtime_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let told = source.to_string();
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        next = source.source();
    }
    text
}

async fn sleep_until(at: Option<Timestamp>) {
    match at {
        Some(at) => {
            let left = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
