//! One task per service: chooses the replicas to read from, reads their streams, and begins again after a pause that grows while
//! that fails.
//!
//! Of a service with a leader only the leader is read: what the others know is less, and two of them could tell two stories.
//! Where nobody leads any replica is read, and it is looked for a leader now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use runtime::Service;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::hub::Hub;
use super::picture::Event;
use super::shown::ServiceState;
use super::{Sources, streams};
use crate::connect::{Transport, explain};

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// While nobody leads, or not every replica is reached: a Lease is free for others after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Ends with what is returned.
pub(crate) fn all(sources: &Sources, hub: &Arc<Hub>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for service in Service::ALL {
        let source = Source {
            sources: sources.clone(),
            hub: Arc::clone(hub),
            service,
            is_live: AtomicBool::new(false),
        };
        tasks.spawn(again_and_again(source));
    }
    tasks
}

/// One service as it is followed.
pub(super) struct Source {
    sources: Sources,
    pub(super) hub: Arc<Hub>,
    service: Service,
    is_live: AtomicBool,
}

impl Source {
    fn say(&self, state: &'static str, detail: String) {
        let since = Timestamp::now().as_second();
        self.is_live.store(state == "live", Ordering::Relaxed);
        self.hub.take(Event::Service(self.service.as_str(), ServiceState { state, detail, since }));
    }

    /// What is shown is complete; `but` says what it lacks.
    pub(super) fn live(&self, but: &str) {
        self.say("live", but.to_owned());
    }
}

/// Why a service is not read any more.
#[derive(Debug)]
pub(super) enum Lost {
    /// This replica does not lead.
    NotLeading,
    /// Nothing is wrong: it is time to look for other replicas.
    LookAgain,
    Failed(anyhow::Error),
}

impl Lost {
    pub(super) fn ended() -> Self {
        Self::Failed(anyhow::anyhow!("the stream ended"))
    }

    /// The end of a stream that had begun.
    pub(super) fn later(status: Status) -> Self {
        Self::Failed(explain(&status))
    }
}

impl From<anyhow::Error> for Lost {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// The answer to a call that should begin a stream.
impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::FailedPrecondition
                if runtime::grpc::errors::reason(&status).as_deref() == Some("NOT_LEADER") =>
            {
                Self::NotLeading
            }
            Code::Unimplemented => Self::Failed(anyhow::anyhow!(
                "this version of the service does not stream what this command shows; upgrade it"
            )),
            _ => Self::Failed(explain(&status)),
        }
    }
}

async fn again_and_again(source: Source) {
    let mut pause = SHORTEST_PAUSE;
    let mut lost_at: Option<Timestamp> = None;
    source.say("connecting", String::new());
    loop {
        let begun = Instant::now();
        let lost = follow(&source).await;
        if source.is_live.load(Ordering::Relaxed) {
            lost_at = None;
        }
        let why = match lost {
            Lost::LookAgain => continue,
            Lost::NotLeading => "the replica does not lead any more".to_owned(),
            Lost::Failed(error) => format!("{error:#}"),
        };
        if begun.elapsed() > LONGEST_PAUSE {
            pause = SHORTEST_PAUSE;
        }
        let since = clock(*lost_at.get_or_insert_with(Timestamp::now));
        let wait = jittered(pause);
        source
            .say("lost", format!("reconnecting since {since}: {why}; asking again in {} s", pause.as_secs()));
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The time of day here.
fn clock(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

/// Up to a quarter longer, so that many open pages do not ask at the same moment.
fn jittered(base: Duration) -> Duration {
    let mut byte = [0];
    // Without random bytes all wait equally long.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    base + base.mul_f64(f64::from(byte[0]) / 256.0 / 4.0)
}

async fn follow(source: &Source) -> Lost {
    let end = match source.service {
        Service::Provisioner => of_leader(source, streams::cluster).await,
        Service::Disruption => of_leader(source, streams::disruption).await,
        Service::Termination => of_leader(source, streams::drains).await,
        Service::InterruptionWatcher => of_all(source).await,
        Service::PricingCache => of_any(source).await,
    };
    match end {
        Err(lost) => lost,
        Ok(never) => match never {},
    }
}

pub(super) type Never = std::convert::Infallible;

/// Whose stream it is to be.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    Leader,
    /// Nobody leads, in these words.
    Anybody(String),
}

impl Whose {
    pub(super) fn is_leader(&self) -> bool {
        matches!(self, Self::Leader)
    }

    /// What the picture lacks.
    pub(super) fn but(&self) -> &str {
        match self {
            Self::Leader => "",
            Self::Anybody(words) => words,
        }
    }
}

/// Reads one replica's streams until they end.
type Read = for<'a> fn(&'a Source, Transport, Whose) -> BoxFuture<'a, Result<Never, Lost>>;

async fn of_leader(source: &Source, read: Read) -> Result<Never, Lost> {
    let Source { sources, service, .. } = source;
    let connection = sources.connection_to(*service);
    let mut opening = connection.opening_each(*service, sources.address_of(*service)).await?;
    let only_one = opening.len() == 1;
    let (mut others, mut failed) = (Vec::new(), Vec::new());
    while let Some((name, outcome)) = opening.next().await {
        match outcome {
            Ok(transport) => match read(source, transport.clone(), Whose::Leader).await {
                Err(Lost::NotLeading) => others.push((name, transport)),
                end => return end,
            },
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    let Some((name, transport)) = others.into_iter().next() else { return Err(unreachable_all(&failed)) };
    let whose = Whose::Anybody(format!("no replica leads; shown is what the one {name} knows"));
    let reading = read(source, transport, whose);
    if only_one {
        return reading.await;
    }
    tokio::time::timeout(LOOK_AGAIN, reading).await.unwrap_or(Err(Lost::LookAgain))
}

/// Each replica handles warnings of its own: all of them together are the picture.
async fn of_all(source: &Source) -> Result<Never, Lost> {
    let Source { sources, service, .. } = source;
    let each = sources.connection_to(*service).open_each(*service, sources.address_of(*service)).await?;
    let (mut transports, mut failed) = (Vec::new(), Vec::new());
    for (name, outcome) in each {
        match outcome {
            Ok(transport) => transports.push(transport),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    if transports.is_empty() {
        return Err(unreachable_all(&failed));
    }
    if failed.is_empty() {
        return streams::interruptions(source, transports, "").await;
    }
    let but = format!("warnings that these replicas handled are missing: {}", failed.join("; "));
    let reading = streams::interruptions(source, transports, &but);
    tokio::time::timeout(LOOK_AGAIN, reading).await.unwrap_or(Err(Lost::LookAgain))
}

fn unreachable_all(failed: &[String]) -> Lost {
    Lost::Failed(anyhow::anyhow!("no replica can be reached: {}", failed.join("; ")))
}

/// All replicas answer alike.
async fn of_any(source: &Source) -> Result<Never, Lost> {
    streams::catalogue(source, source.sources.transport(source.service).await?).await
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
