//! Everything the catalogue is made from, and how it is put together. No channel, no clock: what happened and when are
//! arguments, and the outcome is a [`Catalogue`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud::catalog::{Entry, ZonalShift};
use cloud::reservation::{Reservation, ReservationState};
use cloud::unavailable::{Scope, Unavailable};
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::{Catalogue, shared_with};
use crate::facts::{Listing, Refused, RegionFacts, Sold, accept};
use crate::feeds::Feed;
use crate::memory::{MemoryBook, Seen};
use crate::overlays::Overlay;
use crate::prices::{Origin, PriceBook, Remembered, Source};
use crate::unavailable_offerings::Ledger;

/// How long the first catalogue waits for prices and reservations that do not answer, once types are known.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(15);

/// What must have been looked at once before the catalogue counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Feed(Feed),
    StoredTypes,
    StoredPrices,
    StoredMarks,
    StoredMemory,
    Overlays,
}

impl Part {
    /// For people who ask why a replica is not ready.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Feed(feed) => feed.as_str(),
            Self::StoredTypes => "stored types",
            Self::StoredPrices => "stored prices",
            Self::StoredMarks => "stored unavailable offerings",
            Self::StoredMemory => "stored memory",
            Self::Overlays => "overlays",
        }
    }
}

pub(crate) struct State {
    region: Arc<str>,
    facts: Option<RegionFacts>,
    facts_since: Option<Timestamp>,
    pub(crate) prices: PriceBook,
    ledger: Ledger,
    memory: MemoryBook,
    reservations: Vec<Reservation>,
    shifts: Vec<ZonalShift>,
    overlays: Arc<Vec<Overlay>>,
    awaited: BTreeSet<Part>,
    last: Option<Arc<Catalogue>>,
    entries_changed: bool,
}

impl State {
    /// `awaited` is everything that the first catalogue waits for.
    pub(crate) fn new(region: &str, awaited: BTreeSet<Part>) -> Self {
        Self {
            region: Arc::from(region),
            facts: None,
            facts_since: None,
            prices: PriceBook::new(region),
            ledger: Ledger::default(),
            memory: MemoryBook::default(),
            reservations: Vec::new(),
            shifts: Vec::new(),
            overlays: Arc::default(),
            awaited,
            last: None,
            entries_changed: false,
        }
    }

    /// A part was looked at, with whatever result.
    pub(crate) fn looked_at(&mut self, part: Part) {
        self.awaited.remove(&part);
    }

    /// Takes an answer about types, unless it cannot be believed. Returns how many entries made no sense.
    pub(crate) fn take_facts(&mut self, answer: Listing, now: Timestamp) -> Result<usize, Refused> {
        let (facts, left_out) = accept(self.facts.as_ref(), answer)?;
        self.entries_changed |= self.facts.as_ref() != Some(&facts);
        self.facts = Some(facts);
        self.facts_since.get_or_insert(now);
        Ok(left_out)
    }

    /// What an earlier life knew of types; it never replaces what EC2 has said since.
    pub(crate) fn recall_facts(&mut self, remembered: RegionFacts, now: Timestamp) {
        if self.facts.is_none() {
            self.facts = Some(remembered);
            self.facts_since.get_or_insert(now);
            self.entries_changed = true;
        }
    }

    pub(crate) fn facts(&self) -> Option<&RegionFacts> {
        self.facts.as_ref()
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Prices were changed through [`State::prices`].
    pub(crate) fn prices_changed(&mut self) {
        self.entries_changed = true;
    }

    pub(crate) fn recall_prices(&mut self, remembered: Remembered<'_>) {
        self.entries_changed |= self.prices.recall(remembered);
    }

    pub(crate) fn take_reservations(&mut self, reservations: Vec<Reservation>) {
        self.reservations = reservations;
    }

    pub(crate) fn take_shifts(&mut self, shifts: Vec<ZonalShift>) {
        self.shifts = shifts;
    }

    pub(crate) fn take_overlays(&mut self, overlays: Vec<Overlay>) {
        self.overlays = Arc::new(overlays);
    }

    pub(crate) fn report(
        &mut self,
        scopes: Vec<(Scope, String)>,
        asked: Option<SignedDuration>,
        now: Timestamp,
    ) -> Vec<Unavailable> {
        scopes.into_iter().map(|(scope, reason)| self.ledger.report(scope, &reason, asked, now)).collect()
    }

    pub(crate) fn merge_marks(&mut self, stored: BTreeMap<String, Unavailable>, now: Timestamp) {
        self.ledger.merge(stored, now);
    }

    pub(crate) fn merge_memory(&mut self, stored: BTreeMap<(String, String), Seen>, now: Timestamp) {
        self.memory.merge(stored, now);
    }

    pub(crate) fn observe_memory(
        &mut self,
        key: (String, String),
        bytes: u64,
        now: Timestamp,
    ) -> Option<Seen> {
        self.memory.observe(key, bytes, now)
    }

    /// Keys of marks and of memory that are over for good.
    pub(crate) fn forget(&mut self, now: Timestamp) -> (Vec<String>, Vec<(String, String)>) {
        (self.ledger.forget(now), self.memory.forget(now))
    }

    /// When something changes by itself: a mark, a shift or a reservation ends, or patience does.
    pub(crate) fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let shifts = self.shifts.iter().map(|s| s.expires).filter(|at| *at > now);
        let ends = self.reservations.iter().filter_map(|r| r.end);
        let expiring = ends.flat_map(|end| [end, end - cloud::reservation::EXPIRING_BEFORE_END]);
        let patience = self.facts_since.filter(|_| self.last.is_none()).map(|since| since + PATIENCE);
        let all = self.ledger.next_end(now).into_iter().chain(shifts).chain(expiring).chain(patience);
        all.filter(|at| *at > now).min()
    }

