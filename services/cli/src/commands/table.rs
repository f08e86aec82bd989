//! Commands for people: a line for each, newest first.

use std::io::{self, Write};

use jiff::Timestamp;
use model::price::MicroDollars;
use proto::disruption::v1 as pb;
use serde::Serialize;

use crate::age;
use crate::columns::{self, Align};

/// Nodes named in a line.
const FEW: usize = 3;

/// One command.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) id: String,
    reason: String,
    method: String,
    phase: &'static str,
    pub(super) nodes: Vec<String>,
    replacements: Vec<String>,
    pods_moved: u32,
    /// Micro-dollars per hour, as in plans.
    saving: MicroDollars,
    /// What came of it after the moved pods ran again; absent until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    realised: Option<MicroDollars>,
    extra_nodes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed: Option<Timestamp>,
    detail: String,
}

impl From<pb::Command> for Row {
    fn from(command: pb::Command) -> Self {
        let phase = match command.phase() {
            pb::CommandPhase::Unspecified => "unknown",
            pb::CommandPhase::Validating => "validating",
            pb::CommandPhase::Replacing => "replacing",
            pb::CommandPhase::Removing => "removing",
            pb::CommandPhase::Done => "done",
            pb::CommandPhase::RolledBack => "rolled back",
        };
        Self {
            phase,
            proposed: command.proposed_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok()),
            replacements: command.replacements.into_iter().map(|claim| claim.name).collect(),
            saving: MicroDollars::new(command.saving_micro_usd_per_hour),
            realised: command.realised_micro_usd_per_hour.map(MicroDollars::new),
            extra_nodes: command.extra_nodes,
            pods_moved: command.pods_moved,
            nodes: command.remove_nodes,
            reason: command.reason,
            method: command.method,
            detail: command.detail,
            id: command.id,
        }
    }
}

const HEADINGS: [(&str, Align); 10] = [
    ("COMMAND", Align::Left),
    ("REASON", Align::Left),
    ("PHASE", Align::Left),
    ("AGE", Align::Right),
    ("NODES", Align::Right),
    ("NEW", Align::Right),
    ("PODS", Align::Right),
    ("SAVES/H", Align::Right),
    ("REALISED", Align::Right),
    ("DETAIL", Align::Left),
];

pub(super) fn print(out: &mut dyn Write, rows: &[Row], now: Timestamp) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "no disruption command is under way, and none ended in the last day");
    }
    let rows: Vec<[String; 10]> = rows.iter().map(|row| cells(row, now)).collect();
    columns::print(out, HEADINGS, &rows)
}

/// One that changed, where lines cannot be drawn again.
pub(super) fn print_row(out: &mut dyn Write, row: &Row, now: Timestamp) -> io::Result<()> {
    writeln!(out, "{}", cells(row, now).join("  ").trim_end())
}

fn cells(row: &Row, now: Timestamp) -> [String; 10] {
    let mut named: Vec<&str> = row.nodes.iter().take(FEW).map(String::as_str).collect();
    if row.nodes.len() > FEW {
        named.push("…");
    }
    let nodes = named.join(", ");
    let detail = if row.detail.is_empty() { nodes } else { format!("{nodes}: {}", row.detail) };
    [
        row.id.clone(),
        row.reason.clone(),
        row.phase.to_owned(),
        row.proposed.map_or_else(|| "-".to_owned(), |at| age::since(at, now)),
        row.nodes.len().to_string(),
        row.replacements.len().to_string(),
        row.pods_moved.to_string(),
        format!("${}", row.saving),
        row.realised.map_or_else(|| "-".to_owned(), |realised| format!("${realised}")),
        detail,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_saved_and_what_came_of_it() {
        let command = pb::Command {
            id: "c-1".to_owned(),
            reason: "Underutilized".to_owned(),
            phase: pb::CommandPhase::Done.into(),
            remove_nodes: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            saving_micro_usd_per_hour: 150_000,
            realised_micro_usd_per_hour: Some(0),
            extra_nodes: 1,
            ..pb::Command::default()
        };
        let mut out = Vec::new();
        print(&mut out, &[Row::from(command)], Timestamp::UNIX_EPOCH).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("$0.15") && text.contains("$0"), "{text}");
        assert!(text.contains("a, b, c, …"), "{text}");
        let mut out = Vec::new();
        print(&mut out, &[], Timestamp::UNIX_EPOCH).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("no disruption command"));
    }
}
