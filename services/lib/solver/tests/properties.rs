//! Properties of every plan, tried on random clusters: the checker finds nothing wrong, the same question has the same answer,
//! and both hold for clusters that lose nodes or gain pods. `SOLVER_CASES` sets the number of cases, for nightly runs of
//! millions.

mod fixture;
mod random;
mod scenario;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::pool::ClusterInput;
use random::cluster::random_cluster;
use random::describe::{describe, describe_plan};
use random::shrink::shrink;
use random::{cases, options};
use scenario::generate::anything;
use scenario::random::Random;
use solver::check::{Violation, check, check_without};
use solver::{Change, Effort, NodeId, Options, Plan, Rule, Snapshot, explain, simulate, solve};

/// What to ask about a cluster.
#[derive(Clone, Debug)]
struct Question {
    /// Nodes to remove, by name; names that the cluster has not are passed over.
    remove: Vec<String>,
    options: Options,
}

impl Question {
    fn removed<'a>(&'a self, input: &ClusterInput) -> BTreeSet<&'a str> {
        let known = |name: &&String| input.nodes.iter().any(|node| *node.name == ***name);
        self.remove.iter().filter(known).map(String::as_str).collect()
    }

    fn plan(&self, input: &ClusterInput) -> Plan {
        let snapshot = Snapshot::build(input.clone());
        let remove: Vec<NodeId> =
            self.removed(input).into_iter().filter_map(|name| snapshot.node_id(name)).collect();
        if remove.is_empty() {
            return solve(&snapshot, &self.options, &|| true);
        }
        simulate(&snapshot, &remove, &[], &self.options, &|| true)
    }

    /// What is wrong with the answer, by kind and in words. To panic is one more kind.
    fn wrongs(&self, input: &ClusterInput) -> Vec<(String, String)> {
        let Ok(plan) = catch_unwind(AssertUnwindSafe(|| self.plan(input))) else {
            return vec![("Panic".to_owned(), "the solver panicked".to_owned())];
        };
        let mut found = check_without(input, &self.removed(input), &plan, &self.options);
        if plan.unschedulable.iter().any(|left| left.why.rule == Rule::UninitializedNode) {
            // Where such a pod would be is known, and others may rely on it; the plan does not say where.
            found.retain(|v| !matches!(v, Violation::SpreadSkewed { .. } | Violation::AffinityUnmet { .. }));
        }
        found.iter().map(|violation| (kind(violation), violation.to_string())).collect()
    }

    /// Nothing where the plan is fine; else the smallest case that shows the same kind of mistake, in words.
    fn problem(&self, input: &ClusterInput) -> Option<String> {
        let kind = self.wrongs(input).first()?.0.clone();
        let wrong = |input: &ClusterInput| self.wrongs(input).iter().any(|(found, _)| *found == kind);
        let small = shrink(input.clone(), &wrong);
        let words: Vec<String> = self.wrongs(&small).into_iter().map(|(_, words)| words).collect();
        let plan = catch_unwind(AssertUnwindSafe(|| describe_plan(&self.plan(&small)))).unwrap_or_default();
        Some(format!("[{kind}] {}\n{self:?}\n{}--\n{plan}", words.join("\n"), describe(&small)))
    }
}

