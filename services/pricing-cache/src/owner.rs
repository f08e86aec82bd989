//! The one task that owns the catalogue: it takes in what feeds, ConfigMaps, overlays and callers say, and publishes a new
//! version whenever that changes something.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud::unavailable::{Scope, Unavailable};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use runtime::readiness::{Check, Note, Readiness};
use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::catalogue::Catalogue;
use crate::feeds::{Answer, Feed, Outcome};
use crate::metrics::PricingMetrics;
use crate::overlays::Overlay;
use crate::published::{Latest, Published, is_empty};
use crate::state::{Part, State};
use crate::store::{self, Save};
use crate::wire;

const MAILBOX: usize = 256;
/// Messages taken in before the next version is published: a burst of reports makes one version, not hundreds.
const BATCH: usize = 128;
/// How often what is over for good is cleared away.
const SWEEP: Duration = Duration::from_mins(1);
/// Prices are stored at most this often; they are only for the next start.
const STORE_PRICES_EVERY: SignedDuration = SignedDuration::from_mins(10);

pub(crate) enum Message {
    Fetched(Outcome),
    StoredTypes(Change<ConfigMap>),
    StoredPrices(Change<ConfigMap>),
    StoredMarks(Change<ConfigMap>),
    StoredMemory(Change<ConfigMap>),
    Overlays {
        accepted: Vec<Overlay>,
        /// Answered when they are published.
        published: oneshot::Sender<()>,
    },
    /// A node of this type with these images reported so much memory.
    Memory {
        instance_type: String,
        images: String,
        bytes: u64,
    },
    Report {
        scopes: Vec<(Scope, String)>,
        hold: Option<SignedDuration>,
        reply: oneshot::Sender<Reported>,
    },
}

impl From<Outcome> for Message {
    fn from(outcome: Outcome) -> Self {
        Self::Fetched(outcome)
    }
}

/// Marks in force and published.
pub(crate) struct Reported {
    pub(crate) marks: Vec<Unavailable>,
    pub(crate) version: u64,
    /// Resolves when they are stored too.
    pub(crate) stored: oneshot::Receiver<()>,
}

/// Where texts go that outlive the process.
pub(crate) struct Stores {
    pub(crate) types: mpsc::Sender<Save>,
    pub(crate) prices: mpsc::Sender<Save>,
    pub(crate) marks: mpsc::Sender<Save>,
    pub(crate) memory: mpsc::Sender<Save>,
}

pub(crate) struct Owner {
    state: State,
    epoch: Arc<str>,
    mailbox: mpsc::Receiver<Message>,
    latest: watch::Sender<Option<Arc<Published>>>,
    /// The newest catalogue whether or not overlays were judged: they are judged on this.
    drafts: watch::Sender<Option<Arc<Catalogue>>>,
    stores: Stores,
    metrics: PricingMetrics,
    readiness: Readiness,
    complete: Check,
    failing: BTreeMap<Feed, Failing>,
    /// Fingerprint of the types that the ConfigMap holds.
    types_stored: Option<u64>,
    types_unstored: bool,
    prices_stored: Option<Timestamp>,
    prices_unstored: bool,
}

/// A feed that cannot be read.
struct Failing {
    error: String,
    since: Timestamp,
    /// For people who look at a replica that is ready nevertheless.
    note: Note,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct CatalogueHandle {
    mailbox: mpsc::Sender<Message>,
    latest: Latest,
    drafts: watch::Receiver<Option<Arc<Catalogue>>>,
}

impl CatalogueHandle {
    pub(crate) fn latest(&self) -> Option<Arc<Published>> {
        self.latest.borrow().clone()
    }

    pub(crate) fn subscribe(&self) -> Latest {
        self.latest.clone()
    }

    pub(crate) fn drafts(&self) -> watch::Receiver<Option<Arc<Catalogue>>> {
        self.drafts.clone()
    }

    pub(crate) fn mailbox(&self) -> mpsc::Sender<Message> {
        self.mailbox.clone()
    }

