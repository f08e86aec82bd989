//! The owner of what is known about instances: asks EC2 in batches, ends what is to end, and insists until it is gone.
//!
//! Nothing is polled that nobody asked about. An instance is told to end only after a look at its tags; an answer that
//! failed changes nothing; an instance that was never seen is gone only after two clean looks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cloud::instance::{Instance as Ec2Instance, InstanceState, NODECLAIM_TAG, ours};
use cloud::{CloudError, ErrorKind, Terminator};
use policy::drain::Instance;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::metrics::Zone;

/// As many ids as one describe call names.
const BATCH: usize = 200;
/// Asked within this time, asked together.
const GATHER: Duration = Duration::from_millis(50);
const FIRST_POLL: Duration = Duration::from_secs(1);
const SLOWEST_POLL: Duration = Duration::from_secs(5);
const SLOWEST_RETRY: Duration = Duration::from_secs(10);
/// EC2's describe may not know for some seconds what its launch just answered.
const SECOND_LOOK: Duration = Duration::from_secs(3);
const CALLS_AT_ONCE: usize = 4;

/// Which instance is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    Id(Arc<str>),
    /// Whichever carries the name of this claim: its id was never noted.
    OfClaim(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    Look,
    End,
}

#[derive(Debug)]
enum Command {
    Want { subject: Subject, wish: Wish, claim: Option<Arc<str>> },
    Forget(Subject),
    ForgetAll,
}

/// What became known.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) subject: Subject,
    pub(crate) instance: Instance,
}

#[derive(Clone)]
pub(crate) struct Instances {
    commands: mpsc::Sender<Command>,
}

impl Instances {
    /// Says whether the wish was taken; if not, ask again later. `claim`: the name of the NodeClaim whose provider id names this
    /// instance; its tag on the instance is part of the proof that the instance is ours.
    pub(crate) fn want(&self, subject: Subject, wish: Wish, claim: Option<Arc<str>>) -> bool {
        self.commands.try_send(Command::Want { subject, wish, claim }).is_ok()
    }

    pub(crate) fn forget(&self, subject: Subject) {
        let _ = self.commands.try_send(Command::Forget(subject));
    }

    pub(crate) fn forget_all(&self) {
        let _ = self.commands.try_send(Command::ForgetAll);
    }
}

#[cfg(test)]
impl Instances {
    /// With nobody behind it; the receiver must be kept for wishes to be taken.
    pub(crate) fn for_tests() -> (Self, mpsc::Receiver<impl Sized>) {
        let (commands, taken) = mpsc::channel(64);
        (Self { commands }, taken)
    }
}

struct Tracked {
    wish: Wish,
    known: Instance,
    /// EC2 has shown it to us.
    seen: bool,
    misses: u32,
    polls: u32,
    failures: u32,
    due: Instant,
    asked: bool,
    /// NodeClaims whose provider id names it: one, unless somebody copied a claim.
    claims: BTreeSet<Arc<str>>,
}

/// What one call brought.
enum Answer {
    Described { asked: Vec<Subject>, found: Result<Vec<Ec2Instance>, CloudError> },
    Ended(Vec<(Subject, Zone, Result<InstanceState, CloudError>)>),
}

pub(crate) struct InstancesActor {
    cloud: Arc<dyn Terminator>,
    cluster: String,
    commands: mpsc::Receiver<Command>,
    news: mpsc::Sender<News>,
    tracked: HashMap<Subject, Tracked>,
    calls: JoinSet<Answer>,
    /// Instances that EC2 did not end when told to.
    refusals: Family<Zone, Counter>,
}

