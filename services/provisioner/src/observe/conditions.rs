//! Conditions of one kind of object over time: which there are, since when, how often they changed, how long they stayed as
//! they were, and how long objects take to end. Also under the names without the kind, which older boards have.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::Resource;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use runtime::watch::{Change, Index};
use runtime::{Leadership, Metrics};

use super::gauges;

/// A condition as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) since: Timestamp,
}

/// An object with conditions.
pub(crate) trait Conditioned: Resource<DynamicType = ()> + Send + Sync + 'static {
    /// In the names of metrics.
    const WORD: &'static str;
    /// Seconds.
    const BUCKETS: fn() -> Histogram;
    fn seen(&self) -> Vec<Seen>;
    /// Labels beyond name, type, status and reason.
    fn extras(&self) -> Vec<(&'static str, String)>;
}

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

#[derive(Clone)]
struct Families {
    transitions: Family<Labels, Counter>,
    seconds: Histograms,
    ends: Histograms,
}

struct Object {
    uid: Option<String>,
    extras: Labels,
    seen: Vec<Seen>,
    ending_since: Option<Timestamp>,
}

type Key = (String, String);
type Table = Arc<Mutex<BTreeMap<Key, Object>>>;

/// Takes in one kind from its watch.
pub(crate) struct Tracker<K> {
    table: Table,
    own: Families,
    /// The same under the names without the kind.
    general: Families,
    /// Each change is counted by one replica.
    leadership: Leadership,
    kind: PhantomData<fn(K)>,
}

impl<K: Conditioned> Tracker<K> {
    /// `general` are shared by all kinds.
    pub(super) fn new(metrics: &Metrics, general: &General, gauges: bool) -> Self {
        let word = K::WORD;
        let own = Families::new(metrics, &format!("operator_{word}"), K::BUCKETS);
        let table = Table::default();
        if gauges {
            let (group, kind) = (K::group(&()).into_owned(), K::kind(&()).into_owned());
            general.tables.lock().unwrap_or_else(PoisonError::into_inner).push((group, kind, table.clone()));
            metrics.register_collector(OfKind {
                word,
                table: table.clone(),
                leadership: general.leadership.clone(),
            });
        }
        Self {
            table,
            own,
            general: general.families.clone(),
            leadership: general.leadership.clone(),
            kind: PhantomData,
        }
    }

    fn put(&self, table: &mut BTreeMap<Key, Object>, object: &K) {
        let meta = object.meta();
        let new = Object {
            uid: meta.uid.clone(),
            extras: object.extras(),
            seen: object.seen(),
            ending_since: meta.deletion_timestamp.as_ref().map(|t| t.0),
        };
        let old = table.insert(key(object), new);
        let Some(new) = table.get(&key(object)) else { return };
        // Nothing is known of what an object went through before it was first seen.
        if let Some(old) = old.filter(|old| old.uid == new.uid && self.leadership.is_leader()) {
            self.compare(&old, new);
        }
    }

    fn compare(&self, old: &Object, new: &Object) {
        for now in &new.seen {
            let was = old.seen.iter().find(|c| c.type_ == now.type_);
            if was.is_some_and(|was| was.status == now.status) {
                continue;
            }
            let mut labels = vec![
                ("type", now.type_.clone()),
                ("status", now.status.clone()),
                ("reason", now.reason.clone()),
            ];
            labels.extend(new.extras.iter().cloned());
            self.own.transitions.get_or_create(&labels).inc();
            self.general.transitions.get_or_create(&general_labels::<K>(labels)).inc();
            if let Some(was) = was {
                let mut labels = vec![("type", now.type_.clone()), ("status", was.status.clone())];
                labels.extend(new.extras.iter().cloned());
                let took = seconds(was.since, now.since);
                self.own.seconds.get_or_create(&labels).observe(took);
                self.general.seconds.get_or_create(&general_labels::<K>(labels)).observe(took);
            }
        }
    }

    fn remove(&self, table: &mut BTreeMap<Key, Object>, key: &Key, now: Timestamp) {
        let Some(old) = table.remove(key) else { return };
        if let Some(since) = old.ending_since.filter(|_| self.leadership.is_leader()) {
            let took = seconds(since, now);
            self.own.ends.get_or_create(&old.extras).observe(took);
            self.general.ends.get_or_create(&general_labels::<K>(old.extras)).observe(took);
        }
    }
}

impl<K: Conditioned> Index<K> for Tracker<K> {
    async fn change(&mut self, change: Change<K>) {
        let table = Arc::clone(&self.table);
        let mut table = lock(&table);
        match change {
            Change::Applied(object) => self.put(&mut table, &object),
            Change::Deleted(object) => {
                self.put(&mut table, &object);
                self.remove(&mut table, &key(&*object), Timestamp::now());
            }
            Change::Reset(objects) => {
                let listed: std::collections::BTreeSet<Key> = objects.iter().map(|o| key(&**o)).collect();
                let gone: Vec<Key> = table.keys().filter(|k| !listed.contains(*k)).cloned().collect();
                gone.iter().for_each(|key| self.remove(&mut table, key, Timestamp::now()));
                objects.iter().for_each(|object| self.put(&mut table, object));
            }
        }
    }
}

