//! One watch of one kind, feeding one index (or several: a pair of indexes is an index), for as long as the process lives.
//!
//! An index sees [`Change::Reset`] with everything at first and after every relist, and single changes in between, so it is
//! never half filled. An object that does not parse is left out, counted, and named in one warning; the others go on. When one
//! that an index may hold is updated to something that does not parse, or deleted in that state, there is no version of it to
//! hand on, and a full list without it follows. A lost connection or an expired resource version is made good here with jittered
//! backoff; the index keeps what it had.

mod parser;
mod version;

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use backon::BackoffBuilder as _;
use futures::StreamExt as _;
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, NamespaceResourceScope},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{Check, Metrics, log_format::chain, metrics::Kind};
use parser::Parser;

pub use version::Versioned;

/// Never longer than this between two tries: an API server that comes back is noticed within seconds.
const SLOWEST: Duration = Duration::from_secs(3);
const QUICKEST: Duration = Duration::from_millis(250);
const PAGE: u32 = 500;
/// The API server ends a watch after this many seconds, and one that has been silent for five seconds longer counts as broken and is opened
/// again: a connection that swallows packets blinds a service for little more than a minute. Bookmarks make reopening cheap.
const WATCH_SECONDS: u32 = 60;
/// After an object ceased to parse; long enough that many of them cost one list.
const LIST_AGAIN: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq)]
pub enum Change<K> {
    Applied(Arc<K>),
    Deleted(Arc<K>),
    /// All objects there are; what is not among them is gone.
    Reset(Vec<Arc<K>>),
}

impl<K> Change<K> {
    /// Whether this is all there is.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Reset(_))
    }
}

/// Makes changes of several kinds variants of one enum, for an actor that takes them all in one mailbox:
/// `changes_as!(Fact: Node(Node), Claim(NodeClaim))`.
#[macro_export]
macro_rules! changes_as {
    ($fact:ty: $($variant:ident($kind:ty)),+ $(,)?) => {
        $(impl From<$crate::watch::Change<$kind>> for $fact {
            fn from(change: $crate::watch::Change<$kind>) -> Self {
                Self::$variant(change)
            }
        })+
    };
}

/// The same without ever holding a whole list: for kinds of which a cluster has a hundred thousand.
#[derive(Clone, Debug, PartialEq)]
pub enum Streamed<K> {
    /// A full list begins. The index keeps what it has.
    Listing,
    /// From the list, or a change since.
    Applied(Arc<K>),
    Deleted(Arc<K>),
    /// The list is complete: what was not applied since [`Streamed::Listing`] is gone.
    Listed,
}

/// Takes the changes of one kind, in order. Must not block for long: the watch waits for it.
pub trait Index<K>: Send + 'static {
    fn change(&mut self, change: Change<K>) -> impl Future<Output = ()> + Send;
}

/// An actor's mailbox. When the actor is gone nobody is left to tell, and the process is ending anyway.
impl<K: Send + Sync + 'static, M: From<Change<K>> + Send + 'static> Index<K> for mpsc::Sender<M> {
    async fn change(&mut self, change: Change<K>) {
        let _ = self.send(change.into()).await;
    }
}

impl<K: Send + Sync + Clone + 'static, A: Index<K>, B: Index<K>> Index<K> for (A, B) {
    async fn change(&mut self, change: Change<K>) {
        self.0.change(change.clone()).await;
        self.1.change(change).await;
    }
}

impl<K: Send + Sync + Clone + 'static, A: Index<K>, B: Index<K>, C: Index<K>> Index<K> for (A, B, C) {
    async fn change(&mut self, change: Change<K>) {
        self.0.change(change.clone()).await;
        self.1.change(change.clone()).await;
        self.2.change(change).await;
    }
}

/// What to watch.
#[derive(Clone)]
pub struct Watch<K> {
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    slim: fn(&mut K),
}

impl<K: Resource<DynamicType = ()>> Watch<K> {
    /// Every object of the kind, in all namespaces.
    pub fn all(client: Client) -> Self {
        Self::of(Api::all(client))
    }

    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::of(Api::namespaced(client, namespace))
    }

    fn of(api: Api<DeserializeGuard<K>>) -> Self {
        Self { api, config: watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS), slim: |_| {} }
    }

    /// Takes off what nobody reads from each object as soon as it is parsed, so that no list holds it.
    #[must_use]
    pub fn slimmed(mut self, slim: fn(&mut K)) -> Self {
        self.slim = slim;
        self
    }

    /// One object by name, present or not.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.fields(&format!("metadata.name={name}"))
    }

    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }

    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }
}

