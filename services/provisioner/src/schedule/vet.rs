//! The second opinion on a plan before anything of it is launched: the solver's checker, which knows nothing of how the plan
//! was made. A plan that breaks a rule is not carried out; the simplest plan for the same pods is, if that one is sound.

use model::pool::ClusterInput;
use model::price::MicroDollars;
use solver::check::check;
use solver::{Options, Plan, Snapshot};
use tracing::error;

/// Violations in one line of the log.
const SHOWN: usize = 10;

/// The plan if it is sound; else first fit, decreasing, if that is; else a plan that makes no node, so that its pods are
/// tried again. And how many plans were refused. `input` is as much of the cluster as judging a plan takes.
pub(super) fn vetted(
    plan: Plan,
    input: impl Fn(&Plan) -> ClusterInput,
    snapshot: &Snapshot,
    options: &Options,
) -> (Plan, usize) {
    if plan.new_nodes.is_empty() || is_sound(&plan, &input(&plan), options, "the plan") {
        return (plan, 0);
    }
    let simple = solver::first_fit(snapshot, options);
    if is_sound(&simple, &input(&simple), options, "first fit, decreasing, in its place") {
        return (simple, 1);
    }
    let mut plan = plan;
    let homeless = plan.new_nodes.drain(..).flat_map(|node| node.pods);
    plan.unreached.extend(homeless);
    (Plan { cost: MicroDollars::ZERO, lower_bound: None, ..plan }, 2)
}

fn is_sound(plan: &Plan, input: &ClusterInput, options: &Options, what: &str) -> bool {
    let wrong = check(input, plan, options);
    if !wrong.is_empty() {
        let shown: Vec<String> = wrong.iter().take(SHOWN).map(ToString::to_string).collect();
        error!(
            count = wrong.len(),
            violations = shown.join("; "),
            "{what} breaks a rule and is not carried out; this is a defect of the solver, please report it"
        );
    }
    wrong.is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::catalog::{CapacityType, InstanceType, Offering};
    use model::pod::{Pod, PodSpec};
    use model::pool::NodePool;
    use model::resources::Resources;

    use super::*;

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
        let requests = [("cpu", "1".parse().expect("a quantity"))].into_iter().collect();
        let pod = Pod::pending("default", "web-0", Arc::new(PodSpec { requests, ..PodSpec::default() }));
        ClusterInput { pods: vec![pod], pools: vec![pool], ..ClusterInput::default() }
    }

    #[test]
    fn a_sound_plan_is_carried_out_as_it_is() {
        let (input, options) = (input(), Options::default());
        let snapshot = Snapshot::build(input.clone());
        let plan = solver::solve(&snapshot, &options, &|| true);
        assert_eq!(vetted(plan.clone(), |_| input.clone(), &snapshot, &options), (plan, 0));
    }

    #[test]
    fn a_plan_that_breaks_a_rule_gives_way_to_the_simplest_sound_one() {
        let (input, options) = (input(), Options::default());
        let snapshot = Snapshot::build(input.clone());
        let sound = solver::solve(&snapshot, &options, &|| true);
        let mut broken = sound.clone();
        broken.new_nodes[0].launch.price = MicroDollars::new(1);
        let (carried_out, refused) = vetted(broken, |_| input.clone(), &snapshot, &options);
        assert_eq!((carried_out.new_nodes, refused), (sound.new_nodes, 1));
    }

    #[test]
    fn nothing_is_made_where_no_plan_is_sound() {
        let (input, options) = (input(), Options::default());
        let snapshot = Snapshot::build(input.clone());
        let plan = solver::solve(&snapshot, &options, &|| true);
        // The cluster is another one than the plan was made for: its pool may not grow.
        let mut other = input;
        other.pools[0].fixed_size = true;
        let (carried_out, refused) = vetted(plan, |_| other.clone(), &snapshot, &options);
        assert!(carried_out.new_nodes.is_empty() && refused == 2);
        assert_eq!((carried_out.unreached.len(), carried_out.cost), (1, MicroDollars::ZERO));
    }
}
