//! The actor that takes nodes and claims down. It owns the world, decides with `policy::drain`, and has every write done by
//! a child task whose answer comes back as a fact; no object has two writes under way at once.
//!
//! ```text
//! watches ─ facts ─┐                    ┌─ writes (child tasks) ── answers = facts ─┐
//! EC2 ── news ─────┼─> world, dirty keys ─> next_step ─┼─ evictions (paced)                            │
//! time ────────────┘                    └─ wishes about instances                   │
//!        ^──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Followers keep the world warm and answer questions; only the leader acts.

mod claim_pass;
mod evictions;
mod node_pass;
mod report;
mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud::instance::id_of_provider;
use jiff::Timestamp;
use policy::drain::collect::NodeOfClaim;
use policy::drain::pace::backoff;
use policy::drain::time::plus;
use policy::drain::{Instance, Pod};
use runtime::Leadership;
use runtime::lease::Term;
use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug, info, warn};

pub(crate) use report::{Drain, Phase, Wait};

use self::evictions::Evictions;
use self::schedule::Schedule;
use crate::events::Events;
use crate::instances::{Instances, News, Subject, Wish};
use crate::metrics::{Code, Metrics, Reason};
use crate::world::{Claim, Fact, Key, NodeState, World};
use crate::writes::{Error, Evicted, Writes};

/// Facts taken in one go before anything is decided: a burst costs one decision for each object it touches.
const AT_ONCE: usize = 512;
/// Kinds that must have been listed before anything is decided.
const KINDS: usize = 6;
/// Between two rounds of evictions, so that a flood of answers is not a flood of rounds.
const ROUND: Duration = Duration::from_millis(20);

const LONGEST_SLEEP: Duration = Duration::from_secs(2);
/// Between two events of one kind about one object.
const TELL_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

/// What the service is told to be like.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) region: String,
    pub(crate) evictions_at_once: usize,
}

/// A question to the actor.
pub(crate) enum Question {
    Drains(oneshot::Sender<Vec<Drain>>),
    /// The claim of that name as last seen.
    Claim(Arc<str>, oneshot::Sender<Option<Arc<Claim>>>),
    /// For each provider id, how its node is.
    NodesOf(Vec<Arc<str>>, oneshot::Sender<Vec<NodeOfClaim>>),
    /// Name and uid of the nodes on these instances.
    NodesOn(Vec<String>, oneshot::Sender<Vec<(Arc<str>, Arc<str>)>>),
}

/// Asks the actor.
#[derive(Clone)]
pub(crate) struct Removals {
    questions: mpsc::Sender<Question>,
    changes: watch::Receiver<u64>,
}

impl Removals {
    pub(crate) async fn drains(&self) -> Option<Vec<Drain>> {
        self.ask(Question::Drains).await
    }

    pub(crate) async fn claim(&self, name: &str) -> Option<Arc<Claim>> {
        self.ask(|reply| Question::Claim(name.into(), reply)).await.flatten()
    }

    pub(crate) async fn nodes_of(&self, provider_ids: Vec<Arc<str>>) -> Option<Vec<NodeOfClaim>> {
        self.ask(|reply| Question::NodesOf(provider_ids, reply)).await
    }

    pub(crate) async fn nodes_on(&self, instances: Vec<String>) -> Option<Vec<(Arc<str>, Arc<str>)>> {
        self.ask(|reply| Question::NodesOn(instances, reply)).await
    }

