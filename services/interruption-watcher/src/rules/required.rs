//! The five rules that must feed the queue, and whether the rules that are there do. Pure.
//!
//! A rule is judged by what it lets through, not by its name: CloudFormation and people choose names of their own.

use cloud::queue::Rule;
use serde_json::{Value, json};

/// What must reach the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequiredRule {
    /// Karpenter's name, without the cluster's.
    pub(crate) name: &'static str,
    source: &'static str,
    detail_type: &'static str,
    /// States of instances that matter; empty for other kinds of events.
    states: &'static [&'static str],
}

pub(crate) const REQUIRED: [RequiredRule; 5] = [
    RequiredRule {
        name: "ScheduledChangeRule",
        source: "aws.health",
        detail_type: "AWS Health Event",
        states: &[],
    },
    RequiredRule {
        name: "SpotInterruptionRule",
        source: "aws.ec2",
        detail_type: "EC2 Spot Instance Interruption Warning",
        states: &[],
    },
    RequiredRule {
        name: "RebalanceRule",
        source: "aws.ec2",
        detail_type: "EC2 Instance Rebalance Recommendation",
        states: &[],
    },
    RequiredRule {
        name: "InstanceStateChangeRule",
        source: "aws.ec2",
        detail_type: "EC2 Instance State-change Notification",
        states: &["stopping", "stopped", "shutting-down", "terminated"],
    },
    RequiredRule {
        name: "CapacityReservationInterruptionRule",
        source: "aws.ec2",
        detail_type: "EC2 Capacity Reservation Instance Interruption Warning",
        states: &[],
    },
];

/// Longest prefix of a rule's name: EventBridge allows 64 characters, of which the longest of [`REQUIRED`] and a dash take 36. The
/// IAM policy `interruption-rules` names rules by the same prefix.
const LONGEST_PREFIX: usize = 28;

impl RequiredRule {
    /// What this rule is called when we make it.
    pub(crate) fn name_for(&self, cluster: &str) -> String {
        if cluster.len() <= LONGEST_PREFIX {
            return format!("{cluster}-{}", self.name);
        }
        // Two long names that begin alike must not share a rule.
        let short: String = cluster.chars().take(LONGEST_PREFIX - 9).collect();
        format!("{short}-{:08x}-{}", fnv(cluster), self.name)
    }

    pub(crate) fn pattern(&self) -> String {
        let mut pattern = json!({"source": [self.source], "detail-type": [self.detail_type]});
        if !self.states.is_empty() {
            pattern["detail"] = json!({"state": self.states});
        }
        pattern.to_string()
    }

    /// Why none of these rules, which all aim at the queue, lets everything through; `None` when one does.
    pub(crate) fn problem(&self, rules: &[Rule]) -> Option<String> {
        let fitting: Vec<&Rule> = rules.iter().filter(|rule| self.is_let_through_by(&rule.pattern)).collect();
        if fitting.iter().any(|rule| rule.enabled) {
            return None;
        }
        Some(match fitting.first() {
            Some(rule) => format!("rule {} is disabled", rule.name),
            None => format!(
                "no rule sends events of source {} and type {:?} to the queue",
                self.source, self.detail_type
            ),
        })
    }

    /// A pattern that cannot be read lets nothing through that could be relied on.
    fn is_let_through_by(&self, pattern: &str) -> bool {
        let Ok(Value::Object(pattern)) = serde_json::from_str::<Value>(pattern) else { return false };
        let names_all = |allowed: Option<&Value>, required: &[&str]| match allowed {
            None => true,
            Some(Value::Array(allowed)) => {
                required.iter().all(|one| allowed.iter().any(|value| value.as_str() == Some(one)))
            }
            Some(_) => false,
        };
        pattern.iter().all(|(key, value)| match key.as_str() {
            "source" => names_all(Some(value), &[self.source]),
            "detail-type" => names_all(Some(value), &[self.detail_type]),
            "detail" => self.detail_is_let_through_by(value, names_all),
            // Narrowed to an account, a region or resources: not provably all of ours.
            _ => false,
        })
    }

    fn detail_is_let_through_by(
        &self,
        detail: &Value,
        names_all: impl Fn(Option<&Value>, &[&str]) -> bool,
    ) -> bool {
        let Value::Object(detail) = detail else { return false };
        detail.iter().all(|(key, value)| match key.as_str() {
            "state" if !self.states.is_empty() => names_all(Some(value), self.states),
            "service" if self.source == "aws.health" => names_all(Some(value), &["EC2"]),
            "eventTypeCategory" if self.source == "aws.health" => {
                names_all(Some(value), &["scheduledChange"])
            }
            _ => false,
        })
    }
}

/// FNV-1a, 32 bits: short, and the same in every version.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, enabled: bool) -> Rule {
        Rule { name: "someone-made-it".into(), pattern: pattern.into(), enabled, targets: Vec::new() }
    }

    #[test]
    fn our_own_patterns_let_through_what_they_are_for_and_nothing_else() {
        for (at, required) in REQUIRED.iter().enumerate() {
            for (other_at, other) in REQUIRED.iter().enumerate() {
                let found = required.problem(&[rule(&other.pattern(), true)]);
                assert_eq!(found.is_none(), at == other_at, "{} by {}", required.name, other.name);
            }
        }
    }

    #[test]
    fn one_rule_may_serve_several_kinds_and_may_be_wider_than_needed() {
        let wide = r#"{"source":["aws.ec2","aws.health"]}"#;
        for required in REQUIRED {
            assert_eq!(required.problem(&[rule(wide, true)]), None, "{}", required.name);
        }
        let narrow_health = r#"{"source":["aws.health"],"detail-type":["AWS Health Event"],
            "detail":{"service":["EC2"],"eventTypeCategory":["scheduledChange"]}}"#;
        assert_eq!(REQUIRED[0].problem(&[rule(narrow_health, true)]), None);
    }

    #[test]
    fn rules_that_leave_something_out_are_not_enough_and_the_reason_is_given() {
        let spot = REQUIRED[1];
        assert!(spot.problem(&[]).unwrap().contains("EC2 Spot Instance Interruption Warning"));
        assert_eq!(
            spot.problem(&[rule(&spot.pattern(), false)]).unwrap(),
            "rule someone-made-it is disabled"
        );
        let state = REQUIRED[3];
        for pattern in [
            r#"{"source":["aws.ec2"],"detail":{"state":["terminated"]}}"#,
            r#"{"source":["aws.ec2"],"account":["1"]}"#,
            r#"{"source":[{"prefix":"aws."}]}"#,
            r#"{"source":"aws.ec2"}"#,
            "[]",
            "",
            "{",
        ] {
            assert!(state.problem(&[rule(pattern, true)]).is_some(), "{pattern}");
        }
    }

    #[test]
    fn names_fit_and_differ_for_clusters_that_begin_alike() {
        assert_eq!(REQUIRED[1].name_for("demo"), "demo-SpotInterruptionRule");
        let (one, other) = ("c".repeat(99) + "1", "c".repeat(99) + "2");
        for required in REQUIRED {
            let names = [required.name_for(&one), required.name_for(&other)];
            assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
            assert_ne!(names[0], names[1]);
            // As deploy/aws/terraform writes it into the policy, and as the parameter RulePrefix is described.
            let prefix = format!("{}-", &one[..19]);
            assert!(names.iter().all(|name| name.starts_with(&prefix) && name.ends_with(required.name)));
        }
    }
}
