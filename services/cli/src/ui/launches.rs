//! Launches, as the provisioner's picture shows them: a claim appears, gets an instance, joins and takes pods. A busy stream may
//! show a node for the first time when it is ready: its launch has one step then. Pure.

use std::sync::Arc;

use super::picture::{All, Changes};
use super::shown::{DAEMON, Decision, Node};

const READY: &str = "initialised";

/// What changes of nodes say about launches: decisions by key.
pub(super) fn of(
    before: &All<Node>,
    now: &All<Node>,
    changes: &Changes<Node>,
    known: &All<Decision>,
    at: i64,
) -> Vec<(String, Decision)> {
    let mut all = Vec::new();
    for (name, change) in changes {
        let Some(node) = change else {
            // A node that joined goes on under its own name.
            let gone = before.get(name).filter(|node| !now.values().any(|other| other.claim == node.claim));
            let Some(gone) = gone else { continue };
            let key = key(&gone.claim);
            let Some(own) = known.get(&key).filter(|own| !own.ended) else { continue };
            let mut own = (**own).clone();
            own.step(at, "gone before it was ready".to_owned());
            (own.phase, own.ended) = ("gone".to_owned(), true);
            all.push((key, own));
            continue;
        };
        if !node.is_ours() || node.phase == "deleting" {
            continue;
        }
        let key = key(&node.claim);
        let own = match known.get(&key) {
            Some(own) if own.ended => continue,
            Some(own) => Some((**own).clone()),
            None if before.values().any(|other| other.claim == node.claim) => None,
            None => {
                let trace = Some(("provisioner", "nodeclaim", node.claim.clone()));
                Some(Decision { kind: "launch", at, trace, ..Decision::default() })
            }
        };
        let Some(mut own) = own else { continue };
        own.add = vec![name.clone()];
        if own.reason.is_empty() {
            own.reason = reason(node, known);
        }
        own.phase.clone_from(&node.phase);
        own.ended = node.phase == READY;
        own.moved = u32::try_from(node.meant.len() + node.pods.len()).ok();
        own.detail = match node.kind.as_str() {
            "" => format!("NodePool {}", node.pool),
            kind => format!("{kind} {} in {}, NodePool {}", node.cap, node.zone, node.pool),
        };
        if node.price > 0 {
            own.saving = Some(-node.price);
        }
        let what = if node.waits.is_empty() {
            node.phase.clone()
        } else {
            format!("{}: waits for {}", node.phase, node.waits)
        };
        own.step(at, what);
        all.push((key, own));
    }
    all
}

/// Pods that a reason names; their number is always given.
const NAMED: usize = 3;

/// What the node is made for, as far as it is known yet: the command that it replaces nodes for, or the pods nominated to it.
fn reason(node: &Node, known: &All<Decision>) -> String {
    let is_for = |each: &&Arc<Decision>| each.kind == "disruption" && each.add.contains(&node.claim);
    if let Some(command) = known.values().find(is_for) {
        return format!("{}: replaces {}", command.reason, command.remove.join(", "));
    }
    let of_workloads = node.meant.iter().chain(&node.pods).filter(|pod| pod.5 & DAEMON == 0);
    let pods: Vec<String> = of_workloads.map(|pod| format!("{}/{}", pod.0, pod.1)).collect();
    match &pods[..] {
        [] if node.buffers => "room for capacity buffers".to_owned(),
        [] => String::new(),
        [pod] => format!("for pod {pod}"),
        all if all.len() <= NAMED => format!("for {} pods: {}", all.len(), all.join(", ")),
        all => {
            format!("for {} pods: {} and {} more", all.len(), all[..NAMED].join(", "), all.len() - NAMED)
        }
    }
}

fn key(claim: &str) -> String {
    format!("launch/{claim}")
}
