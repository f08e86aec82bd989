//! The actor that combines the catalogue with every EC2NodeClass into the types that nodes of that class can be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodePool};
use cloud::derive::{self, NodeClass, Region};
use cloud::nodeclass::PlacementGroup;
use cloud::reservation::Reservation;
use cloud::unavailable::{Marks, Scope, Unavailable};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use model::catalog::InstanceType;
use model::price::MicroDollars;
use runtime::Check;
use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::class;
use super::facts::Facts;
use super::{Offer, Types};

/// A mark of our own holds at least until pricing-cache has answered with its own period.
const OWN_MARK: SignedDuration = SignedDuration::from_mins(3);
/// Changes come in bursts (spot prices, marks of one fleet answer); each derivation takes milliseconds.
const GATHER: Duration = Duration::from_millis(5);
const LOOK_AT_MARKS: Duration = Duration::from_secs(1);

pub(crate) enum Message {
    Facts(Arc<Facts>),
    Class(Change<EC2NodeClass>),
    Pool(Change<NodePool>),
    Unavailable {
        scopes: Vec<Scope>,
        reason: String,
        done: oneshot::Sender<()>,
    },
    /// Answered when everything sent before is part of the offer.
    Settle(oneshot::Sender<()>),
    /// What this replica found out about a class itself; `None`: the class is gone.
    Resolved {
        class: String,
        found: Option<ClassFacts>,
    },
}

impl From<Change<EC2NodeClass>> for Message {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self::Class(change)
    }
}

impl From<Change<NodePool>> for Message {
    fn from(change: Change<NodePool>) -> Self {
        Self::Pool(change)
    }
}

/// What no status of a class holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassFacts {
    pub(crate) group: Option<PlacementGroup>,
    /// Its reservations as EC2 described them to this replica, less what it launched since.
    pub(crate) reservations: Vec<Reservation>,
}

pub(super) struct Actor {
    pub(super) inbox: mpsc::Receiver<Message>,
    pub(super) latest: watch::Sender<Offer>,
    pub(super) settings: derive::Settings,
    pub(super) ready: Check,
    pub(super) state: State,
}

/// What an offer is derived from.
#[derive(Clone, Default)]
pub(super) struct State {
    facts: Arc<Facts>,
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
    resolved: BTreeMap<String, ClassFacts>,
    /// NodeOverlays apply by NodePool. `None` before the first list: until then nothing is offered, because a launch without
    /// its overlays would choose by other prices and sizes than the plan.
    pools: Option<BTreeMap<String, Arc<NodePool>>>,
    /// Reported here, perhaps not yet known to pricing-cache.
    own: BTreeMap<String, Unavailable>,
    version: u64,
}

impl Actor {
    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(LOOK_AT_MARKS);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(first) = self.inbox.recv() => {
                    let mut waiting = Vec::new();
                    let mut changed = self.state.take(first, &mut waiting);
                    if changed {
                        tokio::time::sleep(GATHER).await;
                    }
                    while let Ok(more) = self.inbox.try_recv() {
                        changed |= self.state.take(more, &mut waiting);
                    }
                    if changed {
                        self.publish().await?;
                    }
                    for done in waiting {
                        let _ = done.send(());
                    }
                }
                _ = tick.tick() => {
                    if self.state.drop_ended(Timestamp::now()) {
                        self.publish().await?;
                    }
                }
            }
        }
    }

    async fn publish(&mut self) -> anyhow::Result<()> {
        if self.state.facts.epoch.is_empty() || self.state.pools.is_none() {
            return Ok(());
        }
        self.state.version += 1;
        let (state, settings) = (self.state.clone(), self.settings.clone());
        let before = self.latest.borrow().clone();
        let derived =
            tokio::task::spawn_blocking(move || state.offer(&settings, &before, Timestamp::now())).await?;
        self.latest.send_replace(derived);
        self.ready.ready();
        Ok(())
    }
}

impl State {
    /// Says whether the offer may be another now. `waiting` are to be answered once it is published.
    fn take(&mut self, message: Message, waiting: &mut Vec<oneshot::Sender<()>>) -> bool {
        match message {
            Message::Facts(facts) => {
                // Once the cache shows a mark, its own period counts.
                self.own.retain(|key, _| !facts.marks.contains_key(key));
                self.facts = facts;
            }
            Message::Class(Change::Applied(class)) => {
                self.classes.insert(class.name_any(), class);
            }
            Message::Class(Change::Deleted(class)) => {
                let name = class.name_any();
                self.classes.remove(&name);
                self.resolved.remove(&name);
            }
            Message::Class(Change::Reset(classes)) => {
                self.classes = classes.into_iter().map(|class| (class.name_any(), class)).collect();
            }
            Message::Pool(change) => return self.take_pool(change),
            Message::Settle(done) => {
                waiting.push(done);
                return false;
            }
            Message::Unavailable { scopes, reason, done } => {
                let since = Timestamp::now();
                let until = since.checked_add(OWN_MARK).unwrap_or(Timestamp::MAX);
                for scope in scopes.into_iter().filter(|s| !s.is_everything()) {
                    let mark = Unavailable { scope, since, until, reason: reason.clone(), repeats: 1 };
                    self.own.insert(mark.scope.key(), mark);
                }
                waiting.push(done);
            }
            Message::Resolved { class, found } => {
                match found {
                    Some(found) => self.resolved.insert(class, found),
                    None => self.resolved.remove(&class),
                };
            }
        }
        true
    }

