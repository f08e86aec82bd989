//! The cluster with and without the change: nodes, dollars per hour, where pods go, which of them find no node.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use anyhow::{Context as _, Result};
use model::price::MicroDollars;
use model::requirement::{Entry, Operator};
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use serde::Serialize;

use super::Answers;
use crate::offering::{Offering, dollars, maybe_dollars};
use crate::plan::answer::{AnswerNode, Existing, Launch, Move, Unschedulable};
use crate::plan::people::People;
use crate::plan::table::{BOLD, Paint, columns, few, left_over, nodes, plural};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    /// The cluster as it is, with the nodes that its pending pods already need.
    today: Side,
    /// The same after the change.
    changed: Side,
    /// Nodes to create after the change.
    nodes: Vec<AnswerNode>,
    /// Pods that go to nodes that are there.
    existing: Vec<Existing>,
    unschedulable: Vec<Unschedulable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Vec<Command>>,
    /// Which replica answered, from which version of its snapshot.
    answered_by: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Side {
    pub(crate) nodes: usize,
    #[serde(serialize_with = "dollars")]
    pub(crate) hourly: MicroDollars,
    pub(crate) unschedulable: usize,
    /// What the nodes that are to be created cost at least, where that is known.
    #[serde(serialize_with = "maybe_dollars")]
    pub(crate) lower_bound: Option<MicroDollars>,
    /// After consolidation, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_dollars")]
    pub(crate) hourly_after_consolidation: Option<MicroDollars>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    reason: String,
    method: String,
    remove: Vec<String>,
    nodes: Vec<AnswerNode>,
    moves: Vec<Move>,
    #[serde(serialize_with = "dollars")]
    savings: MicroDollars,
}

/// Nodes of ours with the plan's, before the change and after it. `remove` are the objects that the change leaves out.
pub(super) fn sides(
    snapshot: &pb::GetSnapshotResponse,
    remove: &[String],
    before: &pb::PlanResponse,
    after: &pb::PlanResponse,
) -> (Side, Side) {
    let gone: BTreeSet<&str> = remove.iter().filter_map(|object| node_name(object)).collect();
    let ours = |n: &&pb::NodeSummary| !n.node_claim.is_empty();
    let there: Vec<&pb::NodeSummary> = snapshot.node_summaries.iter().filter(ours).collect();
    let left: Vec<&pb::NodeSummary> =
        there.iter().copied().filter(|n| !gone.contains(n.name.as_str())).collect();
    (Side::new(&there, before), Side::new(&left, after))
}

impl TryFrom<Answers> for Comparison {
    type Error = anyhow::Error;

    fn try_from(Answers { today, changed, plan, .. }: Answers) -> Result<Self> {
        let version = plan.snapshot.unwrap_or_default();
        let commands = plan.consolidation.map(|found| found.commands);
        let left_over =
            |left: types::Unschedulable| Unschedulable { pod: pod_name(left.pod), reason: left.reason };
        Ok(Self {
            today,
            changed,
            nodes: plan.new_nodes.into_iter().map(planned).collect::<Result<_>>()?,
            existing: placed(plan.placements),
            unschedulable: plan.unschedulable.into_iter().map(left_over).collect(),
            commands: commands.map(|all| all.into_iter().map(command).collect::<Result<_>>()).transpose()?,
            answered_by: format!("{} at version {} of its snapshot", version.replica, version.version),
        })
    }
}

