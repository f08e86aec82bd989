//! What interruption-watcher may do: consume its queue, look after the rules that feed it, and read instance health.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::Answer;

pub trait Queue: Send + Sync {
    /// The URL and ARN of a queue given by name or URL; `NotFound` when there is none.
    fn find<'a>(&'a self, name_or_url: &'a str) -> Answer<'a, QueueInfo>;

    /// Waits up to `options.wait` for messages.
    fn receive<'a>(&'a self, url: &'a str, options: ReceiveOptions) -> Answer<'a, Vec<Message>>;

    /// Deletes by receipt, any number; those that could not be deleted are told.
    fn delete<'a>(&'a self, url: &'a str, receipts: Vec<String>) -> Answer<'a, Vec<ReceiptError>>;

    /// Hides messages for `visibility` from now on; those for which that failed are told.
    fn extend<'a>(
        &'a self,
        url: &'a str,
        receipts: Vec<String>,
        visibility: Duration,
    ) -> Answer<'a, Vec<ReceiptError>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    pub url: String,
    /// Empty when reading attributes is not permitted; only rule management needs it.
    pub arn: String,
    /// Approximate number of waiting messages, where known.
    pub waiting: Option<u64>,
    /// The queue has a dead-letter queue: SQS moves what is received too often there.
    pub dead_letters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// 1 to 10.
    pub max_messages: u32,
    /// Long poll, up to 20 s.
    pub wait: Duration,
    /// How long received messages stay hidden from other consumers.
    pub visibility: Duration,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self { max_messages: 10, wait: Duration::from_secs(20), visibility: Duration::from_secs(20) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    /// Names this delivery, for delete and extend.
    pub receipt: String,
    pub body: String,
    pub sent_at: Option<Timestamp>,
    /// How often it was delivered, this time included.
    pub deliveries: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptError {
    pub receipt: String,
    pub code: String,
    pub message: String,
}

pub trait Rules: Send + Sync {
    /// A rule of the default event bus with its targets; `None` when there is none.
    fn rule<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Rule>>;

    /// All rules of the default event bus whose name starts so, with their targets.
    fn rules<'a>(&'a self, name_prefix: &'a str) -> Answer<'a, Vec<Rule>>;

    /// The rules of the default event bus that have this target, whatever they are called, with all their targets.
    fn rules_of_target<'a>(&'a self, arn: &'a str) -> Answer<'a, Vec<Rule>>;

    /// Creates or replaces the rule, enabled. Its targets stay.
    fn put_rule<'a>(&'a self, name: &'a str, pattern: &'a str) -> Answer<'a, ()>;

    /// Adds or replaces one target.
    fn put_target<'a>(&'a self, rule: &'a str, target: RuleTarget) -> Answer<'a, ()>;

    /// Removes targets by id, then the rule. A rule that is gone is a success.
    fn delete_rule<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    /// JSON of what events it lets through.
    pub pattern: String,
    pub enabled: bool,
    pub targets: Vec<RuleTarget>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleTarget {
    pub id: String,
    pub arn: String,
}

pub trait HealthSource: Send + Sync {
    /// Instances of the whole account with an impaired status or a scheduled event, by id. Not limited to our cluster: the
    /// caller keeps what it knows.
    fn unhealthy(&self) -> Answer<'_, Vec<InstanceHealth>>;

    /// Those of the instances that EC2 says end now or are about to: stopping, stopped, shutting down, gone, or with a spot
    /// request that is marked for it. An error means that nothing is known about any of the others.
    fn ending(&self, ids: Vec<String>) -> Answer<'_, BTreeSet<String>>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceHealth {
    pub instance_id: String,
    /// Zone name.
    pub zone: String,
    /// Since when a check of the instance itself fails.
    pub instance_impaired_since: Option<Timestamp>,
    /// Since when a check of the host fails.
    pub system_impaired_since: Option<Timestamp>,
    /// Scheduled events that are neither completed nor cancelled.
    pub events: Vec<ScheduledEvent>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledEvent {
    pub id: String,
    /// Such as `instance-retirement`.
    pub code: String,
    pub description: String,
    pub not_before: Option<Timestamp>,
    pub not_after: Option<Timestamp>,
}

/// Scheduled events that call for a drain.
pub const DRAINING_EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

impl ScheduledEvent {
    /// EC2 keeps listing events that are over, with the outcome in front of the description.
    pub fn is_over(&self) -> bool {
        ["[Completed]", "[Canceled]", "[Cancelled]"].iter().any(|mark| self.description.starts_with(mark))
    }
}
