//! The plan for people: nodes, types, prices, how full they are, what is left over and why, bound and gap.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::{CPU, MEMORY, NVIDIA_GPU, Resources};

use super::answer::{Answer, AnswerNode, Command, Unschedulable};
use super::people::{People, per_mille};

/// Hours of a month, as AWS counts them.
const MONTH_HOURS: i64 = 730;
/// From so many nodes on, equal ones share a line.
const GROUP_FROM: usize = 30;
/// Pods named before "and n more".
const NAMED_PODS: usize = 3;

pub(super) const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
pub(super) const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn with(&self, colour: &str, text: &str) -> String {
        if self.0 { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }
}

pub(super) fn print(
    out: &mut dyn Write,
    answer: &Answer,
    people: &People,
    catalogue: &str,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint(colour);
    let heading = |text: &str| paint.with(BOLD, text);
    if answer.nodes.is_empty() {
        let needed = if answer.unschedulable.is_empty() { " needed" } else { "" };
        writeln!(out, "{}", heading(&format!("No new nodes{needed}")))?;
    } else {
        let count = answer.nodes.len();
        writeln!(out, "{}", heading(&format!("{count} new node{}", plural(count))))?;
        nodes(out, &answer.nodes, people)?;
    }
    let placed: usize = answer.existing.iter().map(|e| e.pods.len()).sum();
    if placed > 0 {
        writeln!(out, "\n{}", heading(&format!("{placed} pod{} onto existing nodes", plural(placed))))?;
        let rows =
            answer.existing.iter().map(|e| vec![e.node.clone(), e.pods.len().to_string(), few(&e.pods)]);
        columns(out, &["NODE", "PODS", ""], &rows.collect::<Vec<_>>(), &[1])?;
    }
    if !answer.unschedulable.is_empty() {
        left_over(out, &answer.unschedulable, &paint)?;
    }
    if let Some(commands) = &answer.commands {
        consolidation(out, answer, commands, people, &paint)?;
    }
    summary(out, answer, people, catalogue, &paint)
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

pub(super) fn nodes(out: &mut dyn Write, nodes: &[AnswerNode], people: &People) -> io::Result<()> {
    let has_gpus = nodes.iter().any(|n| n.requests.contains_key(NVIDIA_GPU));
    let shares: &[&str] = if has_gpus { &[CPU, MEMORY, NVIDIA_GPU] } else { &[CPU, MEMORY] };
    let mut head = vec!["NODE", "POOL", "TYPE", "ZONE", "BOUGHT AS", "$/HOUR", "PODS", "CPU", "MEMORY"];
    if has_gpus {
        head.push("GPUS");
    }
    head.push("OR ANY OF");
    let together = nodes.len() >= GROUP_FROM;
    if together {
        head[0] = "NODES";
    }
    let mut order: Vec<Vec<String>> = Vec::new();
    let mut groups: BTreeMap<Vec<String>, Vec<&AnswerNode>> = BTreeMap::new();
    for node in nodes {
        let launch = &node.launch;
        let key = vec![
            if together { String::new() } else { node.name.clone() },
            node.node_pool.clone(),
            launch.instance_type.clone(),
            launch.zone.clone(),
            launch.capacity_type.to_owned(),
            launch.price.to_string(),
        ];
        let members = groups.entry(key.clone()).or_default();
        if members.is_empty() {
            order.push(key);
        }
        members.push(node);
    }
    let rows: Vec<Vec<String>> =
        order.into_iter().map(|key| row(&groups[&key], key, together, shares, people)).collect();
    let numbers: Vec<usize> = (5..=6 + shares.len()).collect();
    columns(out, &head, &rows, &numbers)
}

/// One node, or several alike: their pods together and how full they are on average.
fn row(
    nodes: &[&AnswerNode],
    mut row: Vec<String>,
    together: bool,
    shares: &[&str],
    people: &People,
) -> Vec<String> {
    if together {
        row[0] = format!("{} ×", nodes.len());
    }
    row.push(nodes.iter().map(|n| n.pods.len()).sum::<usize>().to_string());
    let empty = Resources::new();
    for name in shares {
        let each = nodes.iter().filter_map(|node| {
            let all = people.allocatable(&node.launch.instance_type).unwrap_or(&empty);
            per_mille(&requests(node), all, name)
        });
        let (sum, count) = each.fold((0_u64, 0), |(sum, count), share| (sum + share, count + 1));
        row.push(
            sum.checked_div(count).map_or_else(|| "-".to_owned(), |mean| format!("{} %", (mean + 5) / 10)),
        );
    }
    let others = nodes.iter().map(|n| n.instance_types.len().saturating_sub(1)).min().unwrap_or(0);
    row.push(if others == 0 { "-".to_owned() } else { format!("{others} more type{}", plural(others)) });
    row
}

pub(super) fn requests(node: &AnswerNode) -> Resources {
    node.requests
        .iter()
        .filter_map(|(name, text)| Some((name.as_str(), text.parse::<Quantity>().ok()?)))
        .collect()
}

pub(super) fn few(pods: &[String]) -> String {
    let shown: Vec<&str> = pods.iter().take(NAMED_PODS).map(String::as_str).collect();
    let more = pods.len().saturating_sub(shown.len());
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", shown.join(", "))
}

pub(super) fn left_over(out: &mut dyn Write, pods: &[Unschedulable], paint: &Paint) -> io::Result<()> {
    let count = pods.len();
    let title = format!("{count} pod{} left over", plural(count));
    writeln!(out, "\n{}", paint.with(RED, &paint.with(BOLD, &title)))?;
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in pods {
        by_reason.entry(&pod.reason).or_default().push(pod.pod.clone());
    }
    let mut grouped: Vec<_> = by_reason.into_iter().collect();
    grouped.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.1.cmp(&b.1)));
    for (reason, pods) in grouped {
        writeln!(out, "  {}\n    {reason}", few(&pods))?;
    }
    Ok(())
}