/// What all kinds share.
pub(super) struct General {
    families: Families,
    tables: Tables,
    leadership: Leadership,
}

type Tables = Arc<Mutex<Vec<(String, String, Table)>>>;

impl General {
    pub(super) fn new(metrics: &Metrics, leadership: Leadership) -> Self {
        let families = Families::new(metrics, "operator", doubling);
        let tables = Tables::default();
        metrics.register_collector(OfAll { tables: tables.clone(), leadership: leadership.clone() });
        Self { families, tables, leadership }
    }
}

/// From half a second, doubling.
pub(super) fn doubling() -> Histogram {
    Histogram::new((0..15).map(|n| 0.5 * f64::from(1 << n)))
}

impl Families {
    fn new(metrics: &Metrics, prefix: &str, buckets: fn() -> Histogram) -> Self {
        let own = Self {
            transitions: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            ends: Family::new_with_constructor(buckets),
        };
        metrics.register(
            &format!("{prefix}_status_condition_transitions_total"),
            "Changes of a condition's status",
            own.transitions.clone(),
        );
        metrics.register(
            &format!("{prefix}_status_condition_transition_seconds"),
            "How long a condition had a status before it changed",
            own.seconds.clone(),
        );
        metrics.register(
            &format!("{prefix}_termination_duration_seconds"),
            "From the deletion of an object to its end",
            own.ends.clone(),
        );
        own
    }
}

fn general_labels<K: Conditioned>(mut labels: Labels) -> Labels {
    labels.push(("group", K::group(&()).into_owned()));
    labels.push(("kind", K::kind(&()).into_owned()));
    labels
}

fn key<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct OfKind {
    word: &'static str,
    table: Table,
    leadership: Leadership,
}

impl fmt::Debug for OfKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conditions of {}", self.word)
    }
}

impl Collector for OfKind {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let table = lock(&self.table);
        let of = [(None, &*table)];
        write(&mut encoder, &format!("operator_{}", self.word), &of)
    }
}

struct OfAll {
    tables: Tables,
    leadership: Leadership,
}

impl fmt::Debug for OfAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("conditions of all kinds")
    }
}

impl Collector for OfAll {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let tables = lock(&self.tables);
        let guards: Vec<_> = tables.iter().map(|(group, kind, table)| (group, kind, lock(table))).collect();
        let of: Vec<_> = guards
            .iter()
            .map(|(group, kind, table)| (Some((group.as_str(), kind.as_str())), &**table))
            .collect();
        write(&mut encoder, "operator", &of)
    }
}

type Of<'a> = (Option<(&'a str, &'a str)>, &'a BTreeMap<Key, Object>);

fn write(encoder: &mut DescriptorEncoder<'_>, prefix: &str, of: &[Of<'_>]) -> Result<(), fmt::Error> {
    let now = Timestamp::now();
    let each = || {
        of.iter().flat_map(|(kind, table)| {
            table.iter().flat_map(move |(key, object)| {
                object.seen.iter().map(move |seen| (labels(*kind, key, object, Some(seen)), seen))
            })
        })
    };
    gauges::write(
        encoder,
        &format!("{prefix}_status_condition_count"),
        "Conditions that there are, 1 each",
        each().map(|(labels, _)| (labels, 1.0)),
    )?;
    gauges::write(
        encoder,
        &format!("{prefix}_status_condition_current_status_seconds"),
        "How long a condition has had its status",
        each().map(|(labels, seen)| (labels, seconds(seen.since, now))),
    )?;
    let ending = of.iter().flat_map(|(kind, table)| {
        table.iter().filter_map(move |(key, object)| {
            Some((labels(*kind, key, object, None), seconds(object.ending_since?, now)))
        })
    });
    gauges::write(
        encoder,
        &format!("{prefix}_termination_current_time_seconds"),
        "How long objects have been on their way out",
        ending,
    )
}

fn labels<'a>(
    kind: Option<(&'a str, &'a str)>,
    (namespace, name): &'a Key,
    object: &'a Object,
    seen: Option<&'a Seen>,
) -> gauges::Labels<'a> {
    let mut labels: gauges::Labels<'a> = vec![("namespace", namespace), ("name", name)];
    if let Some(seen) = seen {
        labels.extend([("type", &*seen.type_), ("status", &*seen.status), ("reason", &*seen.reason)]);
    }
    labels.extend(object.extras.iter().map(|(key, value)| (*key, value.as_str())));
    if let Some((group, kind)) = kind {
        labels.extend([("group", group), ("kind", kind)]);
    }
    labels
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
