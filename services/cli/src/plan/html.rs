//! The plan as one page to share: the page of `ui`, with the new nodes instead of a cluster's.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::resources::{CPU, MEMORY, Resources};
use serde_json::{Value, json};

use super::answer::{Answer, AnswerNode};
use super::people::People;
use super::table::requests;
use crate::ui::{DAEMON, ShownNode, ShownPod, page};

pub(super) fn print(
    out: &mut dyn Write,
    answer: &Answer,
    people: &People,
    catalogue: &str,
) -> io::Result<()> {
    let steps = answer.commands.iter().flatten();
    let drawn = answer.nodes.iter().chain(steps.clone().flat_map(|command| &command.nodes));
    let nodes: BTreeMap<&str, ShownNode> =
        drawn.map(|node| (node.name.as_str(), shown(node, people))).collect();
    let settings = json!({
        "full": true,
        "nodes": nodes,
        "plan": {
            "lines": lines(answer, people, catalogue),
            "nodes": answer.nodes.iter().map(row).collect::<Vec<_>>(),
            "existing": answer.existing.iter().map(|e| json!([e.node, e.pods.join(", ")])).collect::<Vec<_>>(),
            "unschedulable": answer.unschedulable.iter().map(|u| json!([u.pod, u.reason])).collect::<Vec<_>>(),
            "commands": steps.map(|command| json!([
                command.reason,
                command.remove.join(", "),
                command.nodes.iter().map(|n| format!("{} {}", n.name, n.launch.instance_type)).collect::<Vec<_>>().join(", "),
                command.savings.to_string(),
            ])).collect::<Vec<_>>(),
            "blocked": answer.blocked.iter().flatten().map(|b| json!([b.node, b.reason])).collect::<Vec<_>>(),
        },
    });
    out.write_all(page(&settings.to_string()).as_bytes())
}

fn lines(answer: &Answer, people: &People, catalogue: &str) -> Vec<String> {
    let bound = match (answer.cost.lower_bound, answer.cost.gap) {
        (Some(bound), Some(gap)) => format!(
            "No plan for these pods can cost less than ${bound} an hour: this one is within {:.1} % of the best.",
            gap * 100.0
        ),
        _ => "No useful lower bound on the cost is known.".to_owned(),
    };
    vec![
        format!("{} new nodes, ${} an hour.", answer.nodes.len(), answer.cost.hourly),
        bound,
        format!(
            "{} pending pods, planned in {:.3} s; {catalogue}.",
            people.pending, answer.stats.solve_seconds
        ),
    ]
}

fn row(node: &AnswerNode) -> Value {
    let launch = &node.launch;
    json!([
        node.name,
        node.node_pool,
        launch.instance_type,
        launch.capacity_type,
        launch.zone,
        launch.price.to_string(),
        node.pods.join(", "),
    ])
}

/// The node as the page draws it, its daemons as one pod.
fn shown(node: &AnswerNode, people: &People) -> ShownNode {
    let launch = &node.launch;
    let empty = Resources::new();
    let (used, all) = (requests(node), people.allocatable(&launch.instance_type).unwrap_or(&empty));
    let pair = |name: &str| [amount(&used, name), amount(all, name)];
    let (cpu, mem) = (pair(CPU), pair(MEMORY));
    let mut pods: Vec<ShownPod> = node.pods.iter().map(|name| pod(name, people)).collect();
    let (own_cpu, own_mem) = pods.iter().fold((0, 0), |(cpu, mem), pod| (cpu + pod.2, mem + pod.3));
    if cpu[0] > own_cpu || mem[0] > own_mem {
        let (cpu, mem) = ((cpu[0] - own_cpu).max(0), (mem[0] - own_mem).max(0));
        pods.push(ShownPod(String::new(), "daemons".to_owned(), cpu, mem, 0, DAEMON));
    }
    ShownNode {
        claim: node.name.clone(),
        pool: node.node_pool.clone(),
        kind: launch.instance_type.clone(),
        zone: launch.zone.clone(),
        cap: launch.capacity_type.to_owned(),
        price: launch.price.get(),
        cpu,
        mem,
        phase: "initialised".to_owned(),
        pods,
        ..ShownNode::default()
    }
}

fn pod(name: &str, people: &People) -> ShownPod {
    let (namespace, own) = name.split_once('/').unwrap_or(("", name));
    let empty = Resources::new();
    let requests = people.requests(name).unwrap_or(&empty);
    let (cpu, mem) = (amount(requests, CPU), amount(requests, MEMORY));
    ShownPod(namespace.to_owned(), own.to_owned(), cpu, mem, 0, 0)
}

/// CPU in thousandths, memory in MiB.
fn amount(of: &Resources, name: &str) -> i64 {
    let quantity = of.get(name);
    if name == CPU { quantity.milli_ceil() } else { quantity.value_ceil() >> 20 }
}