    /// `None` when the process is ending.
    pub(crate) async fn report(
        &self,
        scopes: Vec<(Scope, String)>,
        hold: Option<SignedDuration>,
    ) -> Option<Reported> {
        let (reply, reported) = oneshot::channel();
        self.mailbox.send(Message::Report { scopes, hold, reply }).await.ok()?;
        reported.await.ok()
    }
}

impl Owner {
    pub(crate) fn new(
        state: State,
        epoch: String,
        stores: Stores,
        metrics: PricingMetrics,
        readiness: Readiness,
    ) -> (Self, CatalogueHandle) {
        let complete = readiness.check("catalogue", "types, prices, marks and overlays");
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let (latest, seen) = watch::channel(None);
        let (drafts, draft) = watch::channel(None);
        let owner = Self {
            state,
            epoch: Arc::from(epoch),
            mailbox,
            latest,
            drafts,
            stores,
            metrics,
            readiness,
            complete,
            failing: BTreeMap::new(),
            types_stored: None,
            types_unstored: false,
            prices_stored: None,
            prices_unstored: false,
        };
        (owner, CatalogueHandle { mailbox: sender, latest: seen, drafts: draft })
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let change = self.next_change();
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                message = self.mailbox.recv() => message,
                () = tokio::time::sleep(change.unwrap_or(SWEEP)), if change.is_some() => None,
                _ = sweep.tick() => {
                    self.sweep().await;
                    None
                }
            };
            let mut replies = Vec::new();
            let more = std::iter::from_fn(|| self.mailbox.try_recv().ok()).take(BATCH);
            let batch: Vec<Message> = first.into_iter().chain(more).collect();
            for message in batch {
                replies.extend(self.take(message, Timestamp::now()).await);
            }
            let version = self.publish(Timestamp::now());
            for reply in replies {
                // A caller that went away does not mind.
                match reply {
                    Reply::Reported { to, marks, stored } => {
                        let _ = to.send(Reported { marks, version, stored });
                    }
                    Reply::Published(to) => {
                        let _ = to.send(());
                    }
                }
            }
            self.store_types().await;
            self.store_prices(Timestamp::now()).await;
        }
    }

    fn next_change(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let wait = self.state.next_change(now)?.duration_since(now);
        // Not before it is over, whatever is lost in rounding.
        Some(Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1))
    }

    async fn take(&mut self, message: Message, now: Timestamp) -> Option<Reply> {
        match message {
            Message::Fetched(outcome) => self.fetched(outcome),
            Message::StoredTypes(change) => {
                let data = data_of(change);
                self.types_stored = (!data.is_empty()).then(|| store::fingerprint(&data));
                match store::types_from(self.state.region(), &data) {
                    Some(facts) => self.state.recall_facts(facts, now),
                    None => self.malformed(store::TYPES, usize::from(!data.is_empty())),
                }
                self.state.looked_at(Part::StoredTypes);
            }
            Message::StoredPrices(change) => {
                let read = store::prices_from(&data_of(change));
                self.malformed(store::PRICES, read.malformed);
                self.state.recall_prices(read.found);
                self.state.looked_at(Part::StoredPrices);
            }
            Message::StoredMarks(change) => {
                let read = store::marks_from(&data_of(change));
                self.malformed(store::UNAVAILABLE, read.malformed);
                self.state.merge_marks(read.found, now);
                self.state.looked_at(Part::StoredMarks);
            }
            Message::StoredMemory(change) => {
                let read = store::memory_from(&data_of(change));
                self.malformed(store::MEMORY, read.malformed);
                self.state.merge_memory(read.found, now);
                self.state.looked_at(Part::StoredMemory);
            }
            Message::Overlays { accepted, published } => {
                self.state.take_overlays(accepted);
                self.state.looked_at(Part::Overlays);
                return Some(Reply::Published(published));
            }
            Message::Memory { instance_type, images, bytes } => {
                let key = (instance_type.clone(), images.clone());
                if let Some(seen) = self.state.observe_memory(key, bytes, now) {
                    info!(instance_type, bytes, "learned the memory of an instance type from a node");
                    let entry = (store::memory_key(&instance_type, &images), Some(store::memory_text(seen)));
                    save(&self.stores.memory, BTreeMap::from([entry]), None).await;
                }
            }
            Message::Report { scopes, hold, reply } => {
                let marks = self.state.report(scopes, hold, now);
                let texts =
                    marks.iter().map(|m| (store::store_key(&m.scope.key()), Some(store::mark_text(m))));
                let (done, stored) = oneshot::channel();
                save(&self.stores.marks, texts.collect(), Some(done)).await;
                return Some(Reply::Reported { to: reply, marks, stored });
            }
        }
        None
    }

    fn fetched(&mut self, Outcome { feed, at, took, answer, believed }: Outcome) {
        self.metrics.asked(feed, took, answer.as_ref().err());
        let refused = match answer {
            Ok(answer) => self.take_answer(answer, at).err(),
            Err(error) => {
                match feed {
                    Feed::OnDemandPrices => self.state.prices.on_demand_failed(&error, at),
                    Feed::SpotPrices => {
                        self.state.prices.spot_failed(&error, at);
                        self.state.prices_changed();
                    }
                    Feed::InstanceTypes | Feed::Reservations | Feed::ZonalShifts => {}
                }
                Some(error.to_string())
            }
        };
        // A feed that is ending does not mind.
        let _ = believed.send(refused.is_none());
        match refused {
            None => {
                self.metrics.succeeded(feed, at);
                if let Some(failing) = self.failing.remove(&feed) {
                    failing.note.clear();
                    info!(feed = feed.as_str(), "the feed can be read again");
                }
            }
            Some(error) => self.fails(feed, error, at),
        }
        self.state.looked_at(Part::Feed(feed));
    }

    fn fails(&mut self, feed: Feed, error: String, at: Timestamp) {
        let known = self.failing.remove(&feed);
        if known.as_ref().is_none_or(|known| known.error != error) {
            warn!(feed = feed.as_str(), error, "could not read the feed; the last good answer is kept");
        }
        let (since, note) = match known {
            Some(Failing { since, note, .. }) => (since, note),
            None => (at, self.readiness.note(feed.as_str())),
        };
        let instead = self.state.instead_of(feed);
        note.set(&format!("cannot be read since {since:.0}: {error}; {instead}"));
        self.failing.insert(feed, Failing { error, since, note });
    }

    fn take_answer(&mut self, answer: Answer, at: Timestamp) -> Result<(), String> {
        match answer {
            Answer::Facts(listing) => {
                let left_out = self.state.take_facts(listing, at).map_err(|refused| refused.to_string())?;
                self.metrics.left_out_types(left_out);
                self.types_unstored = true;
            }
            Answer::OnDemand(list) => {
                self.metrics.rejected(Feed::OnDemandPrices, &list.rejected);
                self.state.prices.read_on_demand(list, at);
                self.state.prices_changed();
                self.prices_unstored = true;
            }
            Answer::Spot(list) => {
                self.metrics.rejected(Feed::SpotPrices, &list.rejected);
                self.state.prices.read_spot(list, at);
                self.state.prices_changed();
                self.prices_unstored = true;
            }
            Answer::Reservations(reservations) => self.state.take_reservations(reservations),
            Answer::Shifts(shifts) => self.state.take_shifts(shifts),
        }
        Ok(())
    }

    fn malformed(&self, configmap: &'static str, entries: usize) {
        if entries > 0 {
            warn!(configmap, entries, "invalid entries are ignored");
            self.metrics.malformed(configmap, entries);
        }
    }

    /// Publishes if anything changed; returns the newest version, 0 while there is none.
    fn publish(&mut self, now: Timestamp) -> u64 {
        let assembled = self.state.assemble(now);
        if let Some(draft) = &assembled {
            self.drafts.send_replace(Some(Arc::clone(draft)));
        }
        let missing = self.state.missing(now);
        let Some(catalogue) = assembled.filter(|_| missing.is_empty()) else {
            let names: Vec<&str> = missing.iter().map(|part| part.as_str()).collect();
            self.complete.not_ready(&format!("waiting for {}", names.join(", ")));
            return 0;
        };
        let prices = &self.state.prices;
        let (on_demand, spot) = (prices.on_demand_source.clone(), prices.spot_source.clone());
        let last = self.latest.borrow().clone();
        let next = match last {
            None => {
                let types = catalogue.entries.len();
                let (from, spot_from) = (on_demand.origin.as_str(), spot.origin.as_str());
                info!(
                    types,
                    zones = catalogue.zones.len(),
                    on_demand = from,
                    spot = spot_from,
                    "catalogue is complete"
                );
                self.complete.ready();
                Some(Published::first(Arc::clone(&self.epoch), catalogue, on_demand, spot))
            }
            Some(last) => {
                let comparable = last.catalogue.is_comparable(&catalogue);
                let same = comparable && is_empty(&wire::delta(&last.catalogue, &catalogue));
                if !same {
                    Some(last.next(catalogue, on_demand, spot))
                } else if (&last.on_demand_source, &last.spot_source) != (&on_demand, &spot) {
                    Some(last.with_sources(on_demand, spot))
                } else {
                    None
                }
            }
        };
        if let Some(next) = next {
            self.metrics.published(&next);
            self.latest.send_replace(Some(Arc::new(next)));
        }
        self.latest.borrow().as_ref().map_or(0, |published| published.version)
    }

    /// Written only when EC2 says something else than what is stored, whoever stored it.
    async fn store_types(&mut self) {
        if !std::mem::take(&mut self.types_unstored) {
            return;
        }
        let Some(facts) = self.state.facts() else { return };
        let Some(texts) = store::types_text(self.state.region(), facts) else {
            warn!("too many instance types for a ConfigMap: the next start waits for EC2");
            return;
        };
        let fingerprint = store::fingerprint(&texts);
        if self.types_stored != Some(fingerprint) {
            let texts = texts.into_iter().map(|(key, text)| (key, Some(text))).collect();
            save(&self.stores.types, texts, None).await;
        }
    }

    async fn store_prices(&mut self, now: Timestamp) {
        let lately = self.prices_stored.is_some_and(|at| now.duration_since(at) < STORE_PRICES_EVERY);
        // Not before both were asked, so that a start with one of them failing does not store half.
        if !self.prices_unstored || lately || self.latest.borrow().is_none() {
            return;
        }
        if let Some(prices) = self.state.prices.to_remember() {
            let texts = store::prices_text(&prices).into_iter().map(|(key, text)| (key, Some(text)));
            save(&self.stores.prices, texts.collect(), None).await;
        }
        (self.prices_stored, self.prices_unstored) = (Some(now), false);
    }

    async fn sweep(&mut self) {
        let (marks, memory) = self.state.forget(Timestamp::now());
        let gone = |keys: Vec<String>| keys.into_iter().map(|key| (key, None)).collect::<BTreeMap<_, _>>();
        let marks = gone(marks.iter().map(|key| store::store_key(key)).collect());
        let memory = gone(memory.iter().map(|(name, images)| store::memory_key(name, images)).collect());
        save(&self.stores.marks, marks, None).await;
        save(&self.stores.memory, memory, None).await;
    }
}

/// Who waits for the version that a message makes.
enum Reply {
    Reported { to: oneshot::Sender<Reported>, marks: Vec<Unavailable>, stored: oneshot::Receiver<()> },
    Published(oneshot::Sender<()>),
}

/// The saver empties its mailbox even while it cannot write, so this does not wait for the API server.
async fn save(
    store: &mpsc::Sender<Save>,
    entries: BTreeMap<String, Option<String>>,
    done: Option<oneshot::Sender<()>>,
) {
    if !entries.is_empty() {
        let _ = store.send(Save { entries, done }).await;
    }
}

/// What the one ConfigMap holds after a change; nothing when it is gone.
fn data_of(change: Change<ConfigMap>) -> BTreeMap<String, String> {
    let map = match change {
        Change::Applied(map) => Some(map),
        Change::Deleted(_) => None,
        Change::Reset(maps) => maps.into_iter().next(),
    };
    map.and_then(|map| map.data.clone()).unwrap_or_default()
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
