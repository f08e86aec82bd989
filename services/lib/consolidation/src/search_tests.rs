//! What a pass asks and concludes beside commands that no simulation sees yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pool::ClusterInput;
use model::price::MicroDollars;
use policy::churn::Settings;
use policy::consolidation::{COST_UNIT, Candidate, Outcome, Replacement, TypeOption};
use policy::{Method, Reason};
use solver::{Options, Snapshot};

use crate::search::{Answer, Entry, Found, Methods, PlannedNode, Purpose, Question, Search, Situation};
use crate::tests::{input, node, pod};
use crate::{simulation_options, what_if};

#[derive(Clone, Debug)]
struct New;

impl PlannedNode for New {
    fn price(&self) -> MicroDollars {
        MicroDollars::new(150_000)
    }

    fn keep_types(&mut self, _: &[usize]) {}
}

fn entry(node: &str, pool: &str) -> Entry {
    Entry {
        candidate: Candidate {
            node: node.into(),
            pool: pool.into(),
            instance_type: Some("large".into()),
            price: MicroDollars::new(400_000),
            spot: false,
            reschedule_cost: 2 * COST_UNIT,
            holds_buffers: false,
        },
        methods: Methods { consolidation: true, ..Methods::default() },
        pods: 1,
        drifted: None,
        basis: 0,
        known: false,
    }
}

fn situation(entries: Vec<Entry>) -> Situation {
    let pools: Vec<Arc<str>> = entries.iter().map(|entry| entry.candidate.pool.clone()).collect();
    let allowance: BTreeMap<Arc<str>, u32> = pools.iter().map(|pool| (pool.clone(), 1)).collect();
    Situation {
        entries,
        allowances: Reason::ALL.into_iter().map(|reason| (reason, allowance.clone())).collect(),
        churn: pools.into_iter().map(|pool| (pool, Settings::default())).collect(),
        ..Situation::default()
    }
}

/// A removal that takes this many new nodes, which are cheaper.
fn answer(new: usize) -> Answer<New> {
    let option =
        TypeOption { name: "small".into(), worst_price: MicroDollars::new(150_000), worst_spot_price: None };
    let node = Replacement { types: vec![option], allows_on_demand: true, ..Replacement::default() };
    let outcome = Outcome { new_nodes: vec![node; new], ..Outcome::default() };
    Answer { outcome, nodes: vec![New; new] }
}

/// One pass in which every question has this answer, and what it asked.
fn pass(situation: &Situation, new: usize) -> (Found<New>, Vec<Question>) {
    let (mut search, mut asked) = (Search::new(situation, 64), Vec::new());
    loop {
        let questions = search.questions();
        if questions.is_empty() {
            return (search.finish(), asked);
        }
        search.answer(questions.iter().map(|_| Ok(answer(new))).collect());
        asked.extend(questions);
    }
}

#[test]
fn what_a_new_node_would_replace_is_not_judged_while_other_commands_are_outstanding() {
    let alone = situation(vec![entry("a", "default")]);
    let (found, asked) = pass(&alone, 1);
    assert_eq!(asked[0].remove, [Arc::from("a")]);
    assert_eq!((found.proposals.len(), found.verdicts.len()), (1, 1), "{found:?}");

    let beside = Situation { outstanding: vec!["going".into()], ..alone };
    let (found, asked) = pass(&beside, 1);
    assert_eq!(asked[0].remove, [Arc::from("a"), Arc::from("going")], "as if it were gone");
    // Neither a command nor a verdict that would keep it from being asked about again.
    assert!(found.proposals.is_empty() && found.verdicts.is_empty(), "{found:?}");
    // Whose pods fit on nodes that are there may go all the same.
    let (found, _) = pass(&beside, 0);
    let [proposal] = found.proposals.as_slice() else { panic!("{found:?}") };
    assert_eq!((proposal.method, &proposal.nodes[..]), (Method::SingleNode, &[Arc::from("a")][..]));
}