    /// Moves whenever a drain may look different.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// `None`: the process is ending.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(question(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// Where facts go in.
#[derive(Clone)]
pub(crate) struct Intake(pub(crate) mpsc::Sender<Fact>);

macro_rules! fact {
    ($kind:ty, $variant:ident) => {
        impl From<Change<$kind>> for Fact {
            fn from(change: Change<$kind>) -> Self {
                Self::$variant(change)
            }
        }
    };
}

fact!(k8s_openapi::api::core::v1::Node, Node);
fact!(api::NodeClaim, Claim);
fact!(k8s_openapi::api::core::v1::Pod, Pod);
fact!(k8s_openapi::api::policy::v1::PodDisruptionBudget, Pdb);
fact!(k8s_openapi::api::storage::v1::VolumeAttachment, Attachment);
fact!(k8s_openapi::api::core::v1::PersistentVolume, Volume);

/// The end of a child task.
enum Done {
    Write { key: Key, what: &'static str, result: Result<Vec<Fact>, Error> },
    Evicted { pod: Arc<Pod>, node: Arc<str>, answer: Evicted },
    Deleted { pod: Arc<Pod>, node: Arc<str>, result: Result<(), Error> },
}

/// What is remembered about an object while it is taken down.
struct Work {
    busy: bool,
    failures: u32,
    not_before: Timestamp,
    /// All pods that were ever waited for.
    pods: HashSet<Arc<str>>,
    span: Span,
    /// When each kind of event was last published: looks are many, people are few.
    told: BTreeMap<&'static str, Timestamp>,
}

pub(crate) struct Actor {
    options: Options,
    writes: Writes,
    events: Events,
    metrics: Metrics,
    instances: Instances,
    leadership: Leadership,
    facts: mpsc::Receiver<Fact>,
    news: mpsc::Receiver<News>,
    questions: mpsc::Receiver<Question>,
    changes: watch::Sender<u64>,

    world: World,
    listed: BTreeSet<&'static str>,
    dirty: BTreeSet<Key>,
    schedule: Schedule,
    work: HashMap<Key, Work>,
    known: HashMap<Subject, Instance>,
    evictions: Evictions,
    next_round: Option<Timestamp>,
    /// Pods that are being deleted for a deadline, with the grace asked for.
    deleting: HashMap<Arc<str>, i64>,
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
            options,
            writes: parts.writes,
            events: parts.events,
            metrics: parts.metrics,
            instances: parts.instances,
            leadership: parts.leadership,
            facts,
            news: parts.news,
            questions,
            changes,
            world: World::default(),
            listed: BTreeSet::new(),
            dirty: BTreeSet::new(),
            schedule: Schedule::default(),
            work: HashMap::new(),
            known: HashMap::new(),
            evictions: Evictions::default(),
            next_round: None,
            deleting: HashMap::new(),
            tasks: JoinSet::new(),
            term: None,
            jitter: 1,
        };
        (actor, Removals { questions: ask, changes: changed }, Intake(intake))
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut facts = Vec::with_capacity(AT_ONCE);
        loop {
            // Also before each wait: a change that came while the loop was busy wakes nobody.
            self.lead_or_follow().await;
            let wake = self.next_wake();
            tokio::select! {
                biased;
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
                    self.heard(news);
                    while let Ok(news) = self.news.try_recv() {
                        self.heard(news);
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
                self.everything_is_dirty();
            }
        } else if self.term.take().is_some() {
            info!("follows: another replica takes nodes down");
            self.tasks.abort_all();
            while self.tasks.join_next().await.is_some() {}
            self.instances.forget_all();
            self.evictions.clear();
            self.deleting.clear();
            self.known.clear();
            self.work.clear();
        }
    }

    fn everything_is_dirty(&mut self) {
        let nodes =
            self.world.nodes().filter(|node| node.is_leaving()).map(|node| Key::Node(node.name.clone()));
        let claims = self
            .world
            .claims()
            .filter(|claim| claim.is_leaving())
            .map(|claim| Key::Claim(claim.name.clone()));
        self.dirty.extend(nodes.chain(claims).collect::<Vec<_>>());
    }

    fn learn(&mut self, fact: Fact) {
        let (kind, whole) = match &fact {
            Fact::Node(change) => ("Node", matches!(change, Change::Reset(_))),
            Fact::Claim(change) => ("NodeClaim", matches!(change, Change::Reset(_))),
            Fact::Pod(change) => ("Pod", matches!(change, Change::Reset(_))),
            Fact::Pdb(change) => {
                // Budgets decide who is asked for next.
                self.next_round.get_or_insert_with(Timestamp::now);
                ("PodDisruptionBudget", matches!(change, Change::Reset(_)))
            }
            Fact::Attachment(change) => ("VolumeAttachment", matches!(change, Change::Reset(_))),
            Fact::Volume(change) => ("PersistentVolume", matches!(change, Change::Reset(_))),
        };
        self.world.apply(fact, &mut self.dirty);
        if whole && self.listed.insert(kind) && self.is_synced() {
            self.everything_is_dirty();
        }
    }

    fn is_synced(&self) -> bool {
        self.listed.len() == KINDS
    }