impl Comparison {
    pub(super) fn print(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        let (today, changed) = (&self.today, &self.changed);
        let mut rows = vec![
            counted("Nodes", today.nodes, changed.nodes),
            priced("$ per hour", today.hourly, changed.hourly),
            counted("Pods without a node", today.unschedulable, changed.unschedulable),
        ];
        if let (Some(a), Some(b)) = (today.hourly_after_consolidation, changed.hourly_after_consolidation) {
            rows.push(priced("$ per hour after consolidation", a, b));
        }
        columns(out, &["", "TODAY", "CHANGED", "DIFFERENCE"], &rows, &[1, 2, 3])?;
        if !self.nodes.is_empty() {
            let count = self.nodes.len();
            let title = format!("{count} node{} to create", plural(count));
            writeln!(out, "\n{}", paint.with(BOLD, &title))?;
            nodes(out, &self.nodes, &People::default())?;
        }
        if !self.existing.is_empty() {
            let count: usize = self.existing.iter().map(|e| e.pods.len()).sum();
            let title = format!("{count} pod{} onto existing nodes", plural(count));
            writeln!(out, "\n{}", paint.with(BOLD, &title))?;
            let row = |e: &Existing| vec![e.node.clone(), e.pods.len().to_string(), few(&e.pods)];
            columns(out, &["NODE", "PODS", ""], &self.existing.iter().map(row).collect::<Vec<_>>(), &[1])?;
        }
        if !self.unschedulable.is_empty() {
            left_over(out, &self.unschedulable, paint)?;
        }
        for (number, command) in self.commands.iter().flatten().enumerate() {
            let what = if command.nodes.is_empty() { "delete" } else { "replace" };
            let (moves, removed) = (command.moves.len(), few(&command.remove));
            writeln!(
                out,
                "\n{}. {what} {removed} ({}), saves ${} per hour, moves {moves} pod{}",
                number + 1,
                command.reason,
                command.savings,
                plural(moves),
            )?;
            if !command.nodes.is_empty() {
                nodes(out, &command.nodes, &People::default())?;
            }
        }
        writeln!(out, "\nNothing was changed. Answered by {}.", self.answered_by)
    }
}

impl Side {
    fn new(there: &[&pb::NodeSummary], plan: &pb::PlanResponse) -> Self {
        let paid = |n: &&pb::NodeSummary| n.offering.as_ref().map_or(0, |o| o.micro_usd_per_hour);
        let after = plan.consolidation.as_ref().map(|c| MicroDollars::new(c.after_micro_usd_per_hour));
        Self {
            nodes: there.len() + plan.new_nodes.len(),
            hourly: MicroDollars::new(there.iter().map(paid).sum::<i64>() + plan.micro_usd_per_hour),
            unschedulable: plan.unschedulable.len(),
            lower_bound: plan.lower_bound_micro_usd_per_hour.map(MicroDollars::new),
            hourly_after_consolidation: after,
        }
    }
}

/// The node that `--remove` leaves out; kinds are written in any case.
fn node_name(object: &str) -> Option<&str> {
    let (kind, name) = object.split_once('/')?;
    kind.eq_ignore_ascii_case("node").then_some(name)
}

fn counted(what: &str, before: usize, after: usize) -> Vec<String> {
    let difference = i64::try_from(after).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX);
    vec![what.to_owned(), before.to_string(), after.to_string(), signed(difference, difference.abs())]
}

fn priced(what: &str, before: MicroDollars, after: MicroDollars) -> Vec<String> {
    let difference = after.get() - before.get();
    let size = MicroDollars::new(difference.abs());
    vec![what.to_owned(), before.to_string(), after.to_string(), signed(difference, size)]
}

