//! The second opinion on a plan before anything of it is launched: the solver's checker, which knows nothing of how the plan
//! was made. Nodes that break a rule are held back, alone, and their pods are tried once more by themselves with the simplest
//! packing; everything else is carried out.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::pool::ClusterInput;
use model::price::MicroDollars;
use solver::check::{HeldPod, check_within, hold_back};
use solver::{Change, Options, Plan, PodRef, Snapshot};
use tracing::{error, warn};

/// Violations in one line of the log.
const SHOWN: usize = 10;
/// What is left of a plan may break a rule that only held together with what was taken out.
const ROUNDS: usize = 8;

/// A plan that may be carried out.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedPlan {
    pub(super) plan: Plan,
    /// Pods whose places break a rule, in no place of the plan.
    pub(super) held: Vec<HeldPod>,
    /// Plans for the same pods that broke a rule.
    pub(super) unsound: usize,
}

/// Judges plans for one snapshot of the cluster. `input` is as much of the cluster as judging a plan takes.
pub(super) struct PlanCheck<'a, F> {
    pub(super) input: F,
    pub(super) snapshot: &'a Snapshot,
    pub(super) options: &'a Options,
    /// The deadline has not come: a plan that the checker had no time for is carried out as far as it was judged.
    pub(super) keep_going: &'a dyn Fn() -> bool,
}

impl<F: Fn(&Plan) -> ClusterInput> PlanCheck<'_, F> {
    pub(super) fn vetted(&self, plan: Plan) -> CheckedPlan {
        let (plan, held, unsound) = self.sound_part(plan, "the plan");
        if held.is_empty() {
            return CheckedPlan { plan, held, unsound };
        }
        let Some(both) = self.with_first_fit(&plan, &held) else {
            return CheckedPlan { plan, held, unsound };
        };
        let (both, _, more_unsound) = self.sound_part(both, "first fit for the pods that were held back");
        // What was sound before is not given up for it.
        if !plan.new_nodes.iter().all(|node| both.new_nodes.contains(node)) {
            return CheckedPlan { plan, held, unsound: unsound + 1 };
        }
        let placed = placed(&both);
        let held: Vec<HeldPod> = held.into_iter().filter(|held| !placed.contains(&held.pod)).collect();
        CheckedPlan { plan: both, held, unsound: unsound + more_unsound }
    }

    /// The plan without what breaks a rule, the pods of that, and 1 if there was anything.
    fn sound_part(&self, mut plan: Plan, what: &str) -> (Plan, Vec<HeldPod>, usize) {
        let mut held = Vec::new();
        for round in 0..ROUNDS {
            if plan.new_nodes.is_empty() {
                return (plan, held, round.min(1));
            }
            let checked = check_within(&(self.input)(&plan), &plan, self.options, self.keep_going);
            let violations = match checked {
                Ok(violations) if violations.is_empty() => return (plan, held, round.min(1)),
                Ok(violations) => violations,
                Err(found) => {
                    warn!(nodeclaims = plan.new_nodes.len(), "no time to check all of {what}");
                    let (plan, more) = hold_back(plan, &found);
                    held.extend(more);
                    return (plan, held, usize::from(round > 0 || !found.is_empty()));
                }
            };
            let shown: Vec<String> = violations.iter().take(SHOWN).map(ToString::to_string).collect();
            error!(
                count = violations.len(),
                violations = shown.join("; "),
                "parts of {what} break a rule and are held back; this is a defect of the solver, please report it"
            );
            let more;
            (plan, more) = hold_back(plan, &violations);
            held.extend(more);
        }
        let why = "its place depends on others that break a rule";
        for pod in plan.new_nodes.drain(..).flat_map(|node| node.pods) {
            plan.unreached.push(pod.clone());
            held.push(HeldPod { pod, why: why.into() });
        }
        (Plan { cost: MicroDollars::ZERO, lower_bound: None, ..plan }, held, 1)
    }

    /// The plan, and the simplest packing of the held pods beside it. It knows nothing of the plan, so both together must be
    /// judged again.
    fn with_first_fit(&self, plan: &Plan, held: &[HeldPod]) -> Option<Plan> {
        let has_place = placed(plan);
        let removed = |pod: &PodRef| Change::PodRemoved {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            node: None,
        };
        let changes: Vec<Change> = has_place.iter().map(removed).collect();
        let alone = self.snapshot.apply(&changes).ok()?;
        let simple = solver::first_fit(&alone, self.options);
        let wanted: BTreeSet<&PodRef> = held.iter().map(|held| &held.pod).collect();
        let mut both = plan.clone();
        let of_held = |pods: &[PodRef]| pods.iter().all(|pod| wanted.contains(pod));
        both.new_nodes.extend(simple.new_nodes.into_iter().filter(|node| of_held(&node.pods)));
        let used: BTreeSet<_> = plan.existing.iter().map(|node| node.node.clone()).collect();
        let free = |node: &solver::ExistingNode| !used.contains(&node.node) && of_held(&node.pods);
        both.existing.extend(simple.existing.into_iter().filter(free));
        let placed = placed(&both);
        both.unreached.retain(|pod| !placed.contains(pod));
        let prices = both.new_nodes.iter().map(|node| node.launch.price.get());
        both.cost = MicroDollars::new(prices.sum());
        (placed.len() > has_place.len()).then_some(both)
    }
}