    fn heard(&mut self, news: News) {
        match &news.subject {
            Subject::Id(id) => {
                // Only what is leaving is ever asked about: few, compared with the cluster.
                let on = |provider: &Option<Arc<str>>| {
                    provider.as_deref().and_then(id_of_provider).is_some_and(|own| *own == **id)
                };
                let nodes =
                    self.world.nodes().filter(|node| node.deleting.is_some() && on(&node.provider_id));
                self.dirty.extend(nodes.map(|node| Key::Node(node.name.clone())).collect::<Vec<_>>());
                let claims =
                    self.world.claims().filter(|claim| claim.deleting.is_some() && on(&claim.provider_id));
                self.dirty.extend(claims.map(|claim| Key::Claim(claim.name.clone())).collect::<Vec<_>>());
            }
            Subject::OfClaim(name) => drop(self.dirty.insert(Key::Claim(name.clone()))),
        }
        self.known.insert(news.subject, news.instance);
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
            Key::Node(name) => self.world.node(name).is_some_and(|node| node.is_leaving()),
            Key::Claim(name) => self.world.claim(name).is_some_and(|claim| claim.is_leaving()),
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

    /// The object is gone or stays after all.
    fn close(&mut self, key: &Key, now: Timestamp) {
        self.schedule.remove(key);
        if let Key::Node(name) = key {
            self.evictions.want(name, &[], now);
        }
        if self.work.get(key).is_some_and(|work| !work.busy) {
            self.work.remove(key);
        }
        if let Key::Claim(name) = key
            && self.world.claim(name).is_none()
        {
            let subject = Subject::OfClaim(name.clone());
            if self.known.remove(&subject).is_some() {
                self.instances.forget(subject);
            }
        }
        self.forget_instances();
    }

    /// Drops what is known about instances that nothing which leaves refers to any more.
    fn forget_instances(&mut self) {
        // The map is as large as the number of removals under way; looked through only when it outgrew them.
        if self.known.len() <= 2 * self.work.len() + 16 {
            return;
        }
        let mut needed: HashSet<String> = HashSet::new();
        for node in self.world.nodes().filter(|node| node.deleting.is_some()) {
            needed.extend(node.provider_id.as_deref().and_then(id_of_provider).map(str::to_owned));
        }
        for claim in self.world.claims().filter(|claim| claim.deleting.is_some()) {
            needed.extend(claim.provider_id.as_deref().and_then(id_of_provider).map(str::to_owned));
        }
        let idle: Vec<Subject> = self
            .known
            .keys()
            .filter(|subject| matches!(subject, Subject::Id(id) if !needed.contains(&**id)))
            .cloned()
            .collect();
        for subject in idle {
            self.known.remove(&subject);
            self.instances.forget(subject);
        }
    }

    /// The memory about an object, made at the first look; its span continues the node's trace.
    fn work(&mut self, key: &Key, traceparent: Option<&str>, now: Timestamp) -> &mut Work {
        self.work.entry(key.clone()).or_insert_with(|| {
            let span = match key {
                Key::Node(name) => tracing::info_span!(parent: None, "drain node", node = %name),
                Key::Claim(name) => {
                    tracing::info_span!(parent: None, "terminate nodeclaim", nodeclaim = %name)
                }
            };
            if let Some(traceparent) = traceparent {
                runtime::trace::set_parent(&span, traceparent);
            }
            let (pods, told) = (HashSet::new(), BTreeMap::new());
            Work { busy: false, failures: 0, not_before: now, pods, span, told }
        })
    }

    /// Whether an event of this kind about the object is due; if so, it counts as told.
    fn may_tell(&mut self, key: &Key, kind: &'static str, now: Timestamp) -> bool {
        let Some(work) = self.work.get_mut(key) else { return false };
        let again = work.told.get(kind).is_none_or(|told| *told <= plus(now, -TELL_AGAIN));
        if again {
            work.told.insert(kind, now);
        }
        again
    }

    /// Whether a write for the object may start now; if not, it is looked at again in time.
    fn may_write(&mut self, key: &Key, now: Timestamp) -> bool {
        let Some(work) = self.work.get(key) else { return true };
        if work.busy {
            return false;
        }
        if work.not_before > now {
            self.schedule.at(key.clone(), work.not_before);
            return false;
        }
        true
    }

    fn write(
        &mut self,
        key: &Key,
        what: &'static str,
        call: impl Future<Output = Result<Vec<Fact>, Error>> + Send + 'static,
    ) {
        let Some(work) = self.work.get_mut(key) else { return };
        work.busy = true;
        let span = tracing::info_span!(parent: &work.span, "write", what);
        let key = key.clone();
        let call = async move {
            let result = call.await;
            Done::Write { key, what, result }
        };
        self.tasks.spawn(tracing::Instrument::instrument(call, span));
    }

    /// Asks about the instance. `false`: the mailbox is full, come again.
    fn wish(&mut self, key: &Key, subject: Subject, wish: Wish, now: Timestamp) {
        if !self.instances.want(subject.clone(), wish) {
            self.schedule.at(key.clone(), plus(now, jiff::SignedDuration::from_millis(200)));
            return;
        }
        // Until it says more: so that the same wish is not sent with every look.
        self.known.insert(subject, Instance::Asking(None));
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) -> anyhow::Result<()> {
        let now = Timestamp::now();
        match done {
            Err(error) if error.is_cancelled() => {}
            // A bug: the process ends with its message.
            Err(error) => return Err(error.into()),
            Ok(Done::Write { key, what, result }) => self.written(&key, what, result, now),
            Ok(Done::Evicted { pod, node, answer }) => self.evicted(&pod, &node, &answer, now),
            Ok(Done::Deleted { pod, node, result }) => {
                self.deleting.remove(&pod.uid);
                if let Err(error) = result {
                    warn!(pod = pod.key(), node = %node, %error, "pod not deleted for the deadline; trying again");
                    self.schedule.at(Key::Node(node), plus(now, jiff::SignedDuration::from_secs(1)));
                }
            }
        }
        Ok(())
    }

    fn written(&mut self, key: &Key, what: &'static str, result: Result<Vec<Fact>, Error>, now: Timestamp) {
        let jitter = self.random();
        let Some(work) = self.work.get_mut(key) else { return };
        work.busy = false;
        match result {
            Ok(facts) => {
                work.failures = 0;
                for fact in facts {
                    self.learn(fact);
                }
                self.dirty.insert(key.clone());
            }
            // The watch tells what became of it.
            Err(Error::Gone) => self.schedule.at(key.clone(), plus(now, jiff::SignedDuration::from_secs(1))),
            Err(error) => {
                work.failures += 1;
                work.not_before = plus(now, backoff(work.failures, jitter));
                let (name, not_before) = (key.name(), work.not_before);
                match error {
                    Error::Conflict => debug!(name, what, "object changed meanwhile"),
                    error => warn!(name, what, %error, "write failed; trying again"),
                }
                self.schedule.at(key.clone(), not_before);
            }
        }
    }

    fn evict(&mut self, now: Timestamp) {
        let most = self.options.evictions_at_once;
        if self.term.is_none() {
            self.next_round = None;
            return;
        }
        for pod in self.evictions.admit(&self.world, now, most) {
            let Some(node) = self.evictions.node_of(&pod.uid) else { continue };
            let (writes, asked) = (self.writes.clone(), Arc::clone(&pod));
            self.tasks.spawn(async move {
                let answer = writes.evict(&asked).await;
                Done::Evicted { pod: asked, node, answer }
            });
        }
        self.metrics.waiting_pods.set(i64::try_from(self.evictions.len()).unwrap_or(i64::MAX));
        let turn = self.evictions.next_turn(&self.world, now, most);
        self.next_round = turn.map(|turn| turn.max(plus(now, round())));
    }

    fn evicted(&mut self, pod: &Arc<Pod>, node: &Arc<str>, answer: &Evicted, now: Timestamp) {
        let jitter = self.random();
        self.evictions.answered(pod, answer, &self.world, now, jitter);
        let soon = plus(now, round());
        self.next_round = Some(self.next_round.map_or(soon, |round| round.min(soon)));
        let code = match answer {
            Evicted::Yes => 200,
            Evicted::NotThere { code } | Evicted::Refused { code, .. } | Evicted::Failed { code, .. } => {
                *code
            }
        };
        self.metrics.evictions.get_or_create(&Code { code }).inc();
        match answer {
            Evicted::Yes => {
                let reason = self.reason_of(node);
                self.events.evicted(pod, &reason);
                self.metrics.pods_drained.get_or_create(&Reason { reason }).inc();
            }
            Evicted::Refused { code, words } => {
                if let Some(state) = self.world.node(node) {
                    self.events.refused(state, pod, words, *code == 500);
                }
            }
            Evicted::NotThere { .. } => {}
            Evicted::Failed { error, .. } => {
                warn!(pod = pod.key(), node = %node, error, "eviction failed; trying again");
            }
        }
    }

    /// As in the reference: what disruption noted, else that it was forced; nothing without a claim.
    fn reason_of(&self, node: &str) -> String {
        let claim = self.world.node(node).and_then(|node| self.world.claim_of(node));
        claim.map_or_else(String::new, |claim| {
            claim.disruption_reason().unwrap_or("Forceful Termination").to_owned()
        })
    }

    fn answer(&mut self, question: Question) {
        match question {
            Question::Drains(reply) => drop(reply.send(self.drains(Timestamp::now()))),
            Question::Claim(name, reply) => drop(reply.send(self.world.claim(&name).cloned())),
            Question::NodesOf(provider_ids, reply) => {
                let found = provider_ids.iter().map(|id| match self.world.nodes_with(id).as_slice() {
                    _ if !self.is_synced() => NodeOfClaim::Unknown,
                    [one] if one.ready => NodeOfClaim::Ready,
                    [_] => NodeOfClaim::NotReady,
                    _ => NodeOfClaim::NotOne,
                });
                drop(reply.send(found.collect()));
            }
            Question::NodesOn(instances, reply) => {
                let wanted: BTreeSet<&str> = instances.iter().map(String::as_str).collect();
                let on = |node: &&Arc<NodeState>| {
                    node.provider_id.as_deref().and_then(id_of_provider).is_some_and(|id| wanted.contains(id))
                };
                let nodes = self.world.nodes().filter(|node| node.managed).filter(on);
                drop(reply.send(nodes.map(|node| (node.name.clone(), node.uid.clone())).collect()));
            }
        }
    }

    /// Jitter need not be unpredictable, only spread out.
    fn random(&mut self) -> u32 {
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.jitter >> 16
    }

    /// What is known about the instance behind a provider id. Why it must not be touched, if so.
    fn instance(&self, provider_id: Option<&str>) -> (Option<Subject>, Instance) {
        let Some(provider_id) = provider_id else { return (None, Instance::Unasked) };
        match locate(provider_id, &self.options.region) {
            Err(why) => (None, Instance::Untouchable(why)),
            Ok(id) => {
                let subject = Subject::Id(id.into());
                let known = self.known.get(&subject).cloned().unwrap_or_default();
                (Some(subject), known)
            }
        }
    }
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Claim(name) => name,
        }
    }
}

