//! Decisions from writes that were not stored: nodes launched, disrupted and deleted, pods evicted. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::labels;
use model::price::MicroDollars;
use proto::shadow::v1::{SeenNodeClaim, Write};
use runtime::Service;
use serde::Serialize;
use serde_json::Value;

use super::prices::{Prices, time};
use crate::offering::{Offering, maybe_dollars};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A NodeClaim for pods that wait.
    Launch,
    /// A NodeClaim in place of nodes that a disruption command removes.
    Replace,
    /// A disruption command.
    Disrupt,
    /// A NodeClaim deleted without a command: expired, unhealthy, interrupted, of a static pool that shrinks, orphaned.
    Delete,
    /// A pod of a node that is drained.
    Evict,
    /// A Node object deleted.
    DeleteNode,
    /// Everything else: conditions, labels, taints, finalizers.
    Write,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Replace => "replace",
            Self::Disrupt => "disrupt",
            Self::Delete => "delete",
            Self::Evict => "evict",
            Self::DeleteNode => "delete-node",
            Self::Write => "write",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decision {
    pub(super) decision: Kind,
    pub(super) service: String,
    pub(super) node_pool: String,
    /// Nodes that come or go.
    pub(super) nodes: u64,
    /// NodeClaims, pods or other objects it is about.
    pub(super) objects: Vec<String>,
    /// Of a launch, the cheapest that its claim allows; of a removal, what goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offering: Option<Offering>,
    /// Instance types that a launch would have asked for.
    pub(super) instance_types: usize,
    /// How much more the cluster would cost an hour; negative for savings.
    #[serde(serialize_with = "maybe_dollars", rename = "changePerHour")]
    pub(super) change: Option<MicroDollars>,
    /// Method of a command, fields of another write.
    pub(super) detail: String,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// How often it was decided: what is not stored is decided again.
    pub(super) times: u64,
}

impl Decision {
    pub(super) fn changes_nodes(&self) -> bool {
        self.decision != Kind::Write
    }
}

/// Of several services, the latest first.
pub(super) fn of(writes: Vec<(Service, Write)>, claims: &[SeenNodeClaim], prices: &Prices) -> Vec<Decision> {
    let known: BTreeMap<&str, &SeenNodeClaim> =
        claims.iter().map(|claim| (claim.name.as_str(), claim)).collect();
    let mut commands: BTreeMap<String, Decision> = BTreeMap::new();
    let mut all = Vec::new();
    for (service, write) in writes {
        let change: Value = serde_json::from_str(&write.change).unwrap_or_default();
        let one = single(service, &write, &change, &known, prices);
        match note_in(&change).filter(|_| one.decision == Kind::Disrupt) {
            Some(note) => join(&mut commands, &note, one),
            None => all.push(one),
        }
    }
    all.extend(commands.into_values());
    all.sort_by(|a, b| (b.last, a.decision, &a.objects).cmp(&(a.last, b.decision, &b.objects)));
    all
}

fn single(
    service: Service,
    write: &Write,
    change: &Value,
    known: &BTreeMap<&str, &SeenNodeClaim>,
    prices: &Prices,
) -> Decision {
    let mut one = Decision {
        decision: kind(write, change),
        service: service.as_str().to_owned(),
        node_pool: String::new(),
        nodes: 0,
        objects: vec![match write.namespace.as_str() {
            "" => write.name.clone(),
            namespace => format!("{namespace}/{}", write.name),
        }],
        offering: None,
        instance_types: 0,
        change: None,
        detail: String::new(),
        first: time(write.first.as_ref()),
        last: time(write.last.as_ref()),
        times: write.times,
    };
    match one.decision {
        Kind::Launch | Kind::Replace => {
            let pool = change["metadata"]["labels"][labels::NODEPOOL].as_str();
            one.node_pool = pool.unwrap_or_default().to_owned();
            one.nodes = write.at_once;
            (one.instance_types, one.offering) = prices.cheapest(&change["spec"]["requirements"]);
            let count = i64::try_from(one.nodes).unwrap_or(i64::MAX);
            one.change = one.offering.as_ref().map(|each| each.price_per_hour.saturating_mul(count));
        }
        Kind::Disrupt | Kind::Delete => {
            one.nodes = 1;
            if let Some(claim) = known.get(write.name.as_str()) {
                one.node_pool = claim.node_pool.clone();
                one.offering = prices.exactly(&claim.instance_type, &claim.zone, &claim.capacity_type);
            }
            one.change = one.offering.as_ref().map(|each| each.price_per_hour.saturating_mul(-1));
        }
        Kind::Evict | Kind::DeleteNode => {}
        Kind::Write => {
            let sub =
                if write.subresource.is_empty() { String::new() } else { format!("/{}", write.subresource) };
            one.detail = format!("{} {}{sub}", write.action, write.resource);
        }
    }
    one
}