/// The name of the broken rule.
fn kind(violation: &Violation) -> String {
    let text = format!("{violation:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

fn report(problems: Vec<(u64, String)>, tried: u64) {
    let text: Vec<String> =
        problems.iter().map(|(seed, problem)| format!("=== seed {seed}\n{problem}")).collect();
    assert!(text.is_empty(), "{} of {tried} cases:\n{}", text.len(), text.join("\n"));
}

// Cases: SCH-A.6-3, SCH-D-3, SCH-D-11, SCH-D-12, SCH-D-13, SCH-D-15, SCH-D-17, SCH-D-24
#[test]
fn plans_of_random_clusters_break_no_rule() {
    let tried = cases(250);
    let ask = |seed: u64| {
        let input = random_cluster(seed);
        let question = Question { remove: Vec::new(), options: options(&mut Random::new(!seed)) };
        question.problem(&input).map(|problem| (seed, problem))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

// Cases: DEL-14, TOP-1, TOP-2
#[test]
fn plans_of_clusters_that_lose_nodes_break_no_rule() {
    let tried = cases(150);
    let ask = |seed: u64| {
        let mut random = Random::new(!seed);
        let input = random_cluster(seed.wrapping_add(1 << 40));
        let remove =
            input.nodes.iter().map(|node| node.name.to_string()).filter(|_| random.one_in(2)).collect();
        let options = Options {
            protect_settling: random.one_in(2),
            distrust_uninitialized: random.one_in(2),
            ..options(&mut random)
        };
        Question { remove, options }.problem(&input).map(|problem| (seed, problem))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

#[test]
fn plans_of_larger_workloads_break_no_rule() {
    let tried = cases(15);
    let ask = |seed: u64| {
        let question = Question { remove: Vec::new(), options: Options::default() };
        question.problem(&anything(seed.wrapping_add(9_000_000)).to_input()).map(|problem| (seed, problem))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

#[test]
fn added_pods_are_placed_as_if_they_had_been_there() {
    let tried = cases(60);
    let ask = |seed: u64| {
        let mut random = Random::new(!seed);
        let whole = random_cluster(seed.wrapping_add(1 << 41));
        let options = options(&mut random);
        let (added, kept): (Vec<_>, Vec<_>) = {
            let pods = whole.pods.iter().cloned();
            pods.partition(|pod| pod.node.is_none() && pod.rejected.is_none() && random.one_in(3))
        };
        let part = ClusterInput { pods: kept, ..whole.clone() };
        let plan = simulate(&Snapshot::build(part), &[], &added, &options, &|| true);
        let words: Vec<String> = check(&whole, &plan, &options).iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| (seed, format!("{}\n{}", words.join("\n"), describe(&whole))))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

#[test]
fn the_same_question_has_the_same_answer() {
    for seed in 0..cases(60) {
        let input = random_cluster(seed.wrapping_add(1 << 42));
        let question = Question { remove: Vec::new(), options: options(&mut Random::new(!seed)) };
        assert_eq!(question.plan(&input), question.plan(&input), "seed {seed}");
    }
}

/// A plan that was cut short is still one that may be carried out.
#[test]
fn plans_under_a_deadline_break_no_rule() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let tried = cases(60);
    let ask = |seed: u64| {
        let mut random = Random::new(!seed);
        let input = random_cluster(seed.wrapping_add(1 << 43));
        let options = options(&mut random);
        let steps = random.below(6);
        let asked = AtomicUsize::new(0);
        let keep_going = || asked.fetch_add(1, Ordering::Relaxed) < steps;
        let plan = solve(&Snapshot::build(input.clone()), &options, &keep_going);
        let words: Vec<String> = check(&input, &plan, &options).iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| (seed, format!("{}\n{}", words.join("\n"), describe(&input))))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

#[test]
fn no_plan_is_dearer_than_first_fit_decreasing() {
    for seed in 0..cases(60) {
        let input = random_cluster(seed.wrapping_add(1 << 44));
        let usual = options(&mut Random::new(!seed));
        let snapshot = Snapshot::build(input);
        let full = solve(&snapshot, &Options { effort: Effort::Full, ..usual.clone() }, &|| true);
        let greedy = solver::first_fit(&snapshot, &Options { effort: Effort::Full, ..usual });
        assert_eq!(full.unschedulable.len(), greedy.unschedulable.len(), "seed {seed}");
        assert!(full.cost <= greedy.cost, "seed {seed}: {} against {}", full.cost, greedy.cost);
    }
}

/// Whoever is left over is told why, and whoever is placed is not told that it is left over.
#[test]
fn explanations_agree_with_the_plan() {
    for seed in 0..cases(60) {
        let input = random_cluster(seed.wrapping_add(1 << 45));
        let options = options(&mut Random::new(!seed));
        let snapshot = Snapshot::build(input.clone());
        let plan = solve(&snapshot, &options, &|| true);
        for left in &plan.unschedulable {
            assert_ne!(left.why.rule, Rule::None, "seed {seed}: {} is left over for no reason", left.pod);
            assert!(!left.why.to_string().is_empty(), "seed {seed}");
            let asked = explain(&snapshot, &left.pod.namespace, &left.pod.name, Some(&plan), &options);
            assert_eq!(asked.as_ref(), Some(&*left.why), "seed {seed}: {}", left.pod);
        }
        let existing = plan.existing.iter().flat_map(|node| &node.pods);
        for pod in plan.new_nodes.iter().flat_map(|node| &node.pods).chain(existing) {
            let why = explain(&snapshot, &pod.namespace, &pod.name, Some(&plan), &options);
            assert_eq!(why.map(|why| why.rule), Some(Rule::None), "seed {seed}: {pod} has a place");
        }
    }
}

/// Changes carried over one by one lead to plans that are as sound as those of a snapshot built from the result.
#[test]
fn plans_of_snapshots_that_were_changed_break_no_rule() {
    let tried = cases(60);
    let ask = |seed: u64| {
        let mut random = Random::new(!seed);
        let whole = random_cluster(seed.wrapping_add(1 << 46));
        let options = options(&mut random);
        let mut part = whole.clone();
        let mut changes = Vec::new();
        part.nodes.retain(|node| {
            let later = random.one_in(2);
            if later {
                changes.push(Change::NodeSet(node.clone()));
            }
            !later
        });
        let missing = |name: &str| {
            whole.nodes.iter().any(|n| *n.name == *name) && !part.nodes.iter().any(|n| *n.name == *name)
        };
        let (later, kept): (Vec<_>, Vec<_>) = whole
            .pods
            .iter()
            .cloned()
            .partition(|pod| pod.node.as_deref().map_or_else(|| random.one_in(3), missing));
        part.pods = kept;
        changes.extend(later.into_iter().map(Change::PodAdded));
        let snapshot =
            Snapshot::build(part).apply(&changes).unwrap_or_else(|_| Snapshot::build(whole.clone()));
        let plan = solve(&snapshot, &options, &|| true);
        let words: Vec<String> = check(&whole, &plan, &options).iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| (seed, format!("{}\n{}", words.join("\n"), describe(&whole))))
    };
    report((0..tried).filter_map(ask).collect(), tried);
}

/// What-ifs that leave out pending pods without a place put all other pods where they would be otherwise.
// Cases: DEL-19
#[test]
fn pending_pods_without_a_place_change_no_what_if() {
    for seed in 0..cases(400) {
        let mut random = Random::new(!seed);
        let input = random_cluster(seed.wrapping_add(1 << 47));
        let snapshot = Snapshot::build(input);
        let remove: Vec<NodeId> = snapshot.node_ids().filter(|_| random.one_in(2)).collect();
        let all = Options { effort: Effort::Quick, ..options(&mut random) };
        let few = Options { report_pending: false, ..all.clone() };
        let (all, few) = (
            simulate(&snapshot, &remove, &[], &all, &|| true),
            simulate(&snapshot, &remove, &[], &few, &|| true),
        );
        assert_eq!((&all.new_nodes, &all.existing), (&few.new_nodes, &few.existing), "seed {seed}");
        assert!(few.unschedulable.iter().all(|left| all.unschedulable.contains(left)), "seed {seed}");
    }
}

#[test]
fn a_plan_that_was_cut_short_says_so() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    for seed in 0..cases(60) {
        let mut random = Random::new(!seed);
        let snapshot = Snapshot::build(random_cluster(seed.wrapping_add(1 << 48)));
        let (steps, asked, refused) = (random.below(40), AtomicUsize::new(0), AtomicBool::new(false));
        let keep_going = || {
            let more = asked.fetch_add(1, Ordering::Relaxed) < steps;
            refused.fetch_or(!more, Ordering::Relaxed);
            more
        };
        let plan = solve(&snapshot, &options(&mut random), &keep_going);
        assert_eq!(plan.timed_out, refused.load(Ordering::Relaxed), "seed {seed}");
    }
}
