//! Commands that share a budget: whatever order proposals, steps, crashes and removals come in, never more nodes are away than
//! allowed. The world is coarser than the other: a command is one of four states, and what matters is who is counted.

use std::collections::BTreeSet;

use super::*;
use crate::budget::{Budgets, CountedNode, Counts, Spec};

const NODES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Idle,
    /// Only in the memory of the process.
    Proposed,
    /// On the objects.
    Taken,
    Leaving,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    nodes: [Stage; NODES],
    /// Somebody else took nodes: the budget is used up, not exceeded by us.
    others: u8,
    crashes: u8,
}

fn available(world: &World, nodes: &str) -> u32 {
    let budgets = Budgets::read(&[Spec { nodes: nodes.to_owned(), ..Spec::default() }]);
    let counts =
        Counts::of(world.nodes.iter().filter(|stage| **stage != Stage::Gone).map(|stage| CountedNode {
            managed: true,
            initialized: true,
            ready: true,
            instance_terminating: false,
            leaving: *stage == Stage::Leaving,
            reserved: matches!(stage, Stage::Proposed | Stage::Taken),
        }));
    budgets.state(Reason::Underutilized, counts, at(0)).available()
}

fn successors(world: &World, nodes: &str) -> Vec<World> {
    let mut all = Vec::new();
    let change = |i: usize, stage: Stage| {
        let mut next = world.clone();
        next.nodes[i] = stage;
        next
    };
    for (i, stage) in world.nodes.iter().enumerate() {
        match stage {
            Stage::Idle => {
                if available(world, nodes) > 0 {
                    all.push(change(i, Stage::Proposed));
                }
                if world.others < 1 {
                    all.push(World { others: world.others + 1, ..change(i, Stage::Leaving) });
                }
            }
            Stage::Proposed => all.extend([change(i, Stage::Taken), change(i, Stage::Idle)]),
            Stage::Taken => all.extend([change(i, Stage::Leaving), change(i, Stage::Idle)]),
            Stage::Leaving => all.push(change(i, Stage::Gone)),
            Stage::Gone => {}
        }
    }
    if world.crashes < 2 {
        let mut next = World { crashes: world.crashes + 1, ..world.clone() };
        for stage in next.nodes.iter_mut().filter(|stage| **stage == Stage::Proposed) {
            *stage = Stage::Idle;
        }
        all.push(next);
    }
    all
}

// Cases: DRC-2, DRC-3, CBU-5
#[test]
fn never_more_nodes_are_away_than_the_budget_allows() {
    for (nodes, most) in [("0", 0), ("1", 1), ("2", 2), ("50%", 2), ("25%", 1)] {
        let start = World { nodes: [Stage::Idle; NODES], others: 0, crashes: 0 };
        let mut known = BTreeSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(world) = open.pop() {
            let away =
                world.nodes.iter().filter(|s| matches!(s, Stage::Taken | Stage::Leaving | Stage::Proposed));
            let ours = away.count().saturating_sub(usize::from(world.others));
            assert!(ours <= most, "{nodes}: {world:?}");
            for next in successors(&world, nodes) {
                if known.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        assert!(most == 0 || known.len() > 50, "{nodes}: {} states", known.len());
    }
}