impl InstancesActor {
    pub(crate) fn new(
        cloud: Arc<dyn Terminator>,
        cluster: String,
        refusals: Family<Zone, Counter>,
    ) -> (Self, Instances, mpsc::Receiver<News>) {
        let (send, commands) = mpsc::channel(4096);
        let (news, received) = mpsc::channel(4096);
        let (tracked, calls) = (HashMap::new(), JoinSet::new());
        let actor = Self { cloud, cluster, commands, news, tracked, calls, refusals };
        (actor, Instances { commands: send }, received)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let due = self.next_due();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(answer) = self.calls.join_next(), if !self.calls.is_empty() => {
                    // A panic in a call is a bug: it ends the process with its message.
                    self.take(answer?).await;
                }
                Some(command) = self.commands.recv() => self.command(command).await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.ask(),
                else => {
                    stop.cancelled().await;
                    return Ok(());
                }
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        if self.calls.len() >= CALLS_AT_ONCE {
            return None;
        }
        self.tracked
            .values()
            .filter(|tracked| !tracked.asked && tracked.known != Instance::Gone)
            .map(|t| t.due)
            .min()
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::ForgetAll => self.tracked.clear(),
            Command::Forget(subject) => {
                self.tracked.remove(&subject);
            }
            Command::Want { subject, wish, claim } => {
                let now = Instant::now();
                let tracked = self.tracked.entry(subject.clone()).or_insert_with(|| Tracked {
                    wish,
                    known: Instance::Unasked,
                    seen: false,
                    misses: 0,
                    polls: 0,
                    failures: 0,
                    due: now + GATHER,
                    asked: false,
                    claims: BTreeSet::new(),
                });
                tracked.claims.extend(claim);
                if wish > tracked.wish {
                    tracked.wish = wish;
                    tracked.due = now + GATHER;
                }
                let known = match &tracked.known {
                    Instance::Unasked => Instance::Asking(None),
                    // It exists, and the wish to end it is on its way.
                    Instance::Running if tracked.wish == Wish::End => Instance::Asking(None),
                    known => known.clone(),
                };
                tracked.known = known.clone();
                self.tell(subject, known).await;
            }
        }
    }

    /// Starts the calls for everything that is due.
    fn ask(&mut self) {
        // Whatever is due very soon goes with the same call.
        let horizon = Instant::now() + GATHER;
        let (mut ids, mut names) = (BTreeMap::new(), Vec::new());
        for (subject, tracked) in &mut self.tracked {
            if tracked.asked || tracked.known == Instance::Gone || tracked.due > horizon {
                continue;
            }
            match subject {
                Subject::Id(_) if ids.len() >= BATCH * CALLS_AT_ONCE => continue,
                Subject::Id(id) => drop(ids.insert(id.to_string(), subject.clone())),
                Subject::OfClaim(_) => names.push(subject.clone()),
            }
            tracked.asked = true;
        }
        let ids: Vec<(String, Subject)> = ids.into_iter().collect();
        for chunk in ids.chunks(BATCH) {
            let (asked_ids, asked): (Vec<String>, Vec<Subject>) = chunk.iter().cloned().unzip();
            let cloud = Arc::clone(&self.cloud);
            self.calls.spawn(async move {
                Answer::Described { asked, found: cloud.instances_by_id(asked_ids).await }
            });
        }
        if !names.is_empty() {
            let (cloud, tags) = (Arc::clone(&self.cloud), ours(&self.cluster));
            self.calls.spawn(async move {
                Answer::Described { asked: names, found: cloud.instances_by_tags(tags).await }
            });
        }
    }

    async fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Described { asked, found: Err(error) } => {
                warn!(%error, instances = asked.len(), "EC2 did not say how instances are; asking again");
                for subject in asked {
                    self.failed(subject, &error).await;
                }
            }
            Answer::Described { asked, found: Ok(found) } => self.described(asked, found).await,
            Answer::Ended(results) => {
                for (subject, zone, result) in results {
                    self.ended(subject, &zone, result).await;
                }
            }
        }
    }

    async fn described(&mut self, asked: Vec<Subject>, found: Vec<Ec2Instance>) {
        let by_id: HashMap<&str, &Ec2Instance> = found.iter().map(|i| (i.id.as_str(), i)).collect();
        let by_claim: HashMap<&str, &Ec2Instance> =
            found.iter().filter_map(|i| Some((i.tags.get(NODECLAIM_TAG)?.as_str(), i))).collect();
        let mut to_end = Vec::new();
        for subject in asked {
            let instance = match &subject {
                Subject::Id(id) => by_id.get(&**id),
                Subject::OfClaim(name) => by_claim.get(&**name),
            };
            let Some(tracked) = self.tracked.get_mut(&subject) else { continue };
            tracked.asked = false;
            tracked.failures = 0;
            let known = match instance {
                None => {
                    tracked.misses += 1;
                    if tracked.seen || tracked.misses >= 2 {
                        Instance::Gone
                    } else {
                        tracked.due = Instant::now() + SECOND_LOOK;
                        Instance::Asking(None)
                    }
                }
                Some(instance) => {
                    (tracked.seen, tracked.misses) = (true, 0);
                    tracked.due = Instant::now() + tracked.poll_interval();
                    let mut claims = tracked.claims.iter();
                    let is_ours = instance.belongs_to(&self.cluster)
                        || claims.any(|claim| instance.belongs_to_claim(&self.cluster, claim));
                    if !is_ours {
                        Instance::Untouchable(not_ours(instance, &self.cluster))
                    } else if instance.state.is_ending() {
                        Instance::Ending
                    } else if tracked.wish == Wish::End {
                        tracked.asked = true;
                        to_end.push((instance.id.clone(), (subject.clone(), Zone::of(instance))));
                        continue;
                    } else {
                        Instance::Running
                    }
                }
            };
            self.learn(subject, known).await;
        }
        if to_end.is_empty() {
            return;
        }
        let cloud = Arc::clone(&self.cloud);
        self.calls.spawn(async move {
            let mut told: HashMap<String, (Subject, Zone)> = to_end.into_iter().collect();
            let results = cloud.terminate(told.keys().cloned().collect()).await;
            let known = results.into_iter().filter_map(|(id, result)| {
                let (subject, zone) = told.remove(&id)?;
                Some((subject, zone, result))
            });
            Answer::Ended(known.collect())
        });
    }

    async fn ended(&mut self, subject: Subject, zone: &Zone, result: Result<InstanceState, CloudError>) {
        match result {
            Ok(state) => {
                info!(instance = %subject.shown(), state = state.as_str(), "terminating instance");
                let Some(tracked) = self.tracked.get_mut(&subject) else { return };
                (tracked.asked, tracked.failures) = (false, 0);
                tracked.due = Instant::now() + tracked.poll_interval();
                let known =
                    if state == InstanceState::Terminated { Instance::Gone } else { Instance::Ending };
                self.learn(subject, known).await;
            }
            // A describe decides whether it is gone.
            Err(error) if error.kind == ErrorKind::NotFound => {
                if let Some(tracked) = self.tracked.get_mut(&subject) {
                    tracked.asked = false;
                    tracked.due = Instant::now() + FIRST_POLL;
                }
            }
            Err(error) => {
                warn!(%error, instance = %subject.shown(), "EC2 did not end the instance; asking again");
                self.refusals.get_or_create(zone).inc();
                self.failed(subject, &error).await;
            }
        }
    }

    async fn failed(&mut self, subject: Subject, error: &CloudError) {
        let Some(tracked) = self.tracked.get_mut(&subject) else { return };
        tracked.asked = false;
        tracked.failures += 1;
        let doubled = FIRST_POLL.saturating_mul(1 << tracked.failures.min(5).saturating_sub(1));
        tracked.due = Instant::now() + doubled.min(SLOWEST_RETRY);
        // What EC2 said before still holds.
        if !matches!(tracked.known, Instance::Ending | Instance::Untouchable(_)) {
            self.learn(subject, Instance::Asking(Some(error.to_string()))).await;
        }
    }

    async fn learn(&mut self, subject: Subject, known: Instance) {
        let Some(tracked) = self.tracked.get_mut(&subject) else { return };
        if tracked.known != known {
            tracked.known = known.clone();
            self.tell(subject, known).await;
        }
    }

    /// The receiver ends only with the process.
    async fn tell(&self, subject: Subject, instance: Instance) {
        let _ = self.news.send(News { subject, instance }).await;
    }
}

impl Tracked {
    /// A second at first, then rarer: an instance takes half a minute to end, and thousands may at once.
    fn poll_interval(&mut self) -> Duration {
        self.polls += 1;
        (FIRST_POLL * self.polls).min(SLOWEST_POLL)
    }
}

impl Subject {
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::OfClaim(name) => name,
        }
    }
}

fn not_ours(instance: &Ec2Instance, cluster: &str) -> String {
    let missing = ours(cluster).into_iter().filter(|tag| !tag.matches(&instance.tags));
    let shown = |tag: cloud::select::TagFilter| match tag.value {
        Some(value) => format!("{}={value}", tag.key),
        None => tag.key,
    };
    let missing: Vec<String> = missing.map(shown).collect();
    format!(
        "instance {} does not carry the tags that prove it ours ({}) and is left alone: give it these tags, or end it \
         yourself and take the finalizer karpenter.sh/termination off",
        instance.id,
        missing.join(", ")
    )
}

#[cfg(test)]
#[path = "instances_tests.rs"]
pub(crate) mod tests;
