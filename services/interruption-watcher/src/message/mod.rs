//! What a body from the queue says. Pure: text in, [`Message`] or [`Malformed`] out; no clock, no cluster, no judgement about
//! what to do.
//!
//! Bodies are EventBridge envelopes. The key is (version, source, detail-type); a key that is not known, like an empty body,
//! is a [`Kind::NoOp`]: rules are account-wide and others may write to the queue too. A field of the wrong type, or a known
//! kind without what makes it usable, is malformed: it will not get better, and the words say where the trouble is.

mod fields;
mod kind;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use fields::Malformed;
use fields::{Object, elements, instance_id, object, text, text_or_empty};
pub(crate) use kind::Kind;

/// Most that SQS delivers in one body. Longer text did not come from a queue.
pub(crate) const LONGEST: usize = 1 << 20;

const VERSION: &str = "0";
const EC2: &str = "aws.ec2";
const HEALTH: &str = "aws.health";

/// A body that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// EventBridge's id of the event; duplicates carry the same.
    pub(crate) id: String,
    /// Empty where the envelope does not tell.
    pub(crate) account: String,
    pub(crate) region: String,
    /// When AWS says that it happened.
    pub(crate) time: Option<Timestamp>,
    pub(crate) kind: Kind,
    /// Instances it names, sorted, each once.
    pub(crate) instances: Vec<String>,
    /// What else it says that a person wants to know, or why there is nothing to do.
    pub(crate) words: String,
}

pub(crate) fn parse(body: &str) -> Result<Message, Malformed> {
    if body.trim().is_empty() {
        return Ok(Message::nothing("the body is empty"));
    }
    if body.len() > LONGEST {
        return Err(Malformed::at(
            "body",
            format!("{} bytes, no queue delivers more than {LONGEST}", body.len()),
        ));
    }
    let value: Value =
        serde_json::from_str(body).map_err(|error| Malformed::at("body", format!("no JSON: {error}")))?;
    let envelope = object(&value, "body")?;
    let part = |name: &'static str| text_or_empty(envelope, name, name);
    let (version, source, detail_type) = (part("version")?, part("source")?, part("detail-type")?);
    for (at, resource) in elements(envelope, "resources", "resources")?.iter().enumerate() {
        if !resource.is_string() {
            return Err(Malformed::wrong_type(&format!("resources[{at}]"), "a string", resource));
        }
    }
    let base = Message {
        id: part("id")?.to_owned(),
        account: part("account")?.to_owned(),
        region: part("region")?.to_owned(),
        time: time(part("time")?)?,
        ..Message::nothing("")
    };
    let told = match (version, source, detail_type) {
        (VERSION, EC2, "EC2 Spot Instance Interruption Warning") => {
            interrupted(detail(envelope)?, Kind::SpotInterrupted)?
        }
        (VERSION, EC2, "EC2 Capacity Reservation Instance Interruption Warning") => {
            interrupted(detail(envelope)?, Kind::CapacityReservationInterrupted)?
        }
        (VERSION, EC2, "EC2 Instance Rebalance Recommendation") => {
            Told::one(Kind::RebalanceRecommendation, instance_id(detail(envelope)?)?, String::new())
        }
        (VERSION, EC2, "EC2 Instance State-change Notification") => state_changed(detail(envelope)?)?,
        (VERSION, HEALTH, "AWS Health Event") => health(detail(envelope)?)?,
        _ => {
            let key = format!("version {version:?}, source {source:?}, detail-type {detail_type:?}");
            Told::nothing(format!("no message that concerns nodes: {key}"))
        }
    };
    Ok(Message { kind: told.kind, instances: told.instances, words: told.words, ..base })
}

impl Message {
    fn nothing(words: &str) -> Self {
        Self {
            id: String::new(),
            account: String::new(),
            region: String::new(),
            time: None,
            kind: Kind::NoOp,
            instances: Vec::new(),
            words: words.to_owned(),
        }
    }
}

/// What the detail of an envelope adds.
struct Told {
    kind: Kind,
    instances: Vec<String>,
    words: String,
}

impl Told {
    fn one(kind: Kind, instance: &str, words: String) -> Self {
        Self { kind, instances: vec![instance.to_owned()], words }
    }

    fn nothing(words: String) -> Self {
        Self { kind: Kind::NoOp, instances: Vec::new(), words }
    }
}

fn detail(envelope: &Object) -> Result<&Object, Malformed> {
    let detail = envelope.get("detail").ok_or_else(|| Malformed::at("detail", "it is missing".to_owned()))?;
    object(detail, "detail")
}

fn time(text: &str) -> Result<Option<Timestamp>, Malformed> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Malformed::at("time", format!("{text:?} is no RFC 3339 time")))
}

fn interrupted(detail: &Object, kind: Kind) -> Result<Told, Malformed> {
    let action = text_or_empty(detail, "instance-action", "detail.instance-action")?;
    let words = if action.is_empty() { String::new() } else { format!("EC2 will {action} it") };
    Ok(Told::one(kind, instance_id(detail)?, words))
}

fn state_changed(detail: &Object) -> Result<Told, Malformed> {
    let (instance, state) = (instance_id(detail)?, text(detail, "state", "detail.state")?);
    let kind = match state.to_ascii_lowercase().as_str() {
        "stopping" | "stopped" => Kind::InstanceStopped,
        "shutting-down" | "terminated" => Kind::InstanceTerminated,
        _ => Kind::NoOp,
    };
    Ok(Told::one(kind, instance, format!("its state is {state}")))
}

/// Only maintenance of EC2 instances that still lies ahead calls for a drain.
fn health(detail: &Object) -> Result<Told, Malformed> {
    let part = |name: &'static str| text_or_empty(detail, name, &format!("detail.{name}"));
    let (service, category, status) = (part("service")?, part("eventTypeCategory")?, part("statusCode")?);
    let code = part("eventTypeCode")?;
    let mut instances = BTreeSet::new();
    for (at, entity) in elements(detail, "affectedEntities", "detail.affectedEntities")?.iter().enumerate() {
        let path = format!("detail.affectedEntities[{at}]");
        let entity = object(entity, &path)?;
        let value = text_or_empty(entity, "entityValue", &format!("{path}.entityValue"))?;
        // Volumes and others are affected entities too.
        if fields::is_instance_id(value) {
            instances.insert(value.to_owned());
        }
    }
    if service != "EC2" || category != "scheduledChange" {
        return Ok(Told::nothing(format!("a health event of service {service:?}, category {category:?}")));
    }
    if status.eq_ignore_ascii_case("closed") {
        return Ok(Told::nothing(format!("the scheduled change {code} is over")));
    }
    let words = if code.is_empty() { "a scheduled change".to_owned() } else { code.to_owned() };
    Ok(Told { kind: Kind::ScheduledChange, instances: instances.into_iter().collect(), words })
}
