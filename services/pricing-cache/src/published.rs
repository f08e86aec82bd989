//! The catalogue as subscribers see it: numbered versions, the newest at hand, a few older ones to resume from.
//!
//! Nothing is queued for anybody. A subscriber that is slow simply finds a newer version when it is ready for one, and is
//! told the difference to what it had; when that is not known any more, or cannot be told, it gets everything. What is told is
//! written once for each version and shared by all who are told it: five hundred subscribers hold the same bytes.

use std::sync::{Arc, OnceLock};

use futures::Stream;
use prost::bytes::Bytes;
use proto::pricingcache::v1::CatalogDelta;
use tokio::sync::watch;

use crate::catalogue::Catalogue;
use crate::prices::Source;
use crate::wire::{self, Numbered};

/// Versions that a client which lost its stream can resume from. Versions share what they have in common, so that this
/// costs little.
const REMEMBERED: usize = 32;

/// The newest version; `None` until the catalogue is complete.
pub(crate) type Latest = watch::Receiver<Option<Arc<Published>>>;

pub(crate) struct Published {
    pub(crate) epoch: Arc<str>,
    pub(crate) version: u64,
    pub(crate) catalogue: Arc<Catalogue>,
    /// Where prices come from; no part of what is streamed.
    pub(crate) on_demand_source: Source,
    pub(crate) spot_source: Source,
    /// Older versions, newest first.
    past: Vec<(u64, Arc<Catalogue>)>,
    /// Made when first asked for.
    snapshot: OnceLock<Bytes>,
    /// From the version before to this; nothing where a difference cannot be told.
    step: OnceLock<Option<Bytes>>,
}

impl Published {
    pub(crate) fn first(epoch: Arc<str>, catalogue: Arc<Catalogue>, on_demand: Source, spot: Source) -> Self {
        Self {
            epoch,
            version: 1,
            catalogue,
            on_demand_source: on_demand,
            spot_source: spot,
            past: Vec::new(),
            snapshot: OnceLock::new(),
            step: OnceLock::new(),
        }
    }

    pub(crate) fn next(&self, catalogue: Arc<Catalogue>, on_demand: Source, spot: Source) -> Self {
        let mut past = Vec::with_capacity(REMEMBERED);
        past.push((self.version, Arc::clone(&self.catalogue)));
        past.extend(self.past.iter().take(REMEMBERED - 1).cloned());
        let version = self.version + 1;
        Self { version, past, ..Self::first(Arc::clone(&self.epoch), catalogue, on_demand, spot) }
    }

    /// The same version, with other words about its sources.
    pub(crate) fn with_sources(&self, on_demand: Source, spot: Source) -> Self {
        let (version, past) = (self.version, self.past.clone());
        Self {
            version,
            past,
            ..Self::first(Arc::clone(&self.epoch), Arc::clone(&self.catalogue), on_demand, spot)
        }
    }

    fn snapshot(&self) -> Bytes {
        self.snapshot.get_or_init(|| wire::framed_snapshot(self.numbered(), &self.catalogue)).clone()
    }

    /// What a subscriber with version `seen`, which was `had`, must be told.
    fn since(&self, seen: u64, had: &Arc<Catalogue>) -> Bytes {
        let step = if seen + 1 == self.version {
            self.step.get_or_init(|| self.difference(had)).clone()
        } else {
            self.difference(had)
        };
        step.unwrap_or_else(|| self.snapshot())
    }

    fn difference(&self, had: &Catalogue) -> Option<Bytes> {
        let delta = had.is_comparable(&self.catalogue).then(|| wire::delta(had, &self.catalogue))?;
        Some(wire::framed_delta(self.numbered(), delta))
    }

    fn numbered(&self) -> Numbered<'_> {
        Numbered { epoch: &self.epoch, version: self.version }
    }

    fn remembered(&self, epoch: &str, version: u64) -> Option<Arc<Catalogue>> {
        if *self.epoch != *epoch {
            return None;
        }
        if version == self.version {
            return Some(Arc::clone(&self.catalogue));
        }
        self.past.iter().find(|(v, _)| *v == version).map(|(_, catalogue)| Arc::clone(catalogue))
    }
}

/// Whether a delta says anything.
pub(crate) fn is_empty(delta: &CatalogDelta) -> bool {
    *delta == CatalogDelta::default()
}

/// Updates for one subscriber as they go over the wire, from the version it has (if any) on. Ends when the owner of the
/// catalogue is gone.
pub(crate) fn follow(latest: Latest, epoch: String, version: u64) -> impl Stream<Item = Bytes> + Send {
    struct State {
        latest: Latest,
        has: Option<(u64, Arc<Catalogue>)>,
        /// What a reconnecting client says it has, until it was looked up.
        claims: Option<(String, u64)>,
    }
    let claims = (!epoch.is_empty()).then_some((epoch, version));
    futures::stream::unfold(State { latest, has: None, claims }, |mut state| async move {
        loop {
            let newest = state.latest.borrow_and_update().clone();
            if let Some(published) = newest {
                if let Some((epoch, version)) = state.claims.take() {
                    state.has = published.remembered(&epoch, version).map(|had| (version, had));
                }
                let update = match &state.has {
                    Some((seen, _)) if *seen == published.version => None,
                    Some((seen, had)) => Some(published.since(*seen, had)),
                    None => Some(published.snapshot()),
                };
                if let Some(update) = update {
                    state.has = Some((published.version, Arc::clone(&published.catalogue)));
                    return Some((update, state));
                }
            }
            if state.latest.changed().await.is_err() {
                return None;
            }
        }
    })
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod tests;