    /// What the first catalogue still waits for; empty when it is complete.
    pub(crate) fn missing(&self, now: Timestamp) -> Vec<Part> {
        let patient = self.facts_since.is_none_or(|since| now < since + PATIENCE);
        let counts = |part: &Part| match part {
            Part::Feed(Feed::InstanceTypes) => self.facts.is_none(),
            // Prices of an earlier life are good enough to begin with; what was paid for must be known exactly.
            Part::Feed(Feed::OnDemandPrices) => patient && !self.prices.on_demand_source.is_known(),
            Part::Feed(Feed::SpotPrices) => patient && !self.prices.spot_source.is_known(),
            Part::Feed(Feed::Reservations | Feed::ZonalShifts) => patient,
            // Without these, marks in force would be offered again: they are waited for however long it takes.
            Part::StoredTypes
            | Part::StoredPrices
            | Part::StoredMarks
            | Part::StoredMemory
            | Part::Overlays => true,
        };
        let facts = self.facts.is_none().then_some(Part::Feed(Feed::InstanceTypes));
        facts.into_iter().chain(self.awaited.iter().copied().filter(counts)).collect()
    }

    /// What is used while a feed cannot be read, for people.
    pub(crate) fn instead_of(&self, feed: Feed) -> String {
        let priced = |source: &Source| match (source.origin, source.as_of) {
            (Origin::Nothing, _) => "no spot capacity is offered, on-demand only".to_owned(),
            (Origin::BuiltIn, _) => "prices are estimates of the built-in table".to_owned(),
            (Origin::Api | Origin::ConfigMap, Some(at)) => format!("prices are those of {at:.0}"),
            (Origin::Api | Origin::ConfigMap, None) => "prices are those last read".to_owned(),
        };
        match feed {
            Feed::OnDemandPrices => priced(&self.prices.on_demand_source),
            Feed::SpotPrices => priced(&self.prices.spot_source),
            Feed::InstanceTypes if self.facts.is_none() => "none are known yet".to_owned(),
            Feed::InstanceTypes | Feed::Reservations | Feed::ZonalShifts => {
                "the last good answer is kept".to_owned()
            }
        }
    }

    /// The catalogue as of now; `None` while more is missing than the overlays, which are judged on this. Equal parts are
    /// shared with the one before.
    pub(crate) fn assemble(&mut self, now: Timestamp) -> Option<Arc<Catalogue>> {
        if self.last.is_none() && self.missing(now).iter().any(|part| *part != Part::Overlays) {
            return None;
        }
        let facts = self.facts.as_ref()?;
        let shifted = |id: &str| self.shifts.iter().any(|s| s.zone_id == id && s.expires > now);
        let mut zones = facts.zones.clone();
        for zone in &mut zones {
            zone.shifted = shifted(&zone.id);
        }
        let held = self.reservations.iter().filter(|r| !r.has_ended(now));
        let reservations: Vec<(Reservation, ReservationState)> =
            held.map(|r| (r.clone(), r.state(now))).collect();
        let (marks, learned) = (self.ledger.in_force(now), self.memory.believed(now));
        let entries = match &self.last {
            Some(last) if !self.entries_changed => Arc::clone(&last.entries),
            last => {
                let old = last.as_ref().map_or(&[][..], |last| last.entries.as_slice());
                Arc::new(shared_with(old, self.entries(facts)))
            }
        };
        self.entries_changed = false;
        let last = self.last.as_deref();
        let catalogue = Arc::new(Catalogue {
            region: Arc::clone(&self.region),
            zones: kept(last.map(|l| &l.zones), zones),
            entries,
            marks: kept(last.map(|l| &l.marks), marks),
            reservations: kept(last.map(|l| &l.reservations), reservations),
            overlays: Arc::clone(&self.overlays),
            learned: kept(last.map(|l| &l.learned), learned),
        });
        self.last = Some(Arc::clone(&catalogue));
        Some(catalogue)
    }

    fn entries(&self, facts: &RegionFacts) -> Vec<Entry> {
        let names: Vec<&str> = facts.zones.iter().map(|z| z.name.as_str()).collect();
        let entry = |sold: &Sold| Entry {
            facts: Arc::clone(&sold.facts),
            zones: sold.zones.clone(),
            on_demand: self.prices.on_demand(&sold.facts),
            spot: self.prices.spot(&sold.facts, &names),
        };
        facts.types.iter().map(entry).collect()
    }
}

/// The old value when the new one equals it, so that readers see at a glance that nothing changed.
fn kept<T: PartialEq>(old: Option<&Arc<T>>, new: T) -> Arc<T> {
    match old {
        Some(old) if **old == new => Arc::clone(old),
        _ => Arc::new(new),
    }
}
