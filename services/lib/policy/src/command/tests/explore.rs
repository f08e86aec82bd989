//! Every interleaving: all states that the small world can reach. What must never happen is checked by the world itself at
//! every write; here, that from each state a friendly world comes to an end without anything left behind.

use std::collections::BTreeSet;

use super::world::{End, Event, Mutation, New, Process, Scenario, World};
use super::*;

/// Walks all reachable states. Returns how many there are, and how commands end.
fn explore(scenario: &Scenario) -> (usize, BTreeSet<End>) {
    let start = scenario.start();
    let mut known = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    let (mut ending, mut ends) = (BTreeSet::new(), BTreeSet::new());
    while let Some(world) = open.pop() {
        comes_to_an_end(scenario, &world, &mut ending);
        ends.extend(world.ended);
        for event in scenario.events(&world) {
            let next = scenario.after(&world, event);
            if !known.contains(&next) {
                known.insert(next.clone());
                open.push(next);
            }
        }
    }
    (known.len(), ends)
}

fn is_settled(scenario: &Scenario, world: &World) -> bool {
    world.ended.is_some()
        && world.late_deletions.is_empty()
        && !world.late_order
        && !scenario.is_orphaned(world)
        && world.nodes.iter().all(|node| !node.leaving || node.gone)
}

/// Our process runs, pods may move, the replacement becomes ready, time passes.
fn comes_to_an_end(scenario: &Scenario, from: &World, ending: &mut BTreeSet<World>) {
    let mut path = Vec::new();
    let mut world = from.clone();
    for _ in 0..60 {
        if ending.contains(&world) {
            break;
        }
        if is_settled(scenario, &world) {
            nothing_is_left_behind(scenario, &world);
            break;
        }
        path.push(world.clone());
        let mut round = vec![
            Event::LateDeletion,
            Event::LateOrder,
            Event::Restart,
            Event::Pass,
            Event::NewVanishes,
            Event::NewIsReady,
            Event::PdbOpens,
        ];
        round.extend([Event::Pass, Event::Pass, Event::Pass]);
        for event in round {
            world = scenario.after(&world, event);
        }
        // Annotations are taken off again, and the late pod ends. What is refused stays refused.
        world.nodes.iter_mut().for_each(|node| node.annotated = false);
        world.late = None;
        for node in 0..world.nodes.len() {
            world = scenario.after(&world, Event::Drain(node));
        }
        world = scenario.after(&world, Event::Tick);
    }
    let arrived = ending.contains(&world) || is_settled(scenario, &world);
    assert!(arrived, "{}: stuck in {world:?}, coming from {from:?}", scenario.name);
    ending.extend(path);
}

fn nothing_is_left_behind(scenario: &Scenario, world: &World) {
    let name = scenario.name;
    for node in world.nodes.iter().filter(|node| !node.gone && !node.guarded) {
        assert!(
            !node.tainted && !node.marked && !node.noted,
            "{name}: traces on a node that stays: {world:?}"
        );
    }
    // A replacement that nobody uses and that stands for no node that went is an orphan.
    let somebody_went = world.nodes.iter().any(|node| node.gone);
    let unused = matches!(world.replacement, New::Coming | New::Ready { used: false, .. });
    assert!(!unused || somebody_went || world.blind, "{name}: an orphaned replacement: {world:?}");
    if world.ended == Some(End::Done) && !world.others_deleted && !scenario.method.may_shrink() {
        assert!(world.nodes.iter().all(|node| node.gone), "{name}: done, and a node is left: {world:?}");
    }
}

fn scenario(name: &'static str, method: Method, nodes: usize, needs: usize) -> Scenario {
    Scenario {
        name,
        method,
        nodes,
        needs,
        late_is_protected: true,
        annotations: true,
        pdb: true,
        faults: false,
        crashes: 1,
        timeout: 4,
        last_tick: 3,
        mutation: None,
    }
}

fn check(scenario: &Scenario) {
    let (states, ends) = explore(scenario);
    assert!(states > 1_000, "{}: the walk is no walk: {states} states", scenario.name);
    let both = BTreeSet::from([End::Done, End::RolledBack]);
    assert_eq!(ends, both, "{}: commands end both ways", scenario.name);
}

// Cases: TTL-4, TTL-5
#[test]
fn one_node_replaced_by_one() {
    check(&Scenario { crashes: 2, ..scenario("single replace", Method::SingleNode, 1, 1) });
}

// Cases: QUE-4
#[test]
fn one_node_replaced_while_time_runs_out() {
    check(&Scenario {
        last_tick: 6,
        annotations: false,
        pdb: false,
        ..scenario("slow replace", Method::SingleNode, 1, 1)
    });
}

// Cases: TTL-6, TTL-7
#[test]
fn one_node_whose_pods_fit_elsewhere() {
    check(&scenario("single delete", Method::SingleNode, 1, 0));
}

#[test]
fn two_nodes_whose_pods_fit_elsewhere() {
    check(&Scenario { pdb: false, ..scenario("multi delete", Method::MultiNode, 2, 0) });
}

#[test]
fn two_nodes_replaced_by_one() {
    check(&Scenario { pdb: false, ..scenario("multi replace", Method::MultiNode, 2, 1) });
}

// Cases: DEL-2
#[test]
fn two_empty_nodes_of_which_one_may_fill_up() {
    let empty = scenario("emptiness", Method::Emptiness, 2, 0);
    check(&Scenario { late_is_protected: false, ..empty.clone() });
    check(&empty);
}

