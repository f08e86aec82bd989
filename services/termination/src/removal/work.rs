//! What is remembered about an object while it is taken down, and how its writes are done: one at a time, with backoff, in
//! spans that continue the node's trace.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::drain::pace::backoff;
use policy::drain::time::plus;
use tracing::{Span, debug, warn};

use super::{Actor, Done};
use crate::cluster::{Claim, Fact, Key};
use crate::instances::{Subject, Wish};
use crate::writes::Error;

/// Between two events of one kind about one object.
const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(2);
/// For what was just written and comes back by the watch.
const WATCH_LAG: SignedDuration = SignedDuration::from_secs(1);
const FULL_MAILBOX: SignedDuration = SignedDuration::from_millis(200);

pub(super) struct Work {
    busy: bool,
    failures: u32,
    not_before: Timestamp,
    /// All pods that were ever waited for.
    pub(super) pods: HashSet<Arc<str>>,
    /// The whole removal, and within it the stage it is in.
    span: Span,
    stage: Option<(&'static str, Span)>,
    /// When each kind of event was last published: looks are many, people are few.
    told: BTreeMap<&'static str, Timestamp>,
    subject: Option<Subject>,
}

impl Work {
    fn new(key: &Key, traceparent: Option<&str>, now: Timestamp) -> Self {
        let span = match key {
            Key::Node(name) => tracing::info_span!(parent: None, "drain node", node = %name),
            Key::Claim(name) => tracing::info_span!(parent: None, "terminate nodeclaim", nodeclaim = %name),
        };
        if let Some(traceparent) = traceparent {
            runtime::trace::set_parent(&span, traceparent);
        }
        Self {
            busy: false,
            failures: 0,
            not_before: now,
            pods: HashSet::new(),
            span,
            stage: None,
            told: BTreeMap::new(),
            subject: None,
        }
    }

    /// The span that what happens now belongs to.
    pub(super) fn now(&self) -> &Span {
        self.stage.as_ref().map_or(&self.span, |(_, span)| span)
    }
}

impl Actor {
    /// The memory about an object, made at the first look; its span continues the node's trace.
    pub(super) fn begin(&mut self, key: &Key, traceparent: Option<&str>, now: Timestamp) {
        self.work.entry(key.clone()).or_insert_with(|| Work::new(key, traceparent, now));
    }

    /// From here on the object is looked at when something is heard of this instance.
    pub(super) fn follow(&mut self, key: &Key, subject: Option<&Subject>) {
        let Some(work) = self.work.get_mut(key) else { return };
        if work.subject.as_ref() == subject {
            return;
        }
        // A claim whose id was noted late: the instance is known by another name from now on.
        if let Some(before) = work.subject.take() {
            self.knowledge.unfollow(key, &before);
        }
        work.subject = subject.cloned();
        if let Some(subject) = subject {
            self.knowledge.follow(key, subject);
        }
    }

    /// Ends the span of the stage before, if this is another one.
    pub(super) fn enter(&mut self, key: &Key, stage: &'static str) {
        let Some(work) = self.work.get_mut(key) else { return };
        if work.stage.as_ref().is_none_or(|(known, _)| *known != stage) {
            let span = tracing::info_span!(parent: &work.span, "stage", otel.name = stage, stage);
            work.stage = Some((stage, span));
        }
    }

    /// The object is gone or stays after all.
    pub(super) fn close(&mut self, key: &Key, now: Timestamp) {
        self.schedule.remove(key);
        if let Key::Node(name) = key {
            self.evictions.want(&self.cluster, name, &[], now);
        }
        if self.work.get(key).is_some_and(|work| !work.busy)
            && let Some(work) = self.work.remove(key)
            && let Some(subject) = work.subject
        {
            self.knowledge.unfollow(key, &subject);
        }
    }

    /// Whether an event of this kind about the object is due; if so, it counts as told, and the object is looked at again
    /// when it is due once more.
    pub(super) fn may_tell(&mut self, key: &Key, kind: &'static str, now: Timestamp) -> bool {
        let Some(work) = self.work.get_mut(key) else { return false };
        let due = work.told.get(kind).is_none_or(|told| *told <= plus(now, -TELL_AGAIN));
        if due {
            work.told.insert(kind, now);
            self.schedule.at(key.clone(), plus(now, TELL_AGAIN));
        }
        due
    }

    /// Whether a write for the object may start now; if not, it is looked at again in time.
    pub(super) fn may_write(&mut self, key: &Key, now: Timestamp) -> bool {
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

    /// `call` returns what it changed, if the API server said so; otherwise the watch does.
    pub(super) fn write(
        &mut self,
        key: &Key,
        what: &'static str,
        call: impl Future<Output = Result<Vec<Fact>, Error>> + Send + 'static,
    ) {
        let Some(work) = self.work.get_mut(key) else { return };
        work.busy = true;
        let span = tracing::info_span!(parent: work.now(), "write", otel.name = what, what);
        let key = key.clone();
        let call = async move {
            let result = call.await;
            Done::Write { key, what, result }
        };
        self.tasks.spawn(tracing::Instrument::instrument(call, span));
    }

    pub(super) fn written(
        &mut self,
        key: &Key,
        what: &'static str,
        result: Result<Vec<Fact>, Error>,
        now: Timestamp,
    ) {
        let jitter = self.random();
        let Some(work) = self.work.get_mut(key) else { return };
        work.busy = false;
        match result {
            Ok(facts) => {
                work.failures = 0;
                if facts.is_empty() {
                    work.not_before = plus(now, WATCH_LAG);
                }
                for fact in facts {
                    self.learn(fact);
                }
                self.dirty.insert(key.clone());
            }
            // The watch tells what became of it.
            Err(Error::Gone) => self.schedule.at(key.clone(), plus(now, WATCH_LAG)),
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

    /// Asks about the instance.
    pub(super) fn wish(
        &mut self,
        key: &Key,
        subject: Subject,
        wish: Wish,
        claim: Option<&Claim>,
        now: Timestamp,
    ) {
        if !self.knowledge.wish(subject, wish, claim) {
            self.schedule.at(key.clone(), plus(now, FULL_MAILBOX));
        }
    }
}
