//! What DescribeInstanceStatus says about our nodes, and what to do about it. Pure: the instant is an argument.

use std::collections::BTreeSet;

use cloud::queue::InstanceHealth;
use jiff::{SignedDuration, Timestamp};

use crate::message::Kind;

/// A check may fail for a moment; the reference waits as long.
const IMPAIRED_FOR: SignedDuration = SignedDuration::from_secs(120);
/// Part of all nodes that may be terminated without regard to budgets, in percent: the reference's limit for node repair.
const MOST_FORCED: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) instance: String,
    pub(crate) kind: Kind,
    pub(crate) words: String,
}

impl Finding {
    /// The reference's word for the metric.
    pub(crate) fn category(&self) -> &'static str {
        match self.kind {
            Kind::InstanceStatus => "InstanceStatus",
            Kind::SystemStatus => "SystemStatus",
            _ => "EventStatus",
        }
    }
}

/// What is wrong with each instance, at most one finding of a kind.
pub(crate) fn findings(report: &[InstanceHealth], now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    for health in report {
        let mut add = |kind, words| found.push(Finding { instance: health.instance_id.clone(), kind, words });
        let long = |since: &Timestamp| now.duration_since(*since) >= IMPAIRED_FOR;
        if let Some(since) = health.instance_impaired_since.filter(long) {
            add(Kind::InstanceStatus, format!("impaired since {since}"));
        }
        if let Some(since) = health.system_impaired_since.filter(long) {
            add(Kind::SystemStatus, format!("impaired since {since}"));
        }
        if let Some(event) = health.events.iter().find(|event| !event.is_over()) {
            let begins = event.not_before.map_or_else(String::new, |at| format!(", not before {at}"));
            add(Kind::EventStatus, format!("{}{begins}", event.code));
        }
    }
    found
}

/// Failed checks on many nodes at once are more likely trouble of a zone, or of the checks, than of each node: then nodes are
/// drained within their budgets instead of being terminated.
pub(crate) fn may_force(impaired_nodes: usize, all_nodes: usize) -> bool {
    impaired_nodes <= (all_nodes * MOST_FORCED).div_ceil(100)
}

/// Which findings were there at the last look, so that each is counted once while it lasts.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeSet<(String, &'static str)>);

impl Known {
    /// Returns those that are new, and forgets what is over.
    pub(crate) fn update<'a>(&mut self, now: &[&'a Finding]) -> Vec<&'a Finding> {
        let key = |finding: &Finding| (finding.instance.clone(), finding.category());
        let current: BTreeSet<_> = now.iter().map(|finding| key(finding)).collect();
        let fresh = now.iter().filter(|finding| !self.0.contains(&key(finding))).copied().collect();
        self.0 = current;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use cloud::queue::ScheduledEvent;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    fn event(description: &str) -> ScheduledEvent {
        ScheduledEvent {
            id: "e".into(),
            code: "instance-retirement".into(),
            description: description.into(),
            not_before: Some(at(3600)),
            not_after: None,
        }
    }

    fn health(id: &str) -> InstanceHealth {
        InstanceHealth { instance_id: id.into(), zone: "a".into(), ..InstanceHealth::default() }
    }

    #[test]
    fn a_check_counts_after_two_minutes_and_a_scheduled_event_at_once() {
        let report = [
            InstanceHealth { instance_impaired_since: Some(at(0)), ..health("i-1") },
            InstanceHealth { system_impaired_since: Some(at(1)), ..health("i-2") },
            InstanceHealth { events: vec![event("retired soon")], ..health("i-3") },
            InstanceHealth { events: vec![event("[Completed] retired")], ..health("i-4") },
        ];
        let kinds = |now| -> Vec<(String, Kind)> {
            findings(&report, now).into_iter().map(|found| (found.instance, found.kind)).collect()
        };
        let event = ("i-3".to_owned(), Kind::EventStatus);
        assert_eq!(kinds(at(119)), std::slice::from_ref(&event));
        assert_eq!(kinds(at(120)), [("i-1".to_owned(), Kind::InstanceStatus), event]);
        assert_eq!(kinds(at(121)).len(), 3);
    }

    #[test]
    fn when_many_nodes_fail_at_once_budgets_are_respected() {
        assert!(may_force(1, 1), "a cluster of one node may still repair it");
        assert!(may_force(1, 3));
        assert!(!may_force(2, 3));
        assert!(may_force(20, 100));
        assert!(!may_force(21, 100));
    }

    #[test]
    fn a_finding_is_new_once_while_it_lasts() {
        let finding =
            |instance: &str, kind| Finding { instance: instance.into(), kind, words: String::new() };
        let (one, two) = (finding("i-1", Kind::InstanceStatus), finding("i-1", Kind::EventStatus));
        let mut known = Known::default();
        assert_eq!(known.update(&[&one]), [&one]);
        assert_eq!(known.update(&[&one, &two]), [&two]);
        assert!(known.update(&[&one, &two]).is_empty());
        assert!(known.update(&[]).is_empty());
        assert_eq!(known.update(&[&one]), [&one], "it was over in between");
    }
}
