//! Status conditions: the type, its schema, and the semantics that all kinds with a `Ready` share. Pure: the instant and the
//! object's generation are arguments.
//!
//! `Ready` is never set by hand. It follows from a kind's dependents each time one of them is set, and counts only what was
//! observed at the current generation. CapacityBuffer has no `Ready`: use [`set_plain`] there.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Extra;
use crate::patterns;
use crate::text_enum::text_enum;

/// The root condition.
pub const READY: &str = "Ready";
/// Reason of a condition that nothing has looked at yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Reason of a root that is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root that is Unknown.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

text_enum! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
        /// Nobody can say yet.
        Unknown = "Unknown",
    }
}

/// One aspect of an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = all_but_generation_required)]
pub struct Condition {
    /// Name of the condition.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), regex(pattern = patterns::CONDITION_TYPE))]
    pub type_: String,
    /// Whether it holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// When the status last changed.
    #[schemars(schema_with = "crate::schema::date_time")]
    pub last_transition_time: Time,
    /// Why it has this status, in one word for programs.
    // Claims of older releases may have none, and it must not be written back as an empty text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = patterns::CONDITION_REASON))]
    pub reason: String,
    /// Why it has this status, for people.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Generation of the object that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Reading is lenient where the schema is strict.
fn all_but_generation_required(schema: &mut Schema) {
    schema.insert("required".into(), json!(["lastTransitionTime", "message", "reason", "status", "type"]));
    for field in ["reason", "message"] {
        if let Some(field) =
            schema.pointer_mut(&format!("/properties/{field}")).and_then(Value::as_object_mut)
        {
            field.remove("default");
        }
    }
}

/// Status, reason and message to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    status: ConditionStatus,
    reason: Option<String>,
    message: String,
}

impl Finding {
    /// True, with the condition's own type as reason and no message.
    pub fn holds() -> Self {
        Self { status: ConditionStatus::True, reason: None, message: String::new() }
    }

    /// True for a reason.
    pub fn holds_because(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::True, reason: Some(reason.into()), message: message.into() }
    }

    /// False for a reason.
    pub fn fails(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, reason: Some(reason.into()), message: message.into() }
    }

    /// Unknown for a reason.
    pub fn open(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::Unknown, reason: Some(reason.into()), message: message.into() }
    }
}

/// The dependents of a kind's `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionSet(&'static [&'static str]);

impl ConditionSet {
    /// For NodePools.
    pub const NODE_POOL: Self = Self(&["ValidationSucceeded", "NodeClassReady"]);
    /// For NodeClaims.
    pub const NODE_CLAIM: Self = Self(&["Launched", "Registered", "Initialized"]);
    /// For NodeOverlays.
    pub const NODE_OVERLAY: Self = Self(&["ValidationSucceeded"]);

    /// For EC2NodeClasses; reservations count only while gate `ReservedCapacity` is on.
    pub const fn ec2_node_class(reserved_capacity: bool) -> Self {
        const ALL: &[&str] = &[
            "AMIsReady",
            "SubnetsReady",
            "SecurityGroupsReady",
            "InstanceProfileReady",
            "ValidationSucceeded",
            "PlacementGroupReady",
            "CapacityReservationsReady",
        ];
        if reserved_capacity { Self(ALL) } else { Self(ALL.split_at(ALL.len() - 1).0) }
    }

