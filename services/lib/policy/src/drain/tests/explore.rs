//! Every interleaving: all states that the model can reach, and from each of them the way to the end in a world that lets
//! us. What must never happen is checked by the model itself.

use std::collections::BTreeSet;

use super::world::{Event, Machine, Scenario, TICK, World};
use super::*;

fn labelled(app: &str, pod: Pod) -> Pod {
    Pod { labels: Arc::new(LabelMap::from([("app".into(), app.into())])), ..pod }
}

/// Walks all reachable states and returns their number.
fn explore(scenario: &Scenario) -> usize {
    let start = scenario.start();
    let mut known = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    let mut ending = BTreeSet::new();
    while let Some(world) = open.pop() {
        reaches_the_end(scenario, &world, &mut ending);
        for event in scenario.events(&world) {
            let next = scenario.after(&world, event);
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    assert!(
        known.iter().any(|world| !world.node && !world.claim),
        "{}: the end is among the reachable states",
        scenario.name
    );
    known.len()
}

/// In a friendly world (budgets open, pods end when told, volumes detach, EC2 answers) everything is gone after a while,
/// whatever happened before.
fn reaches_the_end(scenario: &Scenario, from: &World, ending: &mut BTreeSet<World>) {
    let mut path = Vec::new();
    let mut world = from.clone();
    for _ in 0..60 {
        if ending.contains(&world) {
            break;
        }
        if !world.node && !world.claim {
            assert_eq!(world.machine, Machine::Gone, "{}: an instance is left over", scenario.name);
            break;
        }
        path.push(world.clone());
        let mut round =
            vec![Event::BudgetOpens, Event::VolumeDetaches, Event::Ec2Answers, Event::ShutdownEnds];
        round.extend((0..world.pods.len()).flat_map(|n| [Event::ProtectionEnds(n), Event::PodEnds(n)]));
        round.extend([Event::Ec2Answers, Event::Tick, Event::NodePass, Event::ClaimPass]);
        for event in round {
            world = scenario.after(&world, event);
        }
    }
    let arrived = ending.contains(&world) || (!world.node && !world.claim);
    assert!(arrived, "{}: stuck in {world:?}, coming from {from:?}", scenario.name);
    ending.extend(path);
}

fn scenario(name: &'static str, pods: Vec<Pod>) -> Scenario {
    Scenario {
        name,
        pods,
        one_comes_late: false,
        grace_period: None,
        volume: false,
        by_node: false,
        last: 2 * TICK,
    }
}

// Cases: TRM-17
#[test]
fn a_budgeted_pod_and_a_daemon_without_deadline() {
    let pods = vec![labelled("db", pod("db")), pod("agent").daemon()];
    let states = explore(&scenario("budget", pods));
    assert!(states > 3_000, "the walk is no walk: {states}");
}

#[test]
fn a_node_delete_pulls_the_claim_in() {
    let by_node = Scenario { by_node: true, ..scenario("by node", vec![labelled("db", pod("db"))]) };
    explore(&by_node);
}

#[test]
fn a_grace_period_ends_what_a_budget_and_an_annotation_hold() {
    let pods = vec![labelled("db", pod("db").grace(6)), pod("job").grace(12).protected("true")];
    let deadline = Scenario { grace_period: Some(12), last: 5 * TICK, ..scenario("deadline", pods) };
    explore(&deadline);
}

#[test]
fn a_pod_whose_grace_exceeds_the_period_is_cut_short() {
    let pods = vec![labelled("db", pod("db").grace(600))];
    let long = Scenario { grace_period: Some(12), last: 5 * TICK, ..scenario("long grace", pods) };
    explore(&long);
}

#[test]
fn volumes_hold_the_instance_until_they_go_or_the_deadline_passes() {
    let with = |grace_period| Scenario {
        volume: true,
        grace_period,
        last: 4 * TICK,
        ..scenario("volume", vec![labelled("db", pod("db").grace(6))])
    };
    explore(&with(None));
    explore(&with(Some(12)));
}

#[test]
fn a_pod_bound_by_a_scheduler_that_had_not_seen_the_taint() {
    let pods = vec![labelled("db", pod("db")), pod("late")];
    explore(&Scenario { one_comes_late: true, ..scenario("late pod", pods) });
}

// Cases: TRM-14
#[test]
fn three_groups_with_a_critical_pod_behind_a_budget() {
    let pods = vec![pod("web"), pod("agent").daemon(), labelled("db", pod("dns").critical())];
    explore(&Scenario { last: TICK, ..scenario("groups", pods) });
}