#[test]
fn a_drifted_node_replaced_by_one() {
    check(&scenario("drift", Method::Drift, 1, 1));
}

#[test]
fn writes_fail_nodes_vanish_and_reading_takes_long() {
    for (name, method, nodes, needs) in [
        ("faulty replace", Method::SingleNode, 1, 1),
        ("faulty delete", Method::MultiNode, 2, 0),
        ("faulty emptiness", Method::Emptiness, 2, 0),
        ("faulty drift", Method::Drift, 1, 1),
    ] {
        let quiet = scenario(name, method, nodes, needs);
        check(&Scenario { faults: true, pdb: false, annotations: false, crashes: 0, last_tick: 2, ..quiet });
    }
}

/// A walk that finds no mistake proves nothing.
#[test]
fn the_walk_finds_every_mistake_that_is_made_on_purpose() {
    let single = |needs| scenario("mistaken", Method::SingleNode, 1, needs);
    let faulty = |needs| Scenario { faults: true, pdb: false, annotations: false, ..single(needs) };
    let cases = [
        (Mutation::DeletesWithoutLooking, single(0), "a protected pod that had landed"),
        (Mutation::DoesNotSettle, single(0), "a protected pod that had landed"),
        (Mutation::DeletesAnyVersion, single(0), "deleted without note and taint"),
        (Mutation::GivesUpOnSpentBudgets, single(1), "dropped for no lasting reason"),
        (Mutation::NeverGivesUp, faulty(0), "stuck in"),
        (Mutation::ForgetsLateOrders, faulty(1), "stuck in"),
        (Mutation::KeepsUnusedReplacements, single(1), "an orphaned replacement"),
    ];
    for (mutation, scenario, words) in cases {
        let mistaken = Scenario { mutation: Some(mutation), ..scenario };
        let walk = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| explore(&mistaken)));
        let found = walk.err().unwrap_or_else(|| panic!("{mutation:?} was not found"));
        let said = found.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(said.contains(words), "{mutation:?}: {said}");
    }
}

/// Every command ends, whatever goes on for ever.
// Cases: QUE-4
#[test]
fn a_command_ends_in_every_lasting_world() {
    let methods = [
        (Method::SingleNode, 1, 1),
        (Method::MultiNode, 2, 0),
        (Method::Emptiness, 2, 0),
        (Method::Drift, 1, 1),
    ];
    let slow = [Event::PassSlow; 6];
    let worlds: [(&str, &[Event]); 5] = [
        (
            "every change of a Node is refused",
            &[Event::Guard(0), Event::Pass, Event::Pass, Event::Pass, Event::NewIsReady],
        ),
        ("a Node is gone", &[Event::NodeVanishes(0), Event::Pass, Event::Pass, Event::Pass]),
        ("reading takes long", &slow),
        (
            "the budget opens and closes",
            &[Event::PdbCloses, Event::Pass, Event::PdbOpens, Event::Pass, Event::Pass],
        ),
        ("the replacement never comes", &[Event::Pass, Event::Pass, Event::Pass, Event::Pass]),
    ];
    for (what, events) in worlds {
        for (method, nodes, needs) in methods {
            let scenario = scenario(what, method, nodes, needs);
            let mut world = scenario.start();
            for _ in 0..60 {
                for event in events.iter().copied().chain([Event::Tick]) {
                    (world.pdb_changes, world.slow_reads) = (0, 0);
                    world = scenario.after(&world, event);
                }
                // Every new node comes where none is meant to be missing.
                if what != "the replacement never comes" {
                    world = scenario.after(&world, Event::NewIsReady);
                }
            }
            assert!(world.ended.is_some(), "{what}, {method}: {world:?}");
        }
    }
}

#[test]
fn a_budget_that_opens_now_and_then_costs_no_replacement() {
    for method in [Method::SingleNode, Method::Drift] {
        let scenario = Scenario { timeout: 60, ..scenario("flapping budget", method, 1, 1) };
        let mut world = scenario.start();
        for round in 0..30 {
            let flap = if round % 3 == 2 { Event::PdbOpens } else { Event::PdbCloses };
            world.pdb_changes = 0;
            for event in [flap, Event::Pass, Event::Pass, Event::Pass, Event::NewIsReady, Event::Tick] {
                world = scenario.after(&world, event);
            }
        }
        assert_eq!(world.ended, Some(End::Done), "{method}: {world:?}");
    }
}

// Cases: DRC-16
#[test]
fn an_undisturbed_command_is_carried_out() {
    for (method, nodes, needs) in [
        (Method::SingleNode, 1, 1),
        (Method::MultiNode, 2, 1),
        (Method::MultiNode, 2, 0),
        (Method::Emptiness, 2, 0),
        (Method::Drift, 1, 1),
    ] {
        let scenario = scenario("undisturbed", method, nodes, needs);
        let mut world = scenario.start();
        for _ in 0..30 {
            let passes = [Event::Pass; 10];
            let others = [Event::Tick, Event::NewIsReady, Event::Drain(0), Event::Drain(nodes - 1)];
            for event in passes.into_iter().chain(others) {
                world = scenario.after(&world, event);
            }
        }
        assert_eq!(world.ended, Some(End::Done), "{method}: {world:?}");
        assert!(matches!(world.process, Process::Alive(_)));
    }
}