    /// A NodePool's status changes with each of its nodes; only its spec decides which overlays apply.
    fn take_pool(&mut self, change: Change<NodePool>) -> bool {
        let first = self.pools.is_none();
        let pools = self.pools.get_or_insert_default();
        let changed = match change {
            Change::Applied(pool) => {
                let before = pools.insert(pool.name_any(), Arc::clone(&pool));
                before.is_none_or(|before| before.spec != pool.spec)
            }
            Change::Deleted(pool) => pools.remove(&pool.name_any()).is_some(),
            Change::Reset(all) => {
                *pools = all.into_iter().map(|pool| (pool.name_any(), pool)).collect();
                true
            }
        };
        first || (changed && !self.facts.overlays.is_empty())
    }

    /// Marks end by themselves also while pricing-cache is away. Says whether any did.
    fn drop_ended(&mut self, now: Timestamp) -> bool {
        let before = self.own.len();
        self.own.retain(|_, mark| mark.until > now);
        let ended = self.facts.marks.values().any(|mark| mark.until <= now);
        if ended {
            Arc::make_mut(&mut self.facts).marks.retain(|_, mark| mark.until > now);
        }
        ended || self.own.len() < before
    }

    fn shifted(&self) -> BTreeMap<String, String> {
        let shifted = self.facts.zones.iter().filter(|zone| zone.shifted);
        shifted.map(|zone| (zone.name.clone(), zone.id.clone())).collect()
    }

    /// Classes that come to the same share one list, and a list that did not change stays the one that was there: the solver
    /// recognises both by identity.
    fn offer(&self, settings: &derive::Settings, before: &Offer, now: Timestamp) -> Offer {
        let marks: Marks =
            self.facts.marks.values().chain(self.own.values()).map(|m| m.scope.clone()).collect();
        let overlay_prices = overlay_prices(&self.facts);
        let mut made: Vec<(NodeClass, String, Arc<Vec<InstanceType>>)> = Vec::new();
        let mut types = Types::new();
        for (name, class) in &self.classes {
            let plain = class::plain(class, &self.facts.reservations, self.resolved.get(name));
            let images = image_hash(class);
            let known = made.iter().find(|(other, hash, _)| *other == plain && *hash == images);
            let list = match known {
                Some((_, _, list)) => Arc::clone(list),
                None => {
                    let none = BTreeMap::new();
                    let region = Region {
                        name: &self.facts.region,
                        zones: &self.facts.zones,
                        marks: &marks,
                        overlay_prices: &overlay_prices,
                        learned_memory: self.facts.learned.get(&images).unwrap_or(&none),
                        now,
                    };
                    let list = derive::instance_types(&self.facts.entries, &plain, &region, settings);
                    let same = before.types.get(name.as_str()).filter(|old| ***old == list);
                    let list = same.cloned().unwrap_or_else(|| Arc::new(list));
                    made.push((plain, images, Arc::clone(&list)));
                    list
                }
            };
            types.insert(Arc::from(name.as_str()), list);
        }
        let offer = Offer {
            version: self.version,
            catalog_version: self.facts.version,
            facts: Arc::clone(&self.facts),
            types: Arc::new(types),
            shifted: Arc::new(self.shifted()),
            overlaid: Arc::clone(&before.overlaid),
            ..Offer::default()
        };
        let overlays = super::overlays::read(&self.facts.overlays);
        offer.with_overlays(overlays, self.pools.as_ref().unwrap_or(&BTreeMap::new()))
    }
}

/// What nodes of a class could be if EC2 had everything: a type whose offerings are not available is one that the class cannot
/// use. `class` may be newer than any that was published.
pub(super) fn usable_types(
    facts: &Facts,
    class: &EC2NodeClass,
    group: Option<&PlacementGroup>,
    settings: &derive::Settings,
    now: Timestamp,
) -> Vec<InstanceType> {
    let found = ClassFacts { group: group.cloned(), reservations: Vec::new() };
    let plain = class::plain(class, &[], Some(&found));
    let mut zones = facts.zones.clone();
    zones.iter_mut().for_each(|zone| zone.shifted = false);
    let region = Region {
        name: &facts.region,
        zones: &zones,
        marks: &Marks::default(),
        overlay_prices: &overlay_prices(facts),
        learned_memory: &BTreeMap::new(),
        now,
    };
    derive::instance_types(&facts.entries, &plain, &region, settings)
}

/// Names the set of images of a class, as pricing-cache does for what nodes really reported.
fn image_hash(class: &EC2NodeClass) -> String {
    api::hash::images(class.status.as_ref().and_then(|s| s.amis.as_deref()).unwrap_or_default())
}

/// Absolute prices of overlays that name nothing but instance types: the only price a type without a public one can have.
fn overlay_prices(facts: &Facts) -> BTreeMap<String, MicroDollars> {
    let mut prices = BTreeMap::new();
    for overlay in facts.overlays.iter().rev().filter(|o| !o.price.is_empty()) {
        let [only] = &overlay.requirements[..] else { continue };
        let is_in = only.operator == i32::from(proto::types::v1::Operator::In);
        if only.key != model::labels::INSTANCE_TYPE || !is_in {
            continue;
        }
        match overlay.price.parse::<MicroDollars>() {
            Ok(price) => prices.extend(only.values.iter().map(|name| (name.clone(), price))),
            Err(error) => warn!(overlay = overlay.name, %error, "price of a NodeOverlay cannot be read"),
        }
    }
    prices
}
