//! What disruption says about a node.

use std::io::{self, Write};

use jiff::Timestamp;
use model::price::MicroDollars;
use proto::disruption::v1 as pb;
use serde::Serialize;

use crate::columns::{self, Align};
use crate::offering::Offering;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    node: String,
    node_claim: String,
    node_pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offering: Option<Offering>,
    disruptable: bool,
    summary: String,
    blockers: Vec<Blocker>,
    /// Of allocatable, as pods request it.
    cpu_percent: u32,
    memory_percent: u32,
    /// In thousandths of a plain pod.
    disruption_cost_milli: i64,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "crate::offering::maybe_dollars")]
    saving_per_hour: Option<MicroDollars>,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_probe: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    probed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
    budgets: Vec<Budget>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Blocker {
    rule: String,
    detail: String,
    remedy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    id: String,
    reason: String,
    method: String,
    phase: &'static str,
    detail: String,
    #[serde(serialize_with = "crate::offering::dollars")]
    saving_per_hour: MicroDollars,
    pods_moved: u32,
    /// Until the saving has made up for the time in which old and new nodes are both paid.
    payback_seconds: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Budget {
    reason: String,
    allowed: u32,
    in_use: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    problem: String,
}

/// What the service sends where no budget limits anything.
const UNLIMITED: u32 = policy::budget::UNLIMITED;

fn phase(phase: pb::CommandPhase) -> &'static str {
    match phase {
        pb::CommandPhase::Unspecified => "unknown",
        pb::CommandPhase::Validating => "validating",
        pb::CommandPhase::Replacing => "replacing",
        pb::CommandPhase::Removing => "removing",
        pb::CommandPhase::Done => "done",
        pb::CommandPhase::RolledBack => "rolled back",
    }
}

impl Answer {
    pub(super) fn new(
        answer: pb::ExplainNodeResponse,
        budgets: impl IntoIterator<Item = pb::BudgetState>,
    ) -> Self {
        let node = answer.candidate.unwrap_or_default();
        let blocker = |b: pb::Blocker| Blocker { rule: b.rule, detail: b.detail, remedy: b.remedy };
        Self {
            node: node.node,
            node_claim: node.node_claim.map(|claim| claim.name).unwrap_or_default(),
            node_pool: node.node_pool,
            offering: node.offering.map(Offering::from),
            disruptable: node.disruptable,
            summary: answer.summary,
            blockers: node.blockers.into_iter().map(blocker).collect(),
            cpu_percent: node.cpu_percent,
            memory_percent: node.memory_percent,
            disruption_cost_milli: node.disruption_cost_milli,
            saving_per_hour: node.saving_micro_usd_per_hour.map(MicroDollars::new),
            last_probe: answer.last_probe,
            probed_at: answer.probed_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok()),
            command: answer.command.map(|command| Command {
                phase: phase(command.phase()),
                id: command.id,
                reason: command.reason,
                method: command.method,
                detail: command.detail,
                saving_per_hour: MicroDollars::new(command.saving_micro_usd_per_hour),
                pods_moved: command.pods_moved,
                payback_seconds: command.payback_seconds,
            }),
            budgets: budgets
                .into_iter()
                .map(|b| Budget {
                    reason: b.reason,
                    allowed: b.allowed,
                    in_use: b.in_use,
                    problem: b.problem,
                })
                .collect(),
        }
    }
}

pub(super) fn print(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    writeln!(out, "node {}, NodeClaim {}, NodePool {}", answer.node, answer.node_claim, answer.node_pool)?;
    if let Some(offering) = &answer.offering {
        writeln!(out, "{offering}")?;
    }
    let cost = answer.disruption_cost_milli;
    writeln!(
        out,
        "requested: cpu {} %, memory {} %; cost of disrupting it {}.{:03}\n",
        answer.cpu_percent,
        answer.memory_percent,
        cost / 1000,
        (cost % 1000).abs()
    )?;
    writeln!(out, "{}", answer.summary)?;
    for blocker in &answer.blockers {
        writeln!(out, "  [{}] {}", blocker.rule, blocker.detail)?;
        if !blocker.remedy.is_empty() {
            writeln!(out, "      what would change it: {}", blocker.remedy)?;
        }
    }
    if let Some(command) = &answer.command {
        let Command { id, reason, method, phase, detail, saving_per_hour, pods_moved, payback_seconds } =
            command;
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        writeln!(out, "\npart of command {id} ({reason}, {method}), {phase}{detail}")?;
        let payback = match payback_seconds {
            ..=0 => String::new(),
            seconds => format!(", pays for itself after {} minutes", (seconds + 59) / 60),
        };
        let saving = saving_per_hour.to_f64();
        writeln!(out, "it saves ${saving:.4} an hour, moves {pods_moved} pods{payback}")?;
    }
    if !answer.last_probe.is_empty() {
        let when = answer.probed_at.map(|at| format!(" at {}", at.strftime("%F %T UTC"))).unwrap_or_default();
        writeln!(out, "\nlast what-if{when}: {}", answer.last_probe)?;
    }
    if let Some(saving) = answer.saving_per_hour {
        writeln!(out, "it would save ${:.4} an hour", saving.to_f64())?;
    }
    budgets(out, answer)
}

