//! The plan as one self-contained page: every new node is a box as wide as it has CPU, with its pods inside to scale, one
//! band for each resource.

use std::io::{self, Write};

use model::resources::{CPU, MEMORY, PODS, Resources};

use super::answer::{Answer, AnswerNode};
use super::people::People;
use super::table::requests;

/// Width of the node with the most CPU, in pixels; all others are to scale.
const WIDEST: i128 = 1100;
const BAND: i128 = 22;
const COLOURS: usize = 12;
/// Pixels that one letter takes, about; names are written where there is room for them.
const LETTER: i128 = 7;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222;background:#fff}h1{font-size:1.4em}
h2{font-size:1.1em;margin:1.6em 0 .5em}.nodes{display:flex;flex-wrap:wrap;gap:12px}.node{border:1px solid #888;border-radius:4px;padding:6px 8px;background:#fafafa;min-width:13em;max-width:100%;overflow-x:auto}
.node b{font-weight:600}.node small{color:#666;display:block}svg{display:block;margin-top:4px}text{font:11px system-ui,sans-serif;fill:#222}
.band{display:flex;align-items:center;gap:6px}.band small{flex:none;width:9em}
table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}th{font-weight:600}.bad{color:#a00}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}.node{background:#20242a;border-color:#555}.node small{color:#aaa}.bad{color:#f88}}";

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
        _ => writeln!(out, "No useful lower bound on the cost is known.")?,
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
    if let Some(blocked) = answer.blocked.as_ref().filter(|blocked| !blocked.is_empty()) {
        writeln!(out, "<h2>Nodes that stay</h2><table><tr><th>Node<th>Why</tr>")?;
        for node in blocked {
            writeln!(out, "<tr><td>{}<td>{}</tr>", escape(&node.node), escape(&node.reason))?;
        }
        writeln!(out, "</table>")?;
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
        let width = (WIDEST * cpu_of(node) / most).max(1);
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
    for name in &bands {
        let (whole, taken) = (all.get(name).nano(), used.get(name).nano().max(0));
        let label = format!("{name} {} %", taken * 100 / whole);
        writeln!(out, "<div class=band><small>{}</small>", escape(&label))?;
        writeln!(out, "<svg width={width} height={} role=img aria-label=\"{}\">", BAND - 4, escape(&label))?;
        writeln!(out, "<rect width={width} height={} fill=#8883 />", BAND - 4)?;
        band(out, node, people, name, Scale { width, whole }, taken)?;
        writeln!(out, "</svg></div>")?;
    }
    writeln!(out, "</div>")
}

/// Pixels for all of a resource.
#[derive(Clone, Copy)]
struct Scale {
    width: i128,
    whole: i128,
}

impl Scale {
    /// Tenths of a pixel up to an amount.
    fn tenths(self, amount: i128) -> i128 {
        amount * self.width * 10 / self.whole
    }
}

/// The pods of a node side by side by what they take of one resource, then its daemons.
fn band(
    out: &mut dyn Write,
    node: &AnswerNode,
    people: &People,
    name: &str,
    scale: Scale,
    taken: i128,
) -> io::Result<()> {
    let mut left: i128 = 0;
    for pod in &node.pods {
        let Some(amount) = people.requests(pod).map(|requests| requests.get(name)) else { continue };
        if amount.nano() > 0 {
            let title = format!("{pod}: {amount} {name}");
            part(out, scale, left, amount.nano(), &colour(pod), &title, short(pod))?;
            left += amount.nano();
        }
    }
    if taken > left {
        part(out, scale, left, taken - left, "#999", &format!("daemons: {name}"), "daemons")?;
    }
    Ok(())
}

fn part(
    out: &mut dyn Write,
    scale: Scale,
    left: i128,
    amount: i128,
    fill: &str,
    title: &str,
    text: &str,
) -> io::Result<()> {
    let (from, to) = (scale.tenths(left), scale.tenths(left + amount));
    let (x, width) = (format!("{}.{}", from / 10, from % 10), to - from);
    writeln!(
        out,
        "<g><title>{}</title><rect x={x} width={}.{} height={} fill={fill} stroke=#fff stroke-width=.5 />",
        escape(title),
        width / 10,
        width % 10,
        BAND - 4,
    )?;
    let letters = i128::try_from(text.chars().count()).unwrap_or(i128::MAX);
    if letters.saturating_mul(LETTER) + 6 < width / 10 {
        writeln!(out, "<text x={x} dx=4 y={}>{}</text>", BAND - 9, escape(text))?;
    }
    writeln!(out, "</g>")
}

/// Without its namespace.
fn short(pod: &str) -> &str {
    pod.split_once('/').map_or(pod, |(_, name)| name)
}

/// Pods of one workload share a colour: the name without its last part decides.
fn colour(pod: &str) -> String {
    let workload = pod.rsplit_once('-').map_or(pod, |(head, _)| head);
    let sum = workload.bytes().fold(7_usize, |sum, b| sum.wrapping_mul(31).wrapping_add(usize::from(b)));
    format!("hsl({},55%,{}%)", (sum % COLOURS) * 360 / COLOURS, 62 + (sum / COLOURS % 3) * 6)
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_an_attribute_or_open_a_tag() {
        assert_eq!(escape("a\"b'c<d>&e"), "a&quot;b&#39;c&lt;d&gt;&amp;e");
    }

    #[test]
    fn parts_of_a_band_are_to_scale_and_leave_no_gap_between_them() {
        let scale = Scale { width: 1000, whole: 8_000_000_000 };
        let mut page = Vec::new();
        part(&mut page, scale, 0, 2_000_000_000, "#111", "a", "").expect("written");
        part(&mut page, scale, 2_000_000_000, 1_000_000_000, "#222", "b", "").expect("written");
        let page = String::from_utf8(page).expect("text");
        assert!(page.contains("<rect x=0.0 width=250.0 "), "{page}");
        assert!(page.contains("<rect x=250.0 width=125.0 "), "{page}");
    }

    #[test]
    fn a_name_is_written_only_where_there_is_room_for_it() {
        let scale = Scale { width: 100, whole: 100 };
        for (amount, written) in [(99, true), (20, false)] {
            let mut page = Vec::new();
            part(&mut page, scale, 0, amount, "#111", "", "some-pod").expect("written");
            let page = String::from_utf8(page).expect("text");
            assert_eq!(page.contains("some-pod</text>"), written, "{page}");
        }
    }
}