fn kind(write: &Write, change: &Value) -> Kind {
    let of_object = write.subresource.is_empty();
    match (write.action.as_str(), write.resource.as_str()) {
        ("create", "nodeclaims") if change["metadata"]["annotations"][labels::COMMAND].is_string() => {
            Kind::Replace
        }
        ("create", "nodeclaims") => Kind::Launch,
        ("delete", "nodeclaims") => Kind::Delete,
        ("delete", "nodes") => Kind::DeleteNode,
        ("evict", _) => Kind::Evict,
        ("patch", "nodeclaims") if of_object && note_in(change).is_some() => Kind::Disrupt,
        _ => Kind::Write,
    }
}

/// What disruption writes on a claim that is to go: JSON with the command's id, method and saving.
fn note_in(change: &Value) -> Option<Value> {
    let text = change["metadata"]["annotations"][labels::COMMAND].as_str()?;
    serde_json::from_str(text).ok().filter(|note: &Value| note["id"].is_string())
}

/// Claims of one command are one decision; its saving is of the whole command, replacements included.
fn join(commands: &mut BTreeMap<String, Decision>, note: &Value, one: Decision) {
    let id = note["id"].as_str().unwrap_or_default().to_owned();
    let Some(command) = commands.get_mut(&id) else {
        let saves = note["saves"].as_i64().unwrap_or(0).saturating_neg();
        let needs = note["needs"].as_u64().unwrap_or(0);
        let method = note["method"].as_str().unwrap_or_default();
        let detail = match needs {
            0 => method.to_owned(),
            needs => format!("{method}, {needs} replacement(s)"),
        };
        commands.insert(id, Decision { change: Some(MicroDollars::new(saves)), detail, ..one });
        return;
    };
    command.nodes += one.nodes;
    command.objects.extend(one.objects);
    command.offering = command.offering.take().filter(|kept| one.offering.as_ref() == Some(kept));
    command.first = command.first.min(one.first);
    command.last = command.last.max(one.last);
    command.times = command.times.max(one.times);
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::shadow::prices::tests::three;

    pub(crate) fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    fn write(action: &str, resource: &str, name: &str, change: &Value, last: i64) -> Write {
        Write {
            action: action.into(),
            resource: resource.into(),
            name: name.into(),
            change: change.to_string(),
            first: at(1),
            last: at(100 + last),
            times: 2,
            at_once: 1,
            ..Write::default()
        }
    }

    pub(crate) fn claim(
        name: &str,
        instance_type: &str,
        created: i64,
        deleted: Option<i64>,
    ) -> SeenNodeClaim {
        SeenNodeClaim {
            name: name.into(),
            node_pool: "general".into(),
            instance_type: instance_type.into(),
            zone: "a".into(),
            capacity_type: "on-demand".into(),
            created_at: at(created),
            deleted_at: deleted.and_then(at),
        }
    }

    pub(crate) fn some() -> Vec<Decision> {
        let note =
            json!({"id": "c1", "method": "multi", "removes": 2, "needs": 1, "saves": 107_000}).to_string();
        let mark = json!({"metadata": {"annotations": {labels::COMMAND: note}}});
        let new = |annotations: Value| {
            json!({
                "metadata": {"labels": {labels::NODEPOOL: "general"}, "annotations": annotations},
                "spec": {"requirements": [{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c5.large", "m5.large"]}]},
            })
        };
        let launch = Write { at_once: 3, ..write("create", "nodeclaims", "n-1", &new(json!({})), 9) };
        let status = Write {
            subresource: "status".into(),
            ..write("patch", "nodeclaims", "a", &json!({"status": {}}), 4)
        };
        let evict = Write { namespace: "shop".into(), ..write("evict", "pods", "p", &json!({}), 3) };
        let writes = vec![
            (Service::Provisioner, launch),
            (
                Service::Provisioner,
                write("create", "nodeclaims", "n-2", &new(json!({labels::COMMAND: "c1"})), 8),
            ),
            (Service::Disruption, write("patch", "nodeclaims", "a", &mark, 7)),
            (Service::Disruption, write("patch", "nodeclaims", "b", &mark, 6)),
            (Service::Disruption, write("delete", "nodeclaims", "b", &json!({}), 5)),
            (Service::Disruption, status),
            (Service::Termination, evict),
        ];
        of(writes, &[claim("a", "m5.large", 0, None), claim("b", "m5.large", 0, None)], &three())
    }

    #[test]
    fn writes_become_decisions_with_nodes_and_money() {
        let reply: Vec<_> = some()
            .into_iter()
            .map(|each| (each.decision, each.nodes, each.change.map(MicroDollars::get), each.detail))
            .collect();
        assert_eq!(
            reply,
            [
                (Kind::Launch, 3, Some(90_000), String::new()),
                (Kind::Replace, 1, Some(30_000), String::new()),
                (Kind::Disrupt, 2, Some(-107_000), "multi, 1 replacement(s)".to_owned()),
                (Kind::Delete, 1, Some(-96_000), String::new()),
                (Kind::Write, 0, None, "patch nodeclaims/status".to_owned()),
                (Kind::Evict, 0, None, String::new()),
            ]
        );
    }
}
