//! Kubernetes Events for people who run `kubectl describe`. Written in the background: an Event that cannot be written, or comes
//! too fast, is lost and counted, and never holds up the work it tells about.
//!
//! As in the reference, the same reason about the same object is written at most once in two minutes (or the time an event
//! asks for), whatever its message says unless the event names what else to tell apart by.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event as Object, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::Metrics;

/// As the reference names itself in its Events.
const COMPONENT: &str = "karpenter";
const REPEAT: Duration = Duration::from_secs(120);
const WAITING: usize = 1024;
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const MOST_REMEMBERED: usize = 16_384;
/// etcd's and kubectl's patience; the API server refuses more.
const LONGEST_MESSAGE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub about: ObjectReference,
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
    /// What else tells this event from another with the same object and reason.
    pub distinct: Vec<String>,
    pub repeat_after: Duration,
}

impl Event {
    pub fn normal(about: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Normal, about, reason, message.into())
    }

    pub fn warning(about: ObjectReference, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, about, reason, message.into())
    }

    fn new(severity: Severity, about: ObjectReference, reason: &'static str, message: String) -> Self {
        Self { about, severity, reason, message, distinct: Vec::new(), repeat_after: REPEAT }
    }

    #[must_use]
    pub fn distinct(mut self, by: impl IntoIterator<Item = String>) -> Self {
        self.distinct = by.into_iter().collect();
        self
    }

    #[must_use]
    pub fn repeat_after(mut self, time: Duration) -> Self {
        self.repeat_after = time;
        self
    }

    fn key(&self) -> Key {
        let object = self.about.uid.clone().or_else(|| self.about.name.clone()).unwrap_or_default();
        (self.reason, object, self.distinct.clone())
    }
}

type Key = (&'static str, String, Vec<String>);

/// Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    waiting: mpsc::Sender<Event>,
    metrics: Metrics,
}

impl Recorder {
    pub fn new(client: Client, replica: &str, metrics: Metrics) -> (Writer, Self) {
        let (waiting, events) = mpsc::channel(WAITING);
        let writer =
            Writer { client, instance: replica.to_owned(), events, written: HashMap::new(), count: 0 };
        (writer, Self { waiting, metrics })
    }

    /// Returns at once.
    pub fn publish(&self, event: Event) {
        if self.waiting.try_send(event).is_err() {
            self.metrics.events_dropped.inc();
        }
    }
}

/// The task behind a [`Recorder`].
pub struct Writer {
    client: Client,
    instance: String,
    events: mpsc::Receiver<Event>,
    written: HashMap<Key, Instant>,
    count: u64,
}

impl Writer {
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(event) = self.events.recv() => event,
                // Every recorder is gone; nothing will come any more.
                else => {
                    stop.cancelled().await;
                    return Ok(());
                }
            };
            if self.is_new(&event, Instant::now()) {
                self.write(event).await;
            }
        }
    }

    fn is_new(&mut self, event: &Event, now: Instant) -> bool {
        if self.written.len() >= MOST_REMEMBERED {
            self.written.retain(|_, until| now < *until);
        }
        let until = self.written.get(&event.key());
        if until.is_some_and(|until| now < *until) {
            return false;
        }
        self.written.insert(event.key(), now + event.repeat_after);
        true
    }

    async fn write(&mut self, event: Event) {
        self.count += 1;
        let object = self.object(event);
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let events: Api<Object> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        match tokio::time::timeout(CALL_TIMEOUT, events.create(&params, &object)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => debug!(reason = object.reason, %error, "event not written"),
            Err(_) => debug!(reason = object.reason, "event not written in time"),
        }
    }

    fn object(&self, event: Event) -> Object {
        let now = jiff::Timestamp::now();
        let name = event.about.name.clone().unwrap_or_default();
        // Cluster-scoped objects have their Events in `default`, where kubectl looks for them.
        let namespace = event.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let unique = format!("{:x}{:x}", now.as_nanosecond(), self.count);
        Object {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{unique}")),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: event.about,
            type_: Some(match event.severity {
                Severity::Normal => "Normal".to_owned(),
                Severity::Warning => "Warning".to_owned(),
            }),
            reason: Some(event.reason.to_owned()),
            message: Some(event.message.chars().take(LONGEST_MESSAGE).collect()),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Object::default()
        }
    }
}

/// The Node that an Event is about. kubelet's own carry the name as uid; `kubectl describe node` looks for both.
pub fn node(name: &str, uid: &str) -> ObjectReference {
    subject("v1", "Node", name, uid)
}

/// The NodeClaim that an Event is about.
pub fn node_claim(name: &str, uid: &str) -> ObjectReference {
    subject("karpenter.sh/v1", "NodeClaim", name, uid)
}

/// The Pod that an Event is about.
pub fn pod(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference { namespace: Some(namespace.to_owned()), ..subject("v1", "Pod", name, uid) }
}

fn subject(api_version: &str, kind: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;

    fn writer() -> Writer {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("not asked"))
        });
        let client = Client::new(service, "default");
        Recorder::new(client, "t-1", Metrics::new(Service::Termination)).0
    }

    fn about(uid: &str) -> ObjectReference {
        ObjectReference {
            kind: Some("Node".into()),
            name: Some("n".into()),
            uid: Some(uid.into()),
            ..Default::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_reason_about_the_same_object_is_written_once_in_two_minutes() {
        let mut writer = writer();
        let now = Instant::now();
        let blocked = |message: &str| Event::warning(about("1"), "DisruptionBlocked", message);
        assert!(writer.is_new(&blocked("a"), now));
        assert!(!writer.is_new(&blocked("other words"), now + Duration::from_secs(119)));
        assert!(writer.is_new(&blocked("a"), now + Duration::from_secs(120)));
        assert!(writer.is_new(&Event::warning(about("2"), "DisruptionBlocked", "a"), now));
        assert!(writer.is_new(&Event::warning(about("1"), "FailedDraining", "a"), now));
        assert!(writer.is_new(&blocked("a").distinct(["pod-1".to_owned()]), now));
    }

    #[tokio::test]
    async fn an_event_about_a_cluster_scoped_object_goes_to_the_default_namespace() {
        let object = writer().object(Event::normal(about("1"), "Drained", "x".repeat(5000)));
        assert_eq!(object.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(object.source.unwrap().component.as_deref(), Some("karpenter"));
        assert_eq!(object.message.unwrap().len(), LONGEST_MESSAGE);
    }
}
