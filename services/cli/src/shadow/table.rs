//! The comparison for people.

use std::io::{self, Write};

use jiff::Timestamp;
use model::price::MicroDollars;

use super::Report;
use super::decisions::{Decision, Kind};
use super::happened::Happened;
use crate::age;
use crate::columns::{self, Align};

/// Objects of a decision that are named.
const FEW: usize = 3;

pub(super) fn print(out: &mut dyn Write, report: &Report, now: Timestamp) -> io::Result<()> {
    if let Some(since) = report.since {
        let since_second = Timestamp::from_second(since.as_second()).unwrap_or(since);
        writeln!(out, "since {since_second}, {} ago\n", age::since(since, now))?;
    }
    let (left, right) = (Align::Left, Align::Right);
    if report.decisions.is_empty() {
        writeln!(out, "the shadow would have launched and removed nothing")?;
    } else {
        writeln!(out, "WOULD HAVE")?;
        let headings = [
            ("DECISION", left),
            ("NODEPOOL", left),
            ("NODES", right),
            ("TYPE", left),
            ("ZONE", left),
            ("CAPACITY", left),
            ("$/HOUR", right),
            ("TIMES", right),
            ("LAST", right),
            ("ABOUT", left),
        ];
        let rows: Vec<[String; 10]> = report.decisions.iter().map(|each| decision(each, now)).collect();
        columns::print(out, headings, &rows)?;
    }
    writeln!(out)?;
    if report.happened.is_empty() {
        writeln!(out, "no NodeClaim was created or deleted")?;
    } else {
        writeln!(out, "REALLY HAPPENED")?;
        let headings = [
            ("EVENT", left),
            ("NODEPOOL", left),
            ("NODES", right),
            ("TYPE", left),
            ("ZONE", left),
            ("CAPACITY", left),
            ("$/HOUR", right),
            ("LAST", right),
        ];
        let rows: Vec<[String; 8]> = report.happened.iter().map(|each| happened(each, now)).collect();
        columns::print(out, headings, &rows)?;
    }
    totals(out, report)?;
    if report.forgotten > 0 {
        writeln!(out, "older writes that had to make room: {}", report.forgotten)?;
    }
    for problem in &report.problems {
        writeln!(out, "not asked: {problem}")?;
    }
    Ok(())
}

fn totals(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    // A command's saving has its replacements in it, and the deletion of what it removes.
    let in_command = |claim: &String| {
        report.decisions.iter().any(|each| each.decision == Kind::Disrupt && each.objects.contains(claim))
    };
    let counts = |each: &&Decision| match each.decision {
        Kind::Replace => false,
        Kind::Delete => !each.objects.iter().any(in_command),
        _ => true,
    };
    let would = sum(report.decisions.iter().filter(counts).filter_map(|each| each.change));
    let really = sum(report.happened.iter().filter_map(|each| each.change));
    writeln!(
        out,
        "\nthe bill would have changed by {} $/hour (each decision once, launches at the cheapest offering), and really changed by {} $/hour",
        signed(would),
        signed(really)
    )
}

fn sum(amounts: impl Iterator<Item = MicroDollars>) -> MicroDollars {
    amounts.fold(MicroDollars::ZERO, MicroDollars::saturating_add)
}

fn decision(each: &Decision, now: Timestamp) -> [String; 10] {
    let offering = each.offering.as_ref();
    let kind = offering.map(|o| o.instance_type.clone()).unwrap_or_default();
    let more = each.objects.len().saturating_sub(FEW);
    let mut about = each.objects[..each.objects.len().min(FEW)].join(" ");
    if more > 0 {
        about.push_str(&format!(" and {more} more"));
    }
    if !each.detail.is_empty() {
        about = format!("{}: {about}", each.detail);
    }
    [
        each.decision.as_str().to_owned(),
        each.node_pool.clone(),
        if each.nodes == 0 { String::new() } else { each.nodes.to_string() },
        match each.instance_types {
            0 | 1 => kind,
            types => format!("{kind} (cheapest of {types})").trim_start().to_owned(),
        },
        offering.map(|o| o.zone.clone()).unwrap_or_default(),
        offering.map_or("", |o| o.capacity_type).to_owned(),
        each.change.map(signed).unwrap_or_default(),
        each.times.to_string(),
        each.last.map(|at| age::since(at, now)).unwrap_or_default(),
        about,
    ]
}

fn happened(each: &Happened, now: Timestamp) -> [String; 8] {
    [
        each.event.to_owned(),
        each.node_pool.clone(),
        each.nodes.to_string(),
        each.instance_type.clone(),
        each.zone.clone(),
        each.capacity_type.clone(),
        each.change.map_or_else(|| "?".to_owned(), signed),
        each.last.map(|at| age::since(at, now)).unwrap_or_default(),
    ]
}

fn signed(amount: MicroDollars) -> String {
    format!("{:+.4}", amount.to_f64())
}

#[cfg(test)]
mod tests {
    use super::super::{decisions, happened};
    use super::*;

    #[test]
    fn people_see_both_sides_with_units() {
        let now = Timestamp::from_second(130).unwrap();
        let report = Report {
            since: Timestamp::from_second(100).ok(),
            decisions: decisions::tests::some(),
            happened: happened::tests::some(),
            forgotten: 2,
            problems: vec!["termination: not running".to_owned()],
        };
        let mut out = Vec::new();
        print(&mut out, &report, now).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "\
since 1970-01-01T00:01:40Z, 30s ago

WOULD HAVE
DECISION  NODEPOOL  NODES  TYPE                      ZONE  CAPACITY    $/HOUR  TIMES  LAST  ABOUT
launch    general       3  m5.large (cheapest of 2)  a     spot       +0.0900      2   21s  n-1
replace   general       1  m5.large (cheapest of 2)  a     spot       +0.0300      2   22s  n-2
disrupt   general       2  m5.large                  a     on-demand  -0.1070      2   23s  multi, 1 replacement(s): a b
delete    general       1  m5.large                  a     on-demand  -0.0960      2   25s  b
write                                                                              2   26s  patch nodeclaims/status: a
evict                                                                              2   27s  shop/p

REALLY HAPPENED
EVENT    NODEPOOL  NODES  TYPE      ZONE  CAPACITY    $/HOUR  LAST
created  general       1            a     on-demand        ?   27s
created  general       2  m5.large  a     on-demand  +0.1920   28s
deleted  general       1  m5.large  a     on-demand  -0.0960   10s

the bill would have changed by -0.0170 $/hour (each decision once, launches at the cheapest offering), and really changed by +0.0960 $/hour
older writes that had to make room: 2
not asked: termination: not running
";
        assert_eq!(text, expected);
    }
}
