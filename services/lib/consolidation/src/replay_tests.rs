//! Commands carried out as kube-scheduler places pods: consolidation comes to rest, and saves what it promised.

use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::pod::{Pod, PodSpec};
use model::pool::{ClusterInput, NodePool};
use model::price::MicroDollars;
use model::resources::Resources;
use solver::{NewNode, NodeId, Options, Order, Plan, Scheduler, Snapshot, Target};

use super::tests::{ALWAYS, rest};
use super::*;
use crate::launch::choose_launch;
use crate::search::Proposal;
use crate::state::State;

fn resources(cpu_milli: i64, memory_mi: i64, pods: i64) -> Resources {
    let amounts =
        [("cpu", format!("{cpu_milli}m")), ("memory", format!("{memory_mi}Mi")), ("pods", pods.to_string())];
    amounts.into_iter().map(|(name, amount)| (name, amount.parse().unwrap())).collect()
}

fn pool() -> NodePool {
    let kind = |(name, cpu, price): (&str, i64, i64)| {
        let offering = Offering {
            zone: Arc::from("zone-a"),
            zone_id: None,
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars::new(price),
            available: true,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        let overhead = resources(80, 500, 0);
        InstanceType::new(
            name,
            &Default::default(),
            resources(cpu * 1000, cpu * 4096, 58),
            overhead,
            vec![offering],
        )
    };
    let kinds = [
        ("t3a.xlarge", 4, 150_400),
        ("m5a.xlarge", 4, 172_000),
        ("t3a.2xlarge", 8, 300_800),
        ("m5a.2xlarge", 8, 344_000),
        ("m5a.4xlarge", 16, 688_000),
    ];
    NodePool {
        name: Arc::from("default"),
        weight: 0,
        limits: Resources::new(),
        labels: Default::default(),
        node_class_label: None,
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Default::default(),
        fixed_size: false,
        instance_types: Arc::new(kinds.map(kind).into()),
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// Pods of five sizes, placed by the solver, and two thirds of them gone again.
fn thinned(seed: u64, count: usize) -> ClusterInput {
    let specs = [250, 500, 1000, 1500, 2000].map(|cpu| {
        let requests = [("cpu", format!("{cpu}m")), ("memory", format!("{}Mi", cpu * 2))];
        let requests = requests.into_iter().map(|(name, amount)| (name, amount.parse().unwrap())).collect();
        Arc::new(PodSpec { requests, ..PodSpec::default() })
    });
    let pods = (0..count)
        .map(|number| Pod::pending("default", &format!("pod-{number:04}"), Arc::clone(&specs[number % 5])));
    let input = ClusterInput { pods: pods.collect(), pools: vec![pool()], ..ClusterInput::default() };
    let plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    let mut input = State::new(input, &plan).input;
    let mut dice = Dice(seed);
    input.pods.retain(|_| dice.below(3) == 0);
    input
}

/// As the cluster carries it out: replacements first, then pods in some order to where kube-scheduler sends them, and new nodes for those
/// that fit nowhere. Returns how many of these there are.
fn carry_out(
    state: &mut State,
    mut proposal: Proposal<NewNode>,
    made: &mut usize,
    seed: u64,
    options: &Options,
) -> usize {
    let pools = state.input.pools.clone();
    proposal.planned.iter_mut().for_each(|node| choose_launch(node, &pools[0]));
    let snapshot = state.snapshot();
    let ids: Vec<NodeId> = proposal.nodes.iter().filter_map(|node| snapshot.node_id(node)).collect();
    let scheduler = Scheduler::new(&snapshot, &ids, options);
    let scheduled = scheduler.schedule(&proposal.planned, Order::Shuffled(seed));
    let mut launch = |state: &mut State, node: &NewNode| {
        *made += 1;
        state.launch(node, 10_000 + *made)
    };
    let new: Vec<Arc<str>> = proposal.planned.iter().map(|node| launch(state, node)).collect();
    let targets: BTreeMap<String, Arc<str>> = scheduled
        .placed
        .iter()
        .map(|(pod, target)| {
            let node = match target {
                Target::Existing(id) => Arc::clone(snapshot.node_name(*id)),
                Target::New(index) => Arc::clone(&new[*index]),
            };
            (pod.to_string(), node)
        })
        .collect();
    let is_left = |pod: &Pod| scheduled.left.iter().any(|left| left.to_string() == pod.key());
    let left: Vec<Pod> = state.input.pods.iter().filter(|pod| is_left(pod)).cloned().collect();
    state.remove(&proposal.nodes, &targets);
    let mut input = std::mem::take(&mut state.input);
    input.pods.extend(left.into_iter().map(|pod| Pod { node: None, ..pod }));
    let plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert!(plan.is_complete());
    *state = State::new(input, &Plan { new_nodes: Vec::new(), ..plan.clone() });
    for node in &plan.new_nodes {
        let name = launch(state, node);
        for pod in &mut state.input.pods {
            if node.pods.iter().any(|own| own.to_string() == pod.key()) {
                pod.node = Some(Arc::clone(&name));
                pod.reschedulable = true;
            }
        }
    }
    *state = State::new(std::mem::take(&mut state.input), &Plan::default());
    plan.new_nodes.len()
}

#[test]
fn a_thinned_cluster_comes_to_rest_and_saves_what_was_promised() {
    for seed in 0..3 {
        let options = simulation_options(&Options::default());
        let rest = rest(ALWAYS);
        let mut state = State::new(thinned(seed, 600), &Plan::default());
        let start = state.hourly();
        let (mut commands, mut made, mut extra) = (0_u64, 0, 0);
        let mut promised = MicroDollars::ZERO;
        loop {
            let (situation, _) = situation(&state.input, &rest);
            let snapshot = state.snapshot();
            let found = drive(&situation, |question| {
                Ok(what_if::answer(&snapshot, question, &state.input.pools, &options, |_| false, &|| true))
            });
            if found.proposals.is_empty() {
                break;
            }
            for proposal in found.proposals {
                commands += 1;
                assert!(commands < 150, "seed {seed}: no rest; {} of {start} an hour", state.hourly());
                promised += proposal.saving;
                extra += carry_out(&mut state, proposal, &mut made, seed * 1000 + commands, &options);
            }
        }
        let realised = start - state.hourly();
        println!(
            "seed {seed}: {start} to {} in {commands} commands, promised {promised}, realised {realised}, {extra} extra",
            state.hourly()
        );
        assert!(realised.get() * 100 >= promised.get() * 95, "seed {seed}: {realised} of {promised}");
        assert!(realised.get() * 3 >= start.get(), "seed {seed}: {realised} of {start} an hour saved");
    }
}

/// A node of eight CPUs with two large and six small pods, beside two nodes with gaps for three small ones each. The plan puts the large
/// ones onto a new node of four CPUs; kube-scheduler may send small ones there first, and then a large one fits nowhere.
#[test]
fn a_replacement_that_kube_scheduler_would_fill_with_other_pods_is_refused_or_larger() {
    let node = |name: &str, kind: &str, cpu: i64| {
        let mut node = super::tests::node(name);
        node.labels.insert(labels::INSTANCE_TYPE.to_owned(), kind.to_owned());
        (node.settling, node.nominated) = (false, false);
        node.allocatable = resources(cpu, 30_000, 58);
        node.capacity = node.allocatable.clone();
        node
    };
    let pod = |name: &str, node: &str, cpu: i64| {
        let requests = [("cpu", format!("{cpu}m").parse().unwrap())].into_iter().collect();
        let spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
        Pod { node: Some(Arc::from(node)), ..Pod::pending("default", name, spec) }
    };
    let mut pods = vec![pod("two", "old", 2000), pod("one-and-a-half", "old", 1500)];
    pods.extend((0..6).map(|number| pod(&format!("small-{number}"), "old", 250)));
    pods.extend(["gap-a", "gap-b"].map(|node| pod(&format!("fills-{node}"), node, 3170)));
    let options = simulation_options(&Options::default());
    for (kind, price, larger) in
        [("t3a.2xlarge", 300_800, None), ("m5a.2xlarge", 344_000, Some("t3a.2xlarge"))]
    {
        let nodes = vec![
            node("old", kind, 7920),
            node("gap-a", "t3a.xlarge", 3920),
            node("gap-b", "t3a.xlarge", 3920),
        ];
        let input =
            ClusterInput { pods: pods.clone(), nodes, pools: vec![pool()], ..ClusterInput::default() };
        let snapshot = Snapshot::build(input.clone());
        let question = search::Question {
            remove: vec![Arc::from("old")],
            purpose: search::Purpose::Consolidation,
            below: MicroDollars::new(price),
        };
        let ids = [snapshot.node_id("old").unwrap()];
        let plain = solver::simulate(&snapshot, &ids, &[], &options, &|| true);
        assert_eq!(&*plain.new_nodes[0].launch.instance_type, "t3a.xlarge", "the plan alone");
        let answer = what_if::answer(&snapshot, &question, &input.pools, &options, |_| false, &|| true);
        assert!(answer.outcome.left_over.is_empty());
        match larger {
            None => assert!(!answer.outcome.displaced.is_empty(), "{answer:?}"),
            Some(larger) => {
                assert!(answer.outcome.displaced.is_empty(), "{answer:?}");
                let types: Vec<&str> = answer.nodes[0].instance_types.iter().map(|name| &**name).collect();
                assert_eq!(types, [larger]);
            }
        }
    }
}