fn signed(difference: i64, size: impl ToString) -> String {
    let sign = match difference {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", size.to_string())
}

fn pod_name(pod: Option<types::PodRef>) -> String {
    let pod = pod.unwrap_or_default();
    format!("{}/{}", pod.namespace, pod.name)
}

fn placed(placements: Vec<types::Placement>) -> Vec<Existing> {
    let mut by_node: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for placement in placements {
        by_node.entry(placement.node).or_default().push(pod_name(placement.pod));
    }
    by_node
        .into_iter()
        .map(|(node, mut pods)| {
            pods.sort();
            Existing { node, pods }
        })
        .collect()
}

fn planned(node: types::PlannedNode) -> Result<AnswerNode> {
    let offering =
        node.launch.with_context(|| format!("the provisioner names no offering for {}", node.name))?;
    let reservation_id = Some(offering.reservation_id.clone()).filter(|id| !id.is_empty());
    let offering = Offering::from(offering);
    let mut pods: Vec<String> = node.pods.into_iter().map(|pod| pod_name(Some(pod))).collect();
    pods.sort();
    Ok(AnswerNode {
        name: node.name,
        node_pool: node.node_pool,
        pods,
        requirements: node.requirements.into_iter().map(requirement).collect::<Result<_>>()?,
        instance_types: node.instance_types,
        launch: Launch {
            instance_type: offering.instance_type,
            zone: offering.zone,
            capacity_type: offering.capacity_type,
            reservation_id,
            price: offering.price_per_hour,
        },
        requests: node.requests.unwrap_or_default().quantities.into_iter().collect(),
        min_values_relaxed: false,
    })
}

fn requirement(own: types::Requirement) -> Result<Entry> {
    let operator = match own.operator() {
        types::Operator::Unspecified => None,
        types::Operator::In => Some(Operator::In),
        types::Operator::NotIn => Some(Operator::NotIn),
        types::Operator::Exists => Some(Operator::Exists),
        types::Operator::DoesNotExist => Some(Operator::DoesNotExist),
        types::Operator::Gt => Some(Operator::Gt),
        types::Operator::Lt => Some(Operator::Lt),
        types::Operator::Gte => Some(Operator::Gte),
        types::Operator::Lte => Some(Operator::Lte),
    };
    let operator = operator.with_context(|| {
        format!("the provisioner answers with an operator on {} that this program does not know", own.key)
    })?;
    Ok(Entry::new(&own.key, operator, own.values))
}

fn command(own: pb::PlannedCommand) -> Result<Command> {
    let moved = |m: pb::PlannedMove| Move { pod: pod_name(m.pod), from: m.from, to: m.to };
    Ok(Command {
        reason: own.reason,
        method: own.method,
        remove: own.remove_nodes,
        nodes: own.new_nodes.into_iter().map(planned).collect::<Result<_>>()?,
        moves: own.moves.into_iter().map(moved).collect(),
        savings: MicroDollars::new(own.saving_micro_usd_per_hour),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(micro: i64) -> types::Offering {
        types::Offering {
            instance_type: "m7g.large".into(),
            zone: "us-west-2a".into(),
            capacity_type: types::CapacityType::OnDemand.into(),
            micro_usd_per_hour: micro,
            ..types::Offering::default()
        }
    }

    fn there(name: &str, claim: &str, micro: i64) -> pb::NodeSummary {
        pb::NodeSummary {
            name: name.into(),
            node_claim: claim.into(),
            offering: Some(offering(micro)),
            ..pb::NodeSummary::default()
        }
    }

    fn node(name: &str, micro: i64) -> types::PlannedNode {
        types::PlannedNode {
            name: name.into(),
            launch: Some(offering(micro)),
            ..types::PlannedNode::default()
        }
    }

    #[test]
    fn a_removed_node_is_not_paid_for_and_its_replacement_is() {
        let snapshot = pb::GetSnapshotResponse {
            node_summaries: vec![
                there("a", "claim-a", 300_000),
                there("b", "claim-b", 200_000),
                there("c", "", 0),
            ],
            ..pb::GetSnapshotResponse::default()
        };
        let after = pb::PlanResponse {
            new_nodes: vec![node("new-0", 100_000)],
            micro_usd_per_hour: 100_000,
            ..pb::PlanResponse::default()
        };
        let remove = ["node/a".to_owned(), "Pod/default/x".to_owned()];
        let (today, changed) = sides(&snapshot, &remove, &pb::PlanResponse::default(), &after);
        let compared = Comparison::try_from(Answers { today, awaited: 0, changed, plan: after }).unwrap();
        assert_eq!(
            (compared.today.nodes, compared.today.hourly.get()),
            (2, 500_000),
            "a foreign node does not count"
        );
        assert_eq!((compared.changed.nodes, compared.changed.hourly.get()), (2, 300_000));
        let mut text = Vec::new();
        compared.print(&mut text, &Paint(false)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("-0.2"), "{text}");
        assert!(text.contains("1 node to create") && text.contains("m7g.large"), "{text}");
    }

    #[test]
    fn an_answer_of_a_newer_provisioner_is_refused_by_name() {
        let odd = types::Requirement { key: "a".into(), operator: 99, ..types::Requirement::default() };
        let mut own = node("new-0", 1);
        own.requirements = vec![odd];
        assert!(planned(own).unwrap_err().to_string().contains("on a "));
    }
}
