//! Launches, as the provisioner's picture shows them: a claim appears, gets an instance, joins and takes pods. A busy stream may
//! show a node for the first time when it is ready: its launch has one step then. Pure.

use super::picture::{All, Changes};
use super::shown::{Decision, Node};

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
                Some(Decision { kind: "launch", at, reason: "pods wait".to_owned(), ..Decision::default() })
            }
        };
        let Some(mut own) = own else { continue };
        own.add = vec![name.clone()];
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

fn key(claim: &str) -> String {
    format!("launch/{claim}")
}
