//! The plan as one self-contained page: every new node is a box as wide as it has CPU, with its pods inside to scale, one
//! band for each resource.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::resources::{CPU, MEMORY, PODS, Resources};

use super::answer::{Answer, AnswerNode};
use super::people::People;
use super::table::requests;

/// Width of the node with the most CPU, in pixels; others are to scale, but never too narrow to read.
const WIDEST: i128 = 1100;
const NARROWEST: i128 = 190;
const BAND: i128 = 22;
const COLOURS: usize = 12;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222;background:#fff}h1{font-size:1.4em}
h2{font-size:1.1em;margin:1.6em 0 .5em}.nodes{display:flex;flex-wrap:wrap;gap:12px}.node{border:1px solid #888;border-radius:4px;padding:6px 8px;background:#fafafa}
.node b{font-weight:600}.node small{color:#666;display:block}svg{display:block;margin-top:4px}text{font:11px system-ui,sans-serif}
table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}th{font-weight:600}.bad{color:#a00}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}.node{background:#20242a;border-color:#555}.node small{color:#aaa}text{fill:#ddd}}";

pub(super) fn print(
    out: &mut dyn Write,
    answer: &Answer,
    people: &People,
    catalogue: &str,
) -> io::Result<()> {
    let title = format!("{} new nodes, ${} an hour", answer.nodes.len(), answer.cost.hourly);
    writeln!(out, "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title>")?;
    writeln!(out, "<meta name=viewport content=\"width=device-width\"><style>{STYLE}</style></head><body>")?;
    writeln!(out, "<h1>{title}</h1><p>")?;
    match (answer.cost.lower_bound, answer.cost.gap) {
        (Some(bound), Some(gap)) => writeln!(
            out,
            "No plan for these pods can cost less than ${bound} an hour: this one is within {:.1} % of the best.",
            gap * 100.0
        )?,
        _ => writeln!(out, "No lower bound on the cost was computed.")?,
    }
    writeln!(
        out,
        " {} pending pods, planned in {:.3} s; {}.</p>",
        people.pending,
        answer.stats.solve_seconds,
        escape(catalogue)
    )?;
    boxes(out, &answer.nodes, people)?;
    if !answer.existing.is_empty() {
        writeln!(out, "<h2>Onto existing nodes</h2><table><tr><th>Node<th>Pods</tr>")?;
        for existing in &answer.existing {
            writeln!(
                out,
                "<tr><td>{}<td>{}</tr>",
                escape(&existing.node),
                escape(&existing.pods.join(", "))
            )?;
        }
        writeln!(out, "</table>")?;
    }
    if !answer.unschedulable.is_empty() {
        writeln!(out, "<h2 class=bad>Left over</h2><table><tr><th>Pod<th>Why</tr>")?;
        for pod in &answer.unschedulable {
            writeln!(out, "<tr><td>{}<td>{}</tr>", escape(&pod.pod), escape(&pod.reason))?;
        }
        writeln!(out, "</table>")?;
    }
    for (number, command) in answer.commands.iter().flatten().enumerate() {
        let what = if command.nodes.is_empty() { "Delete" } else { "Replace" };
        let names = escape(&command.remove.join(", "));
        writeln!(out, "<h2>Step {}: {what} {names}, saves ${} an hour</h2>", number + 1, command.savings)?;
        boxes(out, &command.nodes, people)?;
    }
    writeln!(out, "</body></html>")
}

fn boxes(out: &mut dyn Write, nodes: &[AnswerNode], people: &People) -> io::Result<()> {
    let cpu_of = |node: &AnswerNode| {
        people.allocatable(&node.launch.instance_type).map_or(0, |a| a.get(CPU).nano()).max(1)
    };
    let most = nodes.iter().map(cpu_of).max().unwrap_or(1);
    writeln!(out, "<div class=nodes>")?;
    for node in nodes {
        let width = (WIDEST * cpu_of(node) / most).max(NARROWEST);
        draw(out, node, people, width)?;
    }
    writeln!(out, "</div>")
}

fn draw(out: &mut dyn Write, node: &AnswerNode, people: &People, width: i128) -> io::Result<()> {
    let launch = &node.launch;
    writeln!(
        out,
        "<div class=node><b>{}</b> {} · {} · ${}<small>{} · {} · {} pods · {} types possible</small>",
        escape(&node.name),
        escape(&launch.instance_type),
        escape(launch.capacity_type),
        launch.price,
        escape(&node.node_pool),
        escape(&launch.zone),
        node.pods.len(),
        node.instance_types.len(),
    )?;
    let empty = Resources::new();
    let all = people.allocatable(&launch.instance_type).unwrap_or(&empty);
    let used = requests(node);
    let mut bands = vec![CPU, MEMORY];
    bands.extend(used.iter().map(|(name, _)| name).filter(|name| ![CPU, MEMORY, PODS].contains(name)));
    bands.retain(|name| all.get(name).nano() > 0);
    let height = BAND * i128::try_from(bands.len()).unwrap_or(0);
    writeln!(out, "<svg width={width} height={height} role=img>")?;
    for (row, name) in (0_i128..).zip(&bands) {
        let top = row * BAND;
        let whole = all.get(name).nano();
        writeln!(out, "<rect x=0 y={top} width={width} height={} fill=#8882 />", BAND - 4)?;
        let mut left: i128 = 0;
        let mut part = |out: &mut dyn Write, amount: i128, fill: &str, title: &str| {
            let x = left * width * 10 / whole;
            left += amount;
            let end = left * width * 10 / whole;
            writeln!(
                out,
                "<rect x={}.{} y={top} width={}.{} height={} fill={fill} stroke=#fff stroke-width=.5><title>{}</title></rect>",
                x / 10,
                x % 10,
                (end - x) / 10,
                (end - x) % 10,
                BAND - 4,
                escape(title)
            )
        };
        let mut of_pods: i128 = 0;
        for pod in &node.pods {
            let amount = people.requests(pod).map_or(0, |r| r.get(name).nano());
            of_pods += amount;
            if amount > 0 {
                let text = people.requests(pod).map(|r| r.get(name).to_string()).unwrap_or_default();
                part(out, amount, &colour(pod), &format!("{pod}: {text} {name}"))?;
            }
        }
        let daemons = used.get(name).nano() - of_pods;
        if daemons > 0 {
            part(out, daemons, "#777", &format!("daemons: {name}"))?;
        }
        let percent = used.get(name).nano().max(0) * 100 / whole;
        writeln!(out, "<text x=4 y={}>{} {percent} %</text>", top + BAND - 9, escape(name))?;
    }
    writeln!(out, "</svg></div>")
}

/// Pods of one workload share a colour: the name without its last part decides.
fn colour(pod: &str) -> String {
    let workload = pod.rsplit_once('-').map_or(pod, |(head, _)| head);
    let sum = workload.bytes().fold(7_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(b)));
    format!("hsl({},55%,{}%)", (sum % COLOURS) * 360 / COLOURS, 62 + (sum / COLOURS % 3) * 6)
}

fn escape(text: &str) -> String {
    let special: BTreeMap<char, &str> =
        BTreeMap::from([('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")]);
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match special.get(&c) {
            Some(word) => safe.push_str(word),
            None => safe.push(c),
        }
    }
    safe
}