fn consolidation(
    out: &mut dyn Write,
    answer: &Answer,
    commands: &[Command],
    people: &People,
    paint: &Paint,
) -> io::Result<()> {
    let title = match commands.len() {
        0 => "Nothing to consolidate".to_owned(),
        count => format!("{count} consolidation step{}, in this order", plural(count)),
    };
    writeln!(out, "\n{}", paint.with(BOLD, &title))?;
    for (number, command) in commands.iter().enumerate() {
        let what = if command.nodes.is_empty() { "delete" } else { "replace" };
        writeln!(
            out,
            "  {}. {what} {} ({}), saves ${} an hour, moves {} pod{}",
            number + 1,
            few(&command.remove),
            command.reason,
            command.savings,
            command.moves.len(),
            plural(command.moves.len()),
        )?;
        if !command.nodes.is_empty() {
            nodes(out, &command.nodes, people)?;
        }
    }
    let blocked = answer.blocked.as_deref().unwrap_or_default();
    if !blocked.is_empty() {
        let title = format!("{} node{} kept", blocked.len(), plural(blocked.len()));
        writeln!(out, "\n{}", paint.with(BOLD, &title))?;
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for node in blocked {
            by_reason.entry(&node.reason).or_default().push(node.node.clone());
        }
        for (reason, names) in by_reason {
            writeln!(out, "  {}: {reason}", few(&names))?;
        }
    }
    if let (Some(before), Some(after)) = (answer.stats.hourly_before, answer.stats.hourly_after) {
        let change = format!("${before} an hour before, ${after} after");
        writeln!(out, "\n{}", paint.with(if after < before { GREEN } else { DIM }, &change))?;
    }
    Ok(())
}

fn summary(
    out: &mut dyn Write,
    answer: &Answer,
    people: &People,
    catalogue: &str,
    paint: &Paint,
) -> io::Result<()> {
    let cost = &answer.cost;
    writeln!(out)?;
    let monthly = cost.hourly.saturating_mul(MONTH_HOURS);
    let line = format!("New nodes: ${} an hour, about ${} a month", cost.hourly, cents(monthly));
    writeln!(out, "{}", paint.with(BOLD, &line))?;
    match (cost.lower_bound, cost.gap) {
        (Some(bound), Some(gap)) => writeln!(
            out,
            "No plan for these pods can cost less than ${bound} an hour: this one is within {:.1} % of the best",
            gap * 100.0
        )?,
        _ => writeln!(out, "No useful lower bound on the cost is known")?,
    }
    if answer.stats.timed_out {
        writeln!(
            out,
            "{}",
            paint.with(RED, "Stopped at the deadline: more time may give a better or more complete plan")
        )?;
    }
    let stats = &answer.stats;
    let line = format!(
        "{} pending pod{} of {} kind{}, planned in {:.3} s ({:.0} MB of memory); {catalogue}",
        people.pending,
        plural(people.pending),
        stats.classes,
        plural(stats.classes),
        stats.solve_seconds,
        stats.peak_rss_bytes as f64 / 1e6
    );
    writeln!(out, "{}", paint.with(DIM, &line))
}

fn cents(price: MicroDollars) -> String {
    let cents = (price.get() + 5_000) / 10_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Left-aligned, save for the columns of numbers.
pub(super) fn columns(
    out: &mut dyn Write,
    head: &[&str],
    rows: &[Vec<String>],
    numbers: &[usize],
) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for (column, cell) in cells.enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let parts = if numbers.contains(&column) { [&pad, cell] } else { [cell, &pad] };
            text.push(' ');
            text.push_str(parts[0]);
            text.push_str(parts[1]);
            text.push(' ');
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(&mut head.iter().copied())?;
    for row in rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}