impl<K> Watch<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Runs until `stop`. `synced` becomes ready after the first full list.
    pub async fn run(
        self,
        index: impl Index<K>,
        metrics: Metrics,
        synced: Check,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let intake = Intake { parser: Parser::new(&metrics, self.slim), listed: Vec::new() };
        self.follow(Collecting { intake, index }, metrics, synced, stop).await
    }

    /// As [`Watch::run`], object by object into a mailbox.
    pub async fn run_streamed<M: From<Streamed<K>> + Send + 'static>(
        self,
        mailbox: mpsc::Sender<M>,
        metrics: Metrics,
        synced: Check,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let parser = Parser::new(&metrics, self.slim);
        self.follow(Streaming { parser, mailbox }, metrics, synced, stop).await
    }

    async fn follow(
        self,
        mut taker: impl Take<K>,
        metrics: Metrics,
        synced: Check,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let kind = K::kind(&()).into_owned();
        let open = || watcher::watcher(self.api.clone(), self.config.clone()).boxed();
        let mut stream = open();
        let mut failing: Option<BackoffIter> = None;
        let mut list_again: Option<Instant> = None;
        loop {
            let due = list_again.unwrap_or_else(Instant::now);
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(due), if list_again.is_some() => {
                    (stream, list_again) = (open(), None);
                    continue;
                }
                event = stream.next() => event,
            };
            match event {
                Some(Ok(event)) => {
                    let complete = matches!(event, Event::InitDone);
                    // The beginning of a list is announced before anything was asked, and proves nothing.
                    if !matches!(event, Event::Init) && failing.take().is_some() {
                        info!(kind, "watch works again");
                    }
                    if taker.take(event).await {
                        list_again.get_or_insert_with(|| Instant::now() + LIST_AGAIN);
                    }
                    if complete {
                        synced.ready();
                    }
                }
                Some(Err(error)) => {
                    metrics.watch_errors.get_or_create(&Kind { kind: kind.clone() }).inc();
                    // One warning an outage; a minute without API server must not fill the log.
                    match &failing {
                        None => {
                            warn!(kind, error = chain(&error), "watch failed, trying again until it works")
                        }
                        Some(_) => debug!(kind, error = chain(&error), "watch still fails"),
                    }
                    let pause = failing.get_or_insert_with(backoff).next().unwrap_or(SLOWEST);
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        // The watcher asks again only when it is polled again.
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                None => anyhow::bail!("the watch of {kind} ended by itself"),
            }
        }
    }
}

type BackoffIter = backon::ExponentialBackoff;

/// The library's jitter adds up to the delay itself.
fn backoff() -> BackoffIter {
    let builder = backon::ExponentialBuilder::default().with_min_delay(QUICKEST).with_max_delay(SLOWEST / 2);
    builder.with_factor(2.0).without_max_times().with_jitter().build()
}

/// What becomes of raw events.
trait Take<K>: Send {
    /// Whether an index may now hold an object as it no longer is, which only a full list puts right.
    fn take(&mut self, event: Event<DeserializeGuard<K>>) -> impl Future<Output = bool> + Send;
}

struct Collecting<K, I> {
    intake: Intake<K>,
    index: I,
}

impl<K, I> Take<K> for Collecting<K, I>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    I: Index<K>,
{
    async fn take(&mut self, event: Event<DeserializeGuard<K>>) -> bool {
        if let Some(change) = self.intake.take(event) {
            self.index.change(change).await;
        }
        std::mem::take(&mut self.intake.parser.outdated)
    }
}

struct Streaming<K, M> {
    parser: Parser<K>,
    mailbox: mpsc::Sender<M>,
}

impl<K, M> Take<K> for Streaming<K, M>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    M: From<Streamed<K>> + Send + 'static,
{
    async fn take(&mut self, event: Event<DeserializeGuard<K>>) -> bool {
        let change = match event {
            Event::Init => Some(Streamed::Listing),
            Event::InitApply(object) => self.parser.listed(object).map(Streamed::Applied),
            Event::Apply(object) => self.parser.applied(object).map(Streamed::Applied),
            Event::InitDone => Some(Streamed::Listed),
            Event::Delete(object) => self.parser.deleted(object).map(Streamed::Deleted),
        };
        if let Some(change) = change {
            // When the actor is gone the process is ending.
            let _ = self.mailbox.send(change.into()).await;
        }
        std::mem::take(&mut self.parser.outdated)
    }
}

/// From raw events to changes: collects lists.
struct Intake<K> {
    parser: Parser<K>,
    listed: Vec<Arc<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone> Intake<K> {
    fn take(&mut self, event: Event<DeserializeGuard<K>>) -> Option<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                None
            }
            Event::InitApply(object) => {
                if let Some(object) = self.parser.listed(object) {
                    self.listed.push(object);
                }
                None
            }
            Event::InitDone => Some(Change::Reset(std::mem::take(&mut self.listed))),
            Event::Apply(object) => self.parser.applied(object).map(Change::Applied),
            Event::Delete(object) => self.parser.deleted(object).map(Change::Deleted),
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