fn budgets(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    if answer.budgets.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nbudgets of NodePool {}", answer.node_pool)?;
    let row = |budget: &Budget| {
        let limited = budget.allowed < UNLIMITED;
        [
            budget.reason.clone(),
            if limited { budget.allowed.to_string() } else { "no limit".to_owned() },
            budget.in_use.to_string(),
            budget.problem.clone(),
        ]
    };
    let rows: Vec<[String; 4]> = answer.budgets.iter().map(row).collect();
    let headings =
        [("REASON", Align::Left), ("ALLOWED", Align::Right), ("DISRUPTING", Align::Right), ("", Align::Left)];
    columns::print(out, headings, &rows)
}

#[cfg(test)]
mod tests {
    use proto::types::v1 as types;

    use super::*;

    fn candidate() -> pb::Candidate {
        pb::Candidate {
            node: "ip-10-0-1-2".into(),
            node_claim: Some(types::ObjectRef { name: "default-x7k2p".into(), uid: "u".into() }),
            node_pool: "default".into(),
            offering: Some(types::Offering {
                instance_type: "m5.large".into(),
                zone: "us-east-1a".into(),
                capacity_type: types::CapacityType::Spot.into(),
                micro_usd_per_hour: 29_800,
                ..types::Offering::default()
            }),
            cpu_percent: 35,
            memory_percent: 20,
            disruption_cost_milli: 4000,
            ..pb::Candidate::default()
        }
    }

    fn printed(answer: pb::ExplainNodeResponse, budgets: Vec<pb::BudgetState>) -> String {
        let mut out = Vec::new();
        print(&mut out, &Answer::new(answer, budgets)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_person_sees_what_holds_a_node_and_what_would_change_it() {
        let answer = pb::ExplainNodeResponse {
            candidate: Some(pb::Candidate {
                blockers: vec![pb::Blocker {
                    rule: "pdb".into(),
                    detail: "PDB default/web allows no disruption of pod default/web-1".into(),
                    remedy: "one more healthy pod".into(),
                }],
                ..candidate()
            }),
            summary: "it stays: a PDB holds it".into(),
            last_probe: "no cheaper node can replace it".into(),
            probed_at: Some(prost_types::Timestamp { seconds: 1_790_000_000, nanos: 0 }),
            command: None,
        };
        let budget = |reason: &str, allowed| pb::BudgetState {
            node_pool: "default".into(),
            reason: reason.into(),
            allowed,
            in_use: 1,
            problem: String::new(),
        };
        let text = printed(answer, vec![budget("Empty", 1), budget("Drifted", UNLIMITED)]);
        let expected = "\
node ip-10-0-1-2, NodeClaim default-x7k2p, NodePool default
m5.large spot in us-east-1a, $0.0298 an hour, $21.75 a month
requested: cpu 35 %, memory 20 %; cost of disrupting it 4.000

it stays: a PDB holds it
  [pdb] PDB default/web allows no disruption of pod default/web-1
      what would change it: one more healthy pod

last what-if at 2026-09-21 14:13:20 UTC: no cheaper node can replace it

budgets of NodePool default
REASON    ALLOWED  DISRUPTING
Empty           1           1
Drifted  no limit           1
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_command_under_way_is_shown_with_its_phase() {
        let answer = pb::ExplainNodeResponse {
            candidate: Some(pb::Candidate {
                disruptable: true,
                saving_micro_usd_per_hour: Some(12_000),
                ..candidate()
            }),
            summary: "it is going".into(),
            command: Some(pb::Command {
                id: "c1".into(),
                reason: "Underutilized".into(),
                method: "single".into(),
                phase: pb::CommandPhase::Replacing.into(),
                detail: "waiting for replacements".into(),
                saving_micro_usd_per_hour: 40_000,
                pods_moved: 7,
                payback_seconds: 530,
                ..pb::Command::default()
            }),
            ..pb::ExplainNodeResponse::default()
        };
        let text = printed(answer.clone(), Vec::new());
        assert!(
            text.contains("part of command c1 (Underutilized, single), replacing: waiting for replacements")
        );
        assert!(
            text.contains("it saves $0.0400 an hour, moves 7 pods, pays for itself after 9 minutes"),
            "{text}"
        );
        assert!(text.contains("it would save $0.0120 an hour"));
        let json = serde_json::to_value(Answer::new(answer, Vec::new())).unwrap();
        assert_eq!(json["command"]["phase"], "replacing");
        assert_eq!(json["savingPerHour"], 0.012);
        assert_eq!(json["offering"]["instanceType"], "m5.large");
    }
}