#[test]
fn a_pass_goes_on_with_the_nodes_that_its_commands_left_alone_and_within_the_budget() {
    let names = ["a", "b", "c", "d"];
    let mut all = situation(names.map(|name| entry(name, "default")).into());
    let asked_with = |situation: &Situation, at_once: usize| {
        let mut search: Search<'_, New> = Search::new(situation, at_once);
        let mut removed: Vec<Vec<Arc<str>>> = Vec::new();
        let mut asked: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        loop {
            if !search.proposals().is_empty() {
                assert!(search.questions().is_empty(), "what was found is carried out first");
                removed.extend(search.proposals().iter().map(|proposal| proposal.nodes.clone()));
                // The pods of each go to `b`.
                let gone = search.proposals().iter().flat_map(|proposal| proposal.nodes.iter().cloned());
                let changed = gone.chain(["b".into()]).collect();
                search.carried_out(&changed);
                continue;
            }
            let questions = search.questions();
            if questions.is_empty() {
                return (removed, asked);
            }
            for question in &questions {
                *asked.entry(question.remove[0].clone()).or_default() += 1;
            }
            search.answer(questions.iter().map(|_| Ok(answer(0))).collect());
        }
    };
    for at_once in [1, 3] {
        let (removed, asked) = asked_with(&all, at_once);
        assert_eq!(removed, [[Arc::from("a")]], "{at_once} at once: the budget is one node");
        assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    }
    for allowance in all.allowances.values_mut() {
        allowance.insert("default".into(), 3);
    }
    // Several at once are one command of all; single nodes come where that is refused.
    let (removed, _) = asked_with(&all, 1);
    assert_eq!(removed, [["a", "b", "c"].map(Arc::from).to_vec()], "after another method the pass is over");
}

#[test]
fn no_pool_is_consolidated_while_new_nodes_are_outstanding_in_any() {
    let both = situation(vec![entry("a", "default"), entry("b", "other")]);
    assert!(!pass(&both, 0).0.proposals.is_empty());
    let beside = Situation { outstanding_replacements: true, ..both };
    let (found, asked) = pass(&beside, 0);
    assert!(asked.is_empty() && found.proposals.is_empty() && found.verdicts.is_empty(), "{asked:?}");
    // What is empty needs no room, and goes.
    let mut empty = beside;
    empty.entries[1].methods = Methods { emptiness: true, ..Methods::default() };
    empty.entries[1].candidate.reschedule_cost = COST_UNIT;
    let (found, _) = pass(&empty, 0);
    assert_eq!(found.proposals.iter().map(|one| one.method).collect::<Vec<_>>(), [Method::Emptiness]);
}

/// Why it is no matter of one pool: the pods of both would take the same room.
#[test]
fn room_is_shared_between_pools() {
    let mut input: ClusterInput = input();
    let mut other = input.pools[0].clone();
    other.name = "other".into();
    input.pools.push(other);
    let mut of_other = node("b");
    of_other.pool = Some("other".into());
    of_other.labels.insert(model::labels::NODEPOOL.to_owned(), "other".to_owned());
    input.nodes = vec![node("a"), of_other, node("room")];
    for node in &mut input.nodes {
        (node.settling, node.nominated) = (false, false);
    }
    // Four CPUs each; one is left on `room`.
    let on = |node: &str, count: usize| -> Vec<_> {
        (0..count).map(|number| pod(&format!("{node}-{number}"), Some(node))).collect()
    };
    input.pods = [on("a", 1), on("b", 1), on("room", 3)].concat();
    let options = simulation_options(&Options::default());
    let snapshot = Snapshot::build(input.clone());
    let new_nodes = |remove: &[&str]| {
        let question = Question {
            remove: remove.iter().map(|node| Arc::from(*node)).collect(),
            purpose: Purpose::Consolidation,
            below: MicroDollars::ZERO,
        };
        let answer = what_if::answer(&snapshot, &question, &input.pools, &options, |_| false, &|| true);
        assert!(answer.outcome.left_over.is_empty(), "{remove:?}: {:?}", answer.outcome);
        answer.nodes.len()
    };
    assert_eq!([new_nodes(&["a"]), new_nodes(&["b"])], [0, 0], "each has room without the other");
    assert_eq!(new_nodes(&["a", "b"]), 1, "and not both");
}