    /// The dependents' types.
    pub const fn dependents(self) -> &'static [&'static str] {
        self.0
    }

    /// Adds the root and the dependents that are missing, as Unknown since the object's creation. Says whether it added any.
    pub fn initialize(self, conditions: &mut Vec<Condition>, meta: &ObjectMeta, now: Timestamp) -> bool {
        let is_new = find(conditions, READY).is_none();
        let before = conditions.len();
        for type_ in self.0.iter().copied().chain([READY]) {
            if find(conditions, type_).is_none() {
                let finding = Finding::open(AWAITING_RECONCILIATION, "object is awaiting reconciliation");
                replace(conditions, meta.generation, type_, finding, now, since_creation(meta, now));
            }
        }
        let added = conditions.len() != before;
        if added {
            sort(conditions);
            // A dependent that this release adds takes back the readiness an older one stated.
            if !is_new {
                self.recompute(conditions, meta, READY, now);
            }
        }
        added
    }

    /// Sets a condition and recomputes the root. Says whether anything changed, so that an unchanged status is not written.
    pub fn set(
        self,
        conditions: &mut Vec<Condition>,
        meta: &ObjectMeta,
        type_: &str,
        finding: Finding,
        now: Timestamp,
    ) -> bool {
        self.initialize(conditions, meta, now) | self.put(conditions, meta, type_, finding, now)
    }

    /// Removes a condition that the root does not depend on. Dependents and the root stay. Says whether it was there.
    pub fn clear(self, conditions: &mut Vec<Condition>, type_: &str) -> bool {
        if type_ == READY || self.0.contains(&type_) {
            return false;
        }
        let before = conditions.len();
        conditions.retain(|condition| condition.type_ != type_);
        conditions.len() != before
    }

    /// Whether `Ready` is True at the current generation.
    pub fn is_ready(self, conditions: &[Condition], meta: &ObjectMeta) -> bool {
        find(conditions, READY).is_some_and(|root| is_current_and(root, meta, &ConditionStatus::True))
    }

    fn put(
        self,
        conditions: &mut Vec<Condition>,
        meta: &ObjectMeta,
        type_: &str,
        finding: Finding,
        now: Timestamp,
    ) -> bool {
        if !replace(conditions, meta.generation, type_, finding, now, now) {
            return false;
        }
        // Deletion raises the generation without changing what was observed, so the rest stays current.
        if meta.deletion_timestamp.is_some() {
            for condition in conditions.iter_mut() {
                condition.observed_generation = meta.generation;
            }
        }
        sort(conditions);
        if type_ != READY {
            self.recompute(conditions, meta, type_, now);
        }
        true
    }

    /// The message names what changed last first. Times are whole seconds; among equal ones `set` was the last.
    fn recompute(self, conditions: &mut Vec<Condition>, meta: &ObjectMeta, set: &str, now: Timestamp) {
        let mut unhealthy: Vec<&Condition> = conditions
            .iter()
            .filter(|c| {
                self.0.contains(&c.type_.as_str()) && !is_current_and(c, meta, &ConditionStatus::True)
            })
            .collect();
        unhealthy.sort_by_key(|c| (std::cmp::Reverse(c.last_transition_time.0), c.type_ != set));
        let message = || {
            let parts: Vec<_> = unhealthy.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
            parts.join(", ")
        };
        let finding = if unhealthy.is_empty() {
            Finding::holds()
        } else if unhealthy.iter().any(|c| is_current_and(c, meta, &ConditionStatus::False)) {
            Finding::fails(UNHEALTHY_DEPENDENTS, message())
        } else {
            Finding::open(RECONCILING_DEPENDENTS, message())
        };
        self.put(conditions, meta, READY, finding, now);
    }
}

/// Sets a condition of a kind without `Ready`. Says whether anything changed.
pub fn set_plain(
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    type_: &str,
    finding: Finding,
    now: Timestamp,
) -> bool {
    replace(conditions, generation, type_, finding, now, now)
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The status of a condition; a missing one is Unknown.
pub fn status(conditions: &[Condition], type_: &str) -> ConditionStatus {
    find(conditions, type_).map_or(ConditionStatus::Unknown, |condition| condition.status.clone())
}

/// Whether the condition is there and True, at whatever generation.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    status(conditions, type_) == ConditionStatus::True
}

fn is_current_and(condition: &Condition, meta: &ObjectMeta, status: &ConditionStatus) -> bool {
    condition.status == *status && condition.observed_generation == meta.generation
}

fn replace(
    conditions: &mut Vec<Condition>,
    generation: Option<i64>,
    type_: &str,
    finding: Finding,
    now: Timestamp,
    first: Timestamp,
) -> bool {
    let place = conditions.iter().position(|condition| condition.type_ == type_);
    let old = place.map(|index| &conditions[index]);
    let since = match old {
        Some(old) if old.status == finding.status => old.last_transition_time.clone(),
        Some(_) => Time(whole_seconds(now)),
        None => Time(whole_seconds(first)),
    };
    let new = Condition {
        type_: type_.to_owned(),
        status: finding.status,
        last_transition_time: since,
        reason: finding.reason.unwrap_or_else(|| type_.to_owned()),
        message: finding.message,
        observed_generation: generation,
        extra: old.map(|old| old.extra.clone()).unwrap_or_default(),
    };
    if old == Some(&new) {
        return false;
    }
    match place {
        Some(index) => conditions[index] = new,
        None => conditions.push(new),
    }
    true
}

/// Root and dependents exist from the start, so their first status is as old as the object.
fn since_creation(meta: &ObjectMeta, now: Timestamp) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(now, |created| created.0)
}

/// Kubernetes keeps whole seconds; finer ones would make equal conditions look different after a round trip.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Oldest transition first, the root last.
fn sort(conditions: &mut [Condition]) {
    conditions.sort_by_key(|condition| (condition.type_ == READY, condition.last_transition_time.0));
}

/// The schema of a NodeClaim's list: conditions of older releases had neither reason nor message.
pub(crate) fn relaxed_list(generator: &mut SchemaGenerator) -> Schema {
    let mut item = Condition::json_schema(generator);
    if let Some(Value::Array(required)) = item.get_mut("required") {
        required.retain(|field| field != "reason" && field != "message");
    }
    if let Some(reason) = item.pointer_mut("/properties/reason").and_then(Value::as_object_mut) {
        reason.remove("minLength");
        reason.insert("pattern".into(), json!(patterns::CONDITION_REASON_OR_EMPTY));
    }
    json_schema!({"type": "array", "items": item})
}
