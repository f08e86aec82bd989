//! What a shadow did not store, kept for people who ask: a bounded list in memory, the same write again and again as one entry.
//! Beside it, NodeClaims that really came and went meanwhile.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fmt,
    hash::{Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::outcome::Seen;

/// Entries that are kept of each kind, statuses and others, so that the conditions of thousands of objects push out no decision. When
/// there are more, the oldest quarter goes.
const MOST: usize = 1000;
const STATUS: &str = "status";
/// Bytes of a change: a NodeClaim with all its instance types takes a few thousand.
const LONGEST_CHANGE: usize = 16 << 10;
/// Creations of equal objects belong to one decision while none is further apart than this. What was not stored is decided again
/// after ten seconds at the earliest.
const ONE_DECISION: SignedDuration = SignedDuration::from_secs(5);

/// What was to be written to which object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) action: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// JSON; empty when it is too long.
    pub(crate) change: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) write: Write,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) times: u64,
    /// Most within one decision.
    pub(crate) at_once: u64,
    in_this_decision: u64,
}

/// Shared by all clients of a process. A process that is no shadow leaves it empty.
#[derive(Clone)]
pub struct Record(Arc<Mutex<Kept>>);

pub(crate) struct Kept {
    pub(crate) since: Timestamp,
    entries: HashMap<u64, Entry>,
    pub(crate) forgotten: u64,
    pub(crate) seen: Seen,
}

impl Default for Record {
    fn default() -> Self {
        let since = Timestamp::now();
        let kept = Kept { since, entries: HashMap::new(), forgotten: 0, seen: Seen::new(since) };
        Self(Arc::new(Mutex::new(kept)))
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record")
    }
}

impl Record {
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    pub(crate) fn note(&mut self, mut write: Write, sent: &Value, now: Timestamp) {
        let status = write.subresource == STATUS;
        write.change = sent.to_string();
        if write.change.len() > LONGEST_CHANGE {
            write.change.clear();
        }
        match self.entries.entry(fingerprint(&write, sent)) {
            std::collections::hash_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let goes_on = now.duration_since(known.last) <= ONE_DECISION;
                known.in_this_decision = if goes_on { known.in_this_decision + 1 } else { 1 };
                known.at_once = known.at_once.max(known.in_this_decision);
                known.times += 1;
                known.last = now;
                known.write = write;
            }
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Entry {
                    write,
                    first: now,
                    last: now,
                    times: 1,
                    at_once: 1,
                    in_this_decision: 1,
                });
            }
        }
        if self.entries.len() > MOST {
            self.make_room(status);
        }
    }

    fn make_room(&mut self, status: bool) {
        let is_one = |entry: &Entry| (entry.write.subresource == STATUS) == status;
        let mut times: Vec<Timestamp> =
            self.entries.values().filter(|entry| is_one(entry)).map(|entry| entry.last).collect();
        if times.len() <= MOST {
            return;
        }
        times.sort_unstable();
        let (before, oldest) = (self.entries.len(), times[MOST / 4]);
        self.entries.retain(|_, entry| !is_one(entry) || entry.last > oldest);
        self.forgotten += (before - self.entries.len()) as u64;
    }

    /// The latest first.
    pub(crate) fn entries(&self) -> Vec<&Entry> {
        let mut all: Vec<&Entry> = self.entries.values().collect();
        all.sort_by(|a, b| {
            (b.last, &b.write.resource, &b.write.name).cmp(&(a.last, &a.write.resource, &a.write.name))
        });
        all
    }
}

/// What makes two writes the same: the object and which fields are written, whatever their values. New objects have a name of
/// their own each time; they are the same when they ask for the same.
fn fingerprint(write: &Write, sent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Write { action, group, resource, subresource, namespace, name, .. } = write;
    (action, group, resource, subresource, namespace).hash(&mut hasher);
    match action.as_str() {
        "create" => {
            sent["spec"].to_string().hash(&mut hasher);
            sent["metadata"]["labels"].to_string().hash(&mut hasher);
        }
        _ => {
            name.hash(&mut hasher);
            shape(sent, &mut hasher);
        }
    }
    hasher.finish()
}

/// Names of fields, and which of them are taken away.
fn shape(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                name.hash(hasher);
                shape(field, hasher);
            }
        }
        other => other.is_null().hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn write(action: &str, name: &str) -> Write {
        Write {
            action: action.to_owned(),
            group: "karpenter.sh".to_owned(),
            resource: "nodeclaims".to_owned(),
            name: name.to_owned(),
            ..Write::default()
        }
    }

    #[test]
    fn nodes_of_one_decision_are_counted_apart_from_its_repetitions() {
        let record = Record::default();
        let mut kept = record.kept();
        let claim = |name: &str, cpu: &str| json!({"metadata": {"name": name}, "spec": {"cpu": cpu}});
        for (second, name) in [(0, "a-1"), (1, "a-2"), (2, "a-3"), (60, "a-4"), (61, "a-5")] {
            kept.note(write("create", name), &claim(name, "1"), at(second));
        }
        kept.note(write("create", "a-6"), &claim("a-6", "2"), at(61));
        let found: Vec<_> =
            kept.entries().iter().map(|e| (e.write.name.clone(), e.times, e.at_once)).collect();
        assert_eq!(found, [("a-6".to_owned(), 1, 1), ("a-5".to_owned(), 5, 3)]);
    }

    #[test]
    fn other_fields_of_one_object_are_another_write_and_other_values_are_the_same() {
        let record = Record::default();
        let mut kept = record.kept();
        let note = |value: Value| json!({"metadata": {"annotations": {"command": value}}});
        kept.note(write("patch", "a"), &note(json!("one")), at(0));
        kept.note(write("patch", "a"), &note(json!("two")), at(60));
        kept.note(write("patch", "a"), &note(Value::Null), at(61));
        kept.note(write("patch", "b"), &note(json!("one")), at(62));
        let found: Vec<_> = kept.entries().iter().map(|e| (e.write.change.clone(), e.times)).collect();
        let text = |value| note(value).to_string();
        assert_eq!(found, [(text(json!("one")), 1), (text(Value::Null), 1), (text(json!("two")), 2)]);
    }

    #[test]
    fn memory_is_bounded_and_the_latest_stay() {
        let record = Record::default();
        let mut kept = record.kept();
        let long = json!({"data": "x".repeat(LONGEST_CHANGE)});
        kept.note(write("create", "decided"), &json!({}), at(0));
        for number in 0..5000 {
            let status =
                Write { subresource: STATUS.to_owned(), ..write("patch", &format!("claim-{number}")) };
            kept.note(status, &long, at(number));
        }
        let entries = kept.entries();
        assert!(entries.len() <= MOST + 1, "{}", entries.len());
        assert_eq!(entries[0].write.name, "claim-4999");
        assert_eq!(entries.last().unwrap().write.name, "decided", "a decision outlives conditions");
        assert!(entries.iter().all(|entry| entry.write.change.len() < 10));
        assert_eq!(kept.forgotten as usize + entries.len(), 5001);
    }
}
