//! The `disruption` stanza of a NodePool and its budgets: data only. What a budget allows at an instant is `policy`'s.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use model::duration::{GoDuration, NillableDuration};

use crate::Extra;
use crate::patterns;
use crate::schema::cel;
use crate::text_enum::text_enum;

text_enum! {
    /// Which nodes consolidation looks at.
    #[derive(Default)]
    pub enum ConsolidationPolicy {
        /// Only nodes without pods that matter.
        WhenEmpty = "WhenEmpty",
        /// Also nodes whose pods fit elsewhere, or on something cheaper.
        #[default]
        WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized",
        /// As the former, if the saving is worth the pods it moves.
        Balanced = "Balanced",
    }
}

text_enum! {
    /// Why a node is disrupted voluntarily.
    pub enum DisruptionReason {
        /// Its pods fit elsewhere, or on something cheaper.
        Underutilized = "Underutilized",
        /// It has no pods that matter.
        Empty = "Empty",
        /// It no longer matches its NodePool or NodeClass.
        Drifted = "Drifted",
    }
}

/// When and how many nodes may be removed or replaced voluntarily.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Quiet time after the last pod came or went before a node may be consolidated, such as `1m`. `0s` acts at once, `Never`
    /// switches consolidation off, for empty nodes too.
    #[schemars(with = "String", regex(pattern = patterns::DURATION_OR_NEVER))]
    pub consolidate_after: NillableDuration,
    /// Which nodes consolidation looks at: WhenEmpty, WhenEmptyOrUnderutilized, or Balanced, which weighs the saving
    /// against the pods that must move.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Limits on how many nodes may be disrupted at the same time. All that are active hold; the smallest counts. An
    /// empty list sets no limit.
    #[serde(default = "ten_percent")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "atomic"), transform = cel(
        "self.all(x, has(x.schedule) == has(x.duration))",
        "schedule and duration of a budget must be set together",
    ))]
    pub budgets: Vec<Budget>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Default for Disruption {
    fn default() -> Self {
        when_absent()
    }
}

/// What a NodePool without the stanza gets.
pub(crate) fn when_absent() -> Disruption {
    Disruption {
        consolidate_after: NillableDuration::After(GoDuration::from_secs(0)),
        consolidation_policy: ConsolidationPolicy::default(),
        budgets: ten_percent(),
        extra: Extra::new(),
    }
}

fn ten_percent() -> Vec<Budget> {
    vec![Budget::default()]
}

fn ten_percent_of_nodes() -> String {
    "10%".to_owned()
}

/// A limit on how many nodes of the pool may be disrupted at the same time, always or in windows of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// Number of nodes ("5", quoted) or share of the pool's nodes ("10%", rounded up) that may be disrupted together. "0" forbids
    /// disruption.
    #[serde(default = "ten_percent_of_nodes")]
    #[schemars(regex(pattern = patterns::BUDGET_NODES))]
    pub nodes: String,
    /// Reasons this budget counts for; unset is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Start of the windows in which the budget is active, as five cron fields or a macro such as @daily, in UTC. Needs duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::CRON))]
    pub schedule: Option<String>,
    /// Length of each window, in hours and minutes such as `8h` or `1h30m`. Needs schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = patterns::BUDGET_DURATION))]
    pub duration: Option<GoDuration>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            nodes: ten_percent_of_nodes(),
            reasons: None,
            schedule: None,
            duration: None,
            extra: Extra::new(),
        }
    }
}
