use jiff::SignedDuration;
use model::pod::LabelSelector;

use super::super::pace::{Candidate, Gate, SLOWEST_RETRY, admit, backoff, next_turn};
use super::super::pdb::{Block, Pdb, block};
use super::*;

fn pdb(name: &str, allowed: i32) -> Pdb {
    Pdb {
        namespace: "shop".into(),
        name: name.into(),
        selector: Some(LabelSelector::of_labels([("app", "db")])),
        unhealthy_always: false,
        allowed,
        healthy: 1,
        desired: 1,
        expected: 1,
    }
}

fn budgets(all: impl IntoIterator<Item = Pdb>) -> Vec<Arc<Pdb>> {
    all.into_iter().map(Arc::new).collect()
}

// Cases: PDB-3, PDB-4, PDB-5, PDB-6, SCH-K-47, SCH-K-48, SCH-K-49, SCH-K-50
#[test]
fn a_spent_budget_is_named_with_its_figures() {
    let found = block(&pod("db"), &budgets([pdb("guard", 0)])).unwrap();
    assert_eq!(found.to_string(), "PDB shop/guard allows 0 disruptions: 1 of 1 healthy");
    assert_eq!(block(&pod("db"), &budgets([pdb("guard", 1)])), None);
    assert_eq!(block(&pod("web"), &budgets([pdb("guard", 0)])), None);
}

// Cases: PDB-7, SCH-K-51
#[test]
fn several_budgets_block_whatever_they_allow_and_all_are_named() {
    let found = block(&pod("db"), &budgets([pdb("a", 5), pdb("b", 5), pdb("c", 5)])).unwrap();
    assert_eq!(found, Block::Several(vec!["shop/a".into(), "shop/b".into(), "shop/c".into()]));
    assert!(found.to_string().starts_with("3 PDBs cover it"));
}

// Cases: REP-13
#[test]
fn budgets_of_other_namespaces_and_without_selector_cover_nothing() {
    let elsewhere = Pdb { namespace: "bank".into(), ..pdb("a", 0) };
    let nothing = Pdb { selector: None, ..pdb("b", 0) };
    let everything = Pdb { selector: Some(LabelSelector::default()), ..pdb("c", 0) };
    assert_eq!(block(&pod("web"), &budgets([elsewhere, nothing])), None);
    assert!(block(&pod("web"), &budgets([everything])).is_some());
}

// Cases: PDB-1, PDB-2, SCH-K-45, SCH-K-46
#[test]
fn unhealthy_and_pending_pods_are_judged_as_the_eviction_api_does() {
    let unhealthy = Pod { unhealthy: true, ..pod("db") };
    let pending = Pod { phase: Phase::Pending, ..pod("db") };
    let short = Pdb { healthy: 0, ..pdb("a", 0) };
    let always = Pdb { unhealthy_always: true, ..short.clone() };
    assert!(block(&unhealthy, &budgets([short.clone()])).is_some(), "the budget is not met");
    assert_eq!(block(&unhealthy, &budgets([always.clone()])), None);
    assert_eq!(block(&unhealthy, &budgets([pdb("a", 0)])), None, "the healthy ones suffice");
    assert!(block(&pod("db"), &budgets([always])).is_some(), "a healthy pod is covered");
    assert_eq!(block(&pending, &budgets([short])), None);
}

#[test]
fn backoff_doubles_from_a_tenth_of_a_second_to_ten_and_jitter_only_shortens() {
    let full: Vec<i128> = (1..=9).map(|n| backoff(n, 0).as_millis()).collect();
    assert_eq!(full, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    assert_eq!(backoff(u32::MAX, 0), SLOWEST_RETRY);
    for failures in 0..40 {
        for jitter in [0, 1, 499, 500, 999, 1000, u32::MAX] {
            let (full, span) = (backoff(failures, 0), backoff(failures, jitter));
            assert!(
                span <= full && span >= full / 4 * 3 - SignedDuration::from_millis(1),
                "{failures} {jitter}"
            );
        }
    }
}

fn candidate(not_before: i64, gate: Option<usize>) -> Candidate {
    Candidate { not_before: at(not_before), rank: pod("db").rank(), gate }
}

#[test]
fn as_many_are_asked_for_as_the_budget_allows_less_those_on_their_way() {
    let behind = vec![candidate(0, Some(0)); 100];
    let gate = Gate { allowed: 5, in_flight: 2, probe_at: at(0) };
    assert_eq!(admit(&behind, &[gate], at(0), 1000).len(), 3);
    let spent = Gate { allowed: 0, in_flight: 0, probe_at: at(0) };
    assert_eq!(admit(&behind, &[spent], at(0), 1000).len(), 1, "a probe, because the figure may be old");
    assert_eq!(admit(&behind, &[Gate { probe_at: at(1), ..spent }], at(0), 1000).len(), 0);
    assert_eq!(next_turn(&behind, &[Gate { probe_at: at(1), ..spent }], at(0)), Some(at(1)));
}

#[test]
fn one_spent_budget_holds_up_nobody_else_and_slots_are_a_hard_limit() {
    let mut all = vec![candidate(-5, Some(0)); 10];
    all.extend(vec![candidate(0, None); 10]);
    let spent = Gate { allowed: 0, in_flight: 0, probe_at: at(9) };
    assert_eq!(admit(&all, &[spent], at(0), 7), [10, 11, 12, 13, 14, 15, 16]);
}

#[test]
fn the_longest_waiting_is_asked_for_first_and_backoff_is_kept() {
    let all = [candidate(3, None), candidate(1, None), candidate(2, None), candidate(9, None)];
    assert_eq!(admit(&all, &[], at(5), 10), [1, 2, 0]);
    assert_eq!(next_turn(&all, &[], at(5)), Some(at(9)));
}

#[test]
fn of_equal_wait_the_lowest_priority_goes_first_and_then_the_largest() {
    let sized = |priority, cpu_milli, memory_bytes| {
        let pod = Pod { priority, size: Size { cpu_milli, memory_bytes }, ..pod("db") };
        Candidate { rank: pod.rank(), ..candidate(0, None) }
    };
    let all = [sized(0, 100, 9), sized(0, 2000, 1), sized(10, 4000, 1), sized(0, 2000, 2), sized(-1, 50, 1)];
    assert_eq!(admit(&all, &[], at(0), 10), [4, 3, 1, 0, 2]);
}
