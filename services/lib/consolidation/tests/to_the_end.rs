//! Whole plans for fragmented clusters: each command can be carried out after those before it, and the work stays in bounds.

#[path = "../../solver/tests/scenario/mod.rs"]
mod scenario;

use std::collections::BTreeMap;
use std::sync::Arc;

use consolidation::{Consolidated, Rest, name_of, run};
use model::pool::ClusterInput;
use model::resources::{CPU, MEMORY, PODS};
use scenario::catalogue::families;
use scenario::generate::fragmented_cluster;
use solver::{Options, Plan};

/// Moving pods costs nothing, so that there are many commands.
fn with_budget(budget: &str) -> Rest {
    let pool = format!(
        r#"{{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {{"name": "default",
            "annotations": {{"karpenter.sh/consolidation-cost-per-pod": "0"}}}}, "spec": {{
            "disruption": {{"consolidateAfter": "0s", "budgets": [{{"nodes": "{budget}"}}]}},
            "template": {{"spec": {{"requirements": [], "nodeClassRef": {{"group": "g", "kind": "k", "name": "n"}}}}}}}}}}"#
    );
    let pool = serde_json::from_str(&pool).expect("it is a NodePool");
    Rest { pools: [(Arc::from("default"), Arc::new(pool))].into(), ..Rest::default() }
}

fn planned(input: &ClusterInput, budget: &str) -> Consolidated {
    run(input.clone(), &with_budget(budget), &Plan::default(), &Options::default(), &|| true)
}

/// What nodes hold and what they can: processor time, memory and pods.
struct Nodes {
    pods: BTreeMap<String, [i128; 3]>,
    node_of: BTreeMap<String, String>,
    room: BTreeMap<String, [i128; 3]>,
}

impl Nodes {
    fn of(input: &ClusterInput) -> Self {
        let amounts = |of: &model::resources::Resources| [CPU, MEMORY, PODS].map(|name| of.get(name).nano());
        let pod = |pod: &model::pod::Pod| {
            let [cpu, memory, _] = amounts(&pod.spec.requests);
            (pod.key(), [cpu, memory, 1_000_000_000])
        };
        Self {
            pods: input.pods.iter().map(pod).collect(),
            node_of: input
                .pods
                .iter()
                .filter_map(|pod| Some((pod.key(), pod.node.as_ref()?.to_string())))
                .collect(),
            room: input
                .nodes
                .iter()
                .map(|node| (node.name.to_string(), amounts(&node.allocatable)))
                .collect(),
        }
    }

    /// Carries a command out as it is written, and checks that it can be.
    fn carry_out(&mut self, command: &consolidation::Command, input: &ClusterInput) {
        for (number, node) in command.nodes.iter().enumerate() {
            let kinds = &input.pools[0].instance_types;
            let kind =
                kinds.iter().find(|kind| kind.name == node.launch.instance_type).expect("it is listed");
            let room = |name: &str| (kind.capacity.get(name) - kind.overhead.get(name)).nano();
            self.room.insert(name_of(command.first + number), [CPU, MEMORY, PODS].map(room));
        }
        for one in &command.moves {
            let node = self.node_of.get_mut(&one.pod.to_string()).expect("the pod runs");
            assert_eq!(*node, one.from, "{} is where the command says", one.pod);
            node.clone_from(&one.to);
        }
        for node in &command.remove {
            self.room.remove(&**node).expect("what is removed is there");
        }
        let mut used: BTreeMap<&str, [i128; 3]> = BTreeMap::new();
        for (pod, node) in &self.node_of {
            let used = used.entry(node).or_default();
            (0..3).for_each(|dim| used[dim] += self.pods[pod][dim]);
        }
        for (node, used) in used {
            let room = self.room.get(node).unwrap_or_else(|| panic!("pods are left on {node}"));
            assert!((0..3).all(|dim| used[dim] <= room[dim]), "{node} is over-full: {used:?} of {room:?}");
        }
    }
}

#[test]
fn commands_can_be_carried_out_in_their_order_and_move_no_pod_more_than_twice() {
    for (seed, budget) in [(1, "100%"), (2, "10%"), (3, "5")] {
        let input = fragmented_cluster(120, families(), seed).to_input();
        let found = planned(&input, budget);
        let mut nodes = Nodes::of(&input);
        let mut moves: BTreeMap<String, usize> = BTreeMap::new();
        let mut saved = 0;
        for command in &found.commands {
            nodes.carry_out(command, &input);
            assert!(command.savings.get() > 0, "{command:?}");
            saved += command.savings.get();
            for one in &command.moves {
                *moves.entry(one.pod.to_string()).or_default() += 1;
            }
        }
        assert!(moves.values().all(|times| *times <= 2), "seed {seed}: {:?}", moves.values().max());
        assert_eq!(found.before.get() - saved, found.after.get(), "seed {seed}");
        assert!(
            found.after.get() * 3 < found.before.get() * 2,
            "seed {seed}: {} of {}",
            found.after,
            found.before
        );
        let together = budget.parse().unwrap_or(100);
        assert!(found.commands.iter().all(|command| command.remove.len() <= together), "seed {seed}");
    }
}

/// One pass after the other looks at every node; a search that began anew after each command would look many times as often.
#[test]
fn simulations_grow_with_the_nodes_and_not_with_the_commands() {
    let input = fragmented_cluster(200, families(), 4).to_input();
    let found = planned(&input, "100%");
    assert!(found.commands.len() > 10, "{} commands", found.commands.len());
    assert!(found.simulations < 3 * input.nodes.len(), "{} simulations", found.simulations);
}

#[test]
fn a_plan_without_time_says_so_and_promises_nothing_it_has_not_looked_at() {
    let input = fragmented_cluster(30, families(), 5).to_input();
    let found = run(input, &with_budget("100%"), &Plan::default(), &Options::default(), &|| false);
    assert!(found.timed_out && found.commands.is_empty());
    assert_eq!(found.before, found.after);
}