fn round() -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(ROUND).unwrap_or_default()
}

/// The instance id of a provider id of this region. EC2 here knows nothing of instances elsewhere: "not found" would be
/// taken for "gone".
fn locate<'a>(provider_id: &'a str, region: &str) -> Result<&'a str, String> {
    let advice =
        "correct it, or end the instance yourself and take the finalizer karpenter.sh/termination off";
    let malformed = || format!("provider id {provider_id:?} is not aws:///<zone>/<instance id>; {advice}");
    let id = id_of_provider(provider_id).filter(|id| id.starts_with("i-")).ok_or_else(malformed)?;
    let zone = provider_id.split(":///").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if !zone.starts_with(region) {
        return Err(format!(
            "provider id {provider_id:?} is not of region {region}, which this service works in; {advice}"
        ));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::locate;

    #[test]
    fn only_provider_ids_of_this_region_lead_to_an_instance() {
        assert_eq!(locate("aws:///us-east-1a/i-0abc", "us-east-1"), Ok("i-0abc"));
        assert_eq!(locate("aws:///us-east-1-bos-1a/i-0abc", "us-east-1"), Ok("i-0abc"), "a local zone");
        for wrong in [
            "aws:///eu-west-1a/i-0abc",
            "i-0abc",
            "",
            "aws:///us-east-1a/",
            "aws:///us-east-1a/x",
            "gce:///us-east-1a/vm-1",
        ] {
            assert!(locate(wrong, "us-east-1").is_err(), "{wrong}");
        }
    }
}