/// For people: names the rule.
pub(super) fn explained(held: &HeldPod) -> Arc<str> {
    Arc::from(format!("the solver's plan for it breaks a rule and is not carried out: {}", held.why))
}

fn placed(plan: &Plan) -> BTreeSet<PodRef> {
    let new = plan.new_nodes.iter().flat_map(|node| &node.pods);
    new.chain(plan.existing.iter().flat_map(|node| &node.pods)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use model::catalog::{CapacityType, InstanceType, Offering};
    use model::pod::{Pod, PodSpec};
    use model::pool::NodePool;
    use model::resources::Resources;

    use super::*;
    use crate::schedule::decisions::{Decisions, PodId, Verdict};
    use crate::schedule::report::failure;

    fn resources(cpu: &str) -> Resources {
        [("cpu", cpu), ("memory", "8Gi"), ("pods", "10")]
            .into_iter()
            .map(|(name, amount)| (name, amount.parse().expect("a quantity")))
            .collect()
    }

    fn input() -> ClusterInput {
        let offering = Offering {
            zone: Arc::from("zone-a"),
            zone_id: None,
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars::new(100_000),
            available: true,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        let kind =
            InstanceType::new("kind", &Default::default(), resources("4"), Resources::new(), vec![offering]);
        let pool = NodePool {
            name: Arc::from("default"),
            weight: 0,
            limits: Resources::new(),
            labels: Default::default(),
            node_class_label: None,
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Default::default(),
            fixed_size: false,
            instance_types: Arc::new(vec![kind]),
        };
        let requests = [("cpu", "3".parse().expect("a quantity"))].into_iter().collect();
        let spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
        let pod = |name: &str| Pod::pending("default", name, Arc::clone(&spec));
        ClusterInput { pods: vec![pod("web-0"), pod("web-1")], pools: vec![pool], ..ClusterInput::default() }
    }

    fn vetted(plan: Plan, input: &ClusterInput, snapshot: &Snapshot) -> CheckedPlan {
        let options = Options::default();
        PlanCheck { input: |_: &Plan| input.clone(), snapshot, options: &options, keep_going: &|| true }
            .vetted(plan)
    }

    fn solved(input: &ClusterInput) -> (Snapshot, Plan) {
        let snapshot = Snapshot::build(input.clone());
        let plan = solver::solve(&snapshot, &Options::default(), &|| true);
        (snapshot, plan)
    }

    #[test]
    fn a_sound_plan_is_carried_out_as_it_is() {
        let input = input();
        let (snapshot, plan) = solved(&input);
        assert_eq!(
            vetted(plan.clone(), &input, &snapshot),
            CheckedPlan { plan, held: Vec::new(), unsound: 0 }
        );
    }

    #[test]
    fn a_node_that_breaks_a_rule_gives_way_to_first_fit_and_the_others_stay() {
        let input = input();
        let (snapshot, sound) = solved(&input);
        assert_eq!(sound.new_nodes.len(), 2);
        let mut broken = sound.clone();
        broken.new_nodes[0].launch.price = MicroDollars::new(1);
        let vetted = vetted(broken, &input, &snapshot);
        assert_eq!((vetted.unsound, vetted.held), (1, Vec::new()));
        assert_eq!(vetted.plan.new_nodes[0], sound.new_nodes[1], "untouched");
        assert_eq!((vetted.plan.new_nodes.len(), vetted.plan.cost), (2, sound.cost));
        assert!(vetted.plan.is_complete());
    }

    #[test]
    fn only_the_pods_of_a_pool_without_a_sound_node_are_held_back() {
        let mut input = input();
        input.pools.push(NodePool { name: Arc::from("other"), ..input.pools[0].clone() });
        for (pod, pool) in input.pods.iter_mut().zip(["other", "default"]) {
            let mut spec = (*pod.spec).clone();
            spec.node_selector.insert(model::labels::NODEPOOL.to_owned(), pool.to_owned());
            pod.spec = Arc::new(spec);
        }
        let (snapshot, plan) = solved(&input);
        assert_eq!(plan.new_nodes.len(), 2);
        // The cluster is another one than the plan was made for: one pool may not grow.
        let mut changed = input.clone();
        changed.pools[1].fixed_size = true;
        let vetted = vetted(plan, &changed, &snapshot);
        let pools: Vec<&str> = vetted.plan.new_nodes.iter().map(|node| &*node.pool).collect();
        assert_eq!((pools, vetted.unsound), (vec!["default"], 2));
        assert_eq!(vetted.held.len(), 1);
        assert!(vetted.held[0].why.contains("fixed number of nodes"), "{:?}", vetted.held);
        assert_eq!(vetted.plan.unreached, [vetted.held[0].pod.clone()]);

        let why = explained(&vetted.held[0]);
        let pod = PodId { namespace: "default".into(), name: "web-0".into(), uid: "uid-0".into() };
        let mut decisions = Decisions::default();
        decisions.held([&pod], &why);
        let Some(Verdict::Held(known)) = decisions.verdicts().remove(&pod.uid) else { panic!("held") };
        assert!(known.contains("fixed number of nodes"), "{known}");
        let event = failure(&pod, &why, "checker");
        assert_eq!((event.reason, event.about.name.as_deref()), ("FailedScheduling", Some("web-0")));
        assert!(event.message.contains("fixed number of nodes"), "{}", event.message);
    }
}
