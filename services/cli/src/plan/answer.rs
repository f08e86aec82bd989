//! The answer as the plan format writes it.

use std::collections::BTreeMap;

use consolidation::{Consolidated, name_of};
use model::labels;
use model::price::MicroDollars;
use model::requirement::{Entry, Operator};
use serde::Serialize;
use solver::{NewNode, Plan, PodRef};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub nodes: Vec<AnswerNode>,
    pub existing: Vec<Existing>,
    pub unschedulable: Vec<Unschedulable>,
    pub cost: Cost,
    /// With `--consolidate` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<Command>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Vec<Blocked>>,
    pub stats: Stats,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerNode {
    pub name: String,
    pub node_pool: String,
    pub pods: Vec<String>,
    pub requirements: Vec<Entry>,
    pub instance_types: Vec<String>,
    pub launch: Launch,
    pub requests: BTreeMap<String, String>,
    /// Fewer values than `minValues` asked for remain (policy BestEffort).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub min_values_relaxed: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
    #[serde(serialize_with = "dollars")]
    pub price: MicroDollars,
}

#[derive(Clone, Debug, Serialize)]
pub struct Existing {
    pub node: String,
    pub pods: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Unschedulable {
    pub pod: String,
    pub reason: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    #[serde(serialize_with = "dollars")]
    pub hourly: MicroDollars,
    #[serde(serialize_with = "maybe_dollars")]
    pub lower_bound: Option<MicroDollars>,
    pub gap: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    pub reason: &'static str,
    pub method: &'static str,
    pub remove: Vec<String>,
    pub nodes: Vec<AnswerNode>,
    pub moves: Vec<Move>,
    #[serde(serialize_with = "dollars")]
    pub savings: MicroDollars,
}

#[derive(Clone, Debug, Serialize)]
pub struct Move {
    pub pod: String,
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Blocked {
    pub node: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub engine: &'static str,
    pub pods: usize,
    /// Kinds of pods that no rule can tell apart.
    pub classes: usize,
    pub solve_seconds: f64,
    pub solve_cpu_seconds: f64,
    pub peak_rss_bytes: u64,
    pub timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidate_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_dollars")]
    pub hourly_before: Option<MicroDollars>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_dollars")]
    pub hourly_after: Option<MicroDollars>,
}

fn dollars<S: serde::Serializer>(price: &MicroDollars, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(price.to_f64())
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn maybe_dollars<S: serde::Serializer>(
    price: &Option<MicroDollars>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match price {
        Some(price) => serializer.serialize_some(&price.to_f64()),
        None => serializer.serialize_none(),
    }
}

impl Answer {
    pub fn of(plan: &Plan, stats: Stats) -> Self {
        let mut unschedulable: Vec<Unschedulable> = plan
            .unschedulable
            .iter()
            .map(|u| Unschedulable { pod: u.pod.to_string(), reason: u.why.to_string() })
            .chain(plan.unreached.iter().map(|pod| Unschedulable {
                pod: pod.to_string(),
                reason: "not reached before the deadline: allow more time with --deadline".to_owned(),
            }))
            .collect();
        unschedulable.sort_by(|a, b| a.pod.cmp(&b.pod));
        let mut existing: Vec<Existing> = plan
            .existing
            .iter()
            .map(|e| Existing { node: e.node.to_string(), pods: sorted(&e.pods) })
            .collect();
        existing.sort_by(|a, b| a.node.cmp(&b.node));
        Self {
            nodes: plan.new_nodes.iter().enumerate().map(|(n, node)| AnswerNode::of(node, n)).collect(),
            existing,
            unschedulable,
            cost: Cost { hourly: plan.cost, lower_bound: plan.lower_bound, gap: plan.gap() },
            commands: None,
            blocked: None,
            stats,
        }
    }

    /// Fills in what is gained by taking nodes away afterwards.
    pub fn consolidated(&mut self, found: Consolidated) {
        for node in &mut self.nodes {
            node.pin();
        }
        self.stats.hourly_before = Some(found.before);
        self.stats.hourly_after = Some(found.after);
        self.stats.timed_out |= found.timed_out;
        self.blocked =
            Some(found.blocked.into_iter().map(|b| Blocked { node: b.node, reason: b.reason }).collect());
        self.commands = Some(found.commands.into_iter().map(Command::of).collect());
    }
}

impl Command {
    fn of(found: consolidation::Command) -> Self {
        let numbered = found.nodes.iter().zip(found.first..);
        Self {
            reason: found.method.reason().as_str(),
            method: found.method.consolidation_type(),
            remove: found.remove.iter().map(ToString::to_string).collect(),
            nodes: numbered.map(|(node, number)| AnswerNode::of(node, number)).collect(),
            moves: found
                .moves
                .into_iter()
                .map(|m| Move { pod: m.pod.to_string(), from: m.from, to: m.to })
                .collect(),
            savings: found.savings,
        }
    }
}

impl AnswerNode {
    /// `number` counts new nodes over the whole answer.
    pub fn of(node: &NewNode, number: usize) -> Self {
        let hidden = [labels::REGISTERED, labels::INITIALIZED, labels::HOSTNAME];
        let mut requirements: Vec<Entry> = node.requirements.to_entries();
        requirements.retain(|e| !hidden.contains(&e.key.as_str()));
        Self {
            name: name_of(number),
            node_pool: node.pool.to_string(),
            pods: sorted(&node.pods),
            requirements,
            instance_types: node.instance_types.iter().map(ToString::to_string).collect(),
            launch: Launch {
                instance_type: node.launch.instance_type.to_string(),
                zone: node.launch.zone.to_string(),
                capacity_type: node.launch.capacity_type.as_str(),
                reservation_id: node.launch.reservation.as_ref().map(ToString::to_string),
                price: node.launch.price,
            },
            requests: node
                .requests
                .iter()
                .map(|(name, amount)| (name.to_owned(), amount.to_string()))
                .collect(),
            min_values_relaxed: node.min_values_relaxed,
        }
    }

    /// Narrows the node to what it was launched as: later steps build on that.
    pub fn pin(&mut self) {
        self.instance_types = vec![self.launch.instance_type.clone()];
        let is = [
            (labels::INSTANCE_TYPE, self.launch.instance_type.as_str()),
            (labels::CAPACITY_TYPE, self.launch.capacity_type),
            (labels::ZONE, self.launch.zone.as_str()),
        ];
        self.requirements.retain(|e| !is.iter().any(|(key, _)| *key == e.key));
        self.requirements.extend(is.map(|(key, value)| Entry::new(key, Operator::In, [value])));
        self.requirements.sort_by(|a, b| a.key.cmp(&b.key));
    }
}

pub(super) fn sorted(pods: &[PodRef]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(ToString::to_string).collect();
    names.sort();
    names
}
