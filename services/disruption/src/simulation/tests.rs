//! Equal decisions on equal input: `plan` drives the search with the solver, this service with answers on the wire.

use std::collections::BTreeMap;

use consolidation::search::Methods;
use consolidation::{PodFacts, Rest, drive, simulation_options, what_if};
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType, Offering};
use model::node::{Node, NodeState};
use model::pod::{Pod, PodSpec};
use model::pool::{ClusterInput, NodePool};
use model::requirement::{Operator, Requirement};
use model::resources::Resources;
use policy::consolidation::COST_UNIT;
use proto::provisioner::v1 as pb;
use solver::{NewNode, NodeId, Options, Snapshot};

use super::*;

const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const FAMILIES: u64 = 6;

/// A sequence that is the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn resources(cpu_milli: u64, memory_mi: u64) -> Resources {
    let amounts = [("cpu", format!("{cpu_milli}m")), ("memory", format!("{memory_mi}Mi"))];
    amounts.into_iter().map(|(name, amount)| (name, amount.parse().unwrap())).collect()
}

fn kinds(dice: &mut Dice) -> Vec<InstanceType> {
    let mut kinds = Vec::new();
    for family in 0..FAMILIES {
        for cpu in [2, 4, 8, 16] {
            let mut offerings = Vec::new();
            for zone in ["zone-a", "zone-b"] {
                let on_demand = i64::try_from(cpu * (40_000 + dice.below(20_000))).unwrap();
                for (capacity_type, price) in
                    [(CapacityType::OnDemand, on_demand), (CapacityType::Spot, on_demand / 3)]
                {
                    offerings.push(Offering {
                        zone: zone.into(),
                        zone_id: None,
                        capacity_type,
                        price: MicroDollars::new(price),
                        available: dice.chance(90),
                        reservation: None,
                        capacity_override: Resources::new(),
                        overhead_override: Resources::new(),
                    });
                }
            }
            let labels = BTreeMap::from([(FAMILY.to_owned(), format!("f{family}"))]);
            let mut capacity = resources(cpu * 1000, cpu * 4096);
            capacity.insert("pods", "30".parse().unwrap());
            kinds.push(InstanceType::new(
                &format!("f{family}.{cpu}"),
                &labels,
                capacity,
                Resources::new(),
                offerings,
            ));
        }
    }
    kinds
}

fn pools(dice: &mut Dice, kinds: &Arc<Vec<InstanceType>>) -> (Vec<NodePool>, Rest) {
    let (mut pools, mut rest) = (Vec::new(), Rest { spot_to_spot: dice.chance(70), ..Rest::default() });
    for name in ["default", "other"] {
        let mut requirements = model::requirements::Requirements::new();
        if dice.chance(40) {
            requirements.add(Requirement::new(FAMILY, Operator::Exists, Vec::<String>::new(), Some(4)));
        }
        let capacity = match dice.below(3) {
            0 => vec!["spot", "on-demand"],
            1 => vec!["spot"],
            _ => vec!["on-demand"],
        };
        requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, capacity));
        pools.push(NodePool {
            name: name.into(),
            weight: 0,
            limits: Resources::new(),
            labels: BTreeMap::new(),
            node_class_label: None,
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements,
            fixed_size: false,
            instance_types: Arc::clone(kinds),
        });
        let budget = ["100%", "30%", "2"][usize::try_from(dice.below(3)).unwrap()];
        let policy = ["WhenEmptyOrUnderutilized", "Balanced"][usize::from(dice.chance(25))];
        let many = ["false", "true"][usize::from(dice.chance(50))];
        let least = ["0", "10%"][usize::from(dice.chance(25))];
        let object = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": name, "annotations": {labels::MANY_FOR_MANY: many, labels::MINIMUM_SAVING: least}},
            "spec": {
                "disruption": {"consolidateAfter": "0s", "consolidationPolicy": policy, "budgets": [{"nodes": budget}]},
                "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}
            }
        });
        rest.pools.insert(name.into(), Arc::new(serde_json::from_value(object).unwrap()));
    }
    (pools, rest)
}

/// Some nodes of two pools with some pods on each.
fn cluster(seed: u64) -> (ClusterInput, Rest) {
    let mut dice = Dice(seed);
    let kinds = Arc::new(kinds(&mut dice));
    let (pools, mut rest) = pools(&mut dice, &kinds);
    let mut input = ClusterInput { pools, ..ClusterInput::default() };
    // The largest nodes, each a little more than a third full: together they need several.
    let wasteful = dice.chance(25);
    for number in 0..3 + dice.below(10) {
        let name: Arc<str> = format!("node-{number}").into();
        let kind = usize::try_from(dice.below(kinds.len() as u64)).unwrap();
        let kind = &kinds[if wasteful { kind | 3 } else { kind }];
        let pool: Arc<str> = ["default", "other"][usize::from(dice.chance(30))].into();
        let capacity_type = ["on-demand", "spot"][usize::from(!wasteful && dice.chance(40))];
        let own = [
            (labels::NODEPOOL, &*pool),
            (labels::INSTANCE_TYPE, &*kind.name),
            (labels::ZONE, ["zone-a", "zone-b"][usize::from(dice.chance(50))]),
            (labels::CAPACITY_TYPE, capacity_type),
            (labels::HOSTNAME, &*name),
        ];
        input.nodes.push(Node {
            name: Arc::clone(&name),
            claim: Some(Arc::clone(&name)),
            pool: Some(Arc::clone(&pool)),
            labels: own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            allocatable: kind.capacity.clone(),
            capacity: kind.capacity.clone(),
            state: NodeState::Ready,
            registered: true,
            initialized: true,
            nominated: false,
            settling: dice.chance(5),
            csi_limits: BTreeMap::new(),
        });
        let empty = dice.chance(3);
        let pods = if wasteful { 4 } else { 1 + dice.below(4) };
        for pod in 0..if empty { 0 } else { pods } {
            let size = usize::try_from(dice.below(4)).unwrap();
            let cpu = [250, 500, 1000, 1500][if wasteful { 3 } else { size }];
            let spec = Arc::new(PodSpec { requests: resources(cpu, cpu), ..PodSpec::default() });
            let pending = Pod::pending("default", &format!("{name}-{pod}"), spec);
            let cost = COST_UNIT * i64::try_from(1 + dice.below(3)).unwrap();
            rest.facts.insert(
                (Arc::clone(&pending.namespace), Arc::clone(&pending.name)),
                Arc::new(PodFacts { obstacle: None, eviction_cost: cost }),
            );
            input.pods.push(Pod { node: Some(Arc::clone(&name)), ..pending });
        }
    }
    (input, rest)
}

/// A provisioner in this process.
struct Provisioner<'a> {
    snapshot: Snapshot,
    pools: &'a [NodePool],
    options: Options,
}

impl Provisioner<'_> {
    fn planned(&self, node: &NewNode) -> types::PlannedNode {
        let requirement = |entry: model::requirement::Entry| types::Requirement {
            key: entry.key,
            operator: match entry.operator {
                Operator::In => types::Operator::In,
                Operator::NotIn => types::Operator::NotIn,
                Operator::DoesNotExist => types::Operator::DoesNotExist,
                _ => types::Operator::Exists,
            }
            .into(),
            values: entry.values,
            min_values: entry.min_values.unwrap_or(0),
        };
        let pool = self.pools.iter().find(|pool| pool.name == node.pool).unwrap();
        let demands = consolidation::min_values(node, pool).into_iter();
        types::PlannedNode {
            node_pool: node.pool.to_string(),
            requirements: node.requirements.to_entries().into_iter().map(requirement).collect(),
            instance_types: node.instance_types.iter().map(ToString::to_string).collect(),
            launch: Some(types::Offering {
                instance_type: node.launch.instance_type.to_string(),
                micro_usd_per_hour: node.launch.price.get(),
                ..types::Offering::default()
            }),
            worst_micro_usd_per_hour: consolidation::worst_prices(node, self.pools)
                .into_iter()
                .map(MicroDollars::get)
                .collect(),
            min_values: demands
                .map(|demand| types::MinValues {
                    key: demand.key,
                    wanted: u32::try_from(demand.wanted).unwrap(),
                    by_type: demand
                        .values
                        .into_iter()
                        .map(|values| types::LabelValues { values: values.into_iter().collect() })
                        .collect(),
                })
                .collect(),
            ..types::PlannedNode::default()
        }
    }
}

impl Simulate for Provisioner<'_> {
    async fn simulate(
        &self,
        questions: &[Question],
    ) -> Result<Vec<Result<SimulateResponse, String>>, Status> {
        let answer = |question: &Question| {
            let asked: pb::SimulateRequest = request(question, 0);
            let ids: Vec<NodeId> =
                asked.remove_nodes.iter().filter_map(|node| self.snapshot.node_id(node)).collect();
            let below = asked.replacement_below_micro_usd;
            let below = (below > 0).then(|| MicroDollars::new(below));
            let what_if::Simulated { plan, displaced } =
                what_if::simulate(&self.snapshot, &ids, below, self.pools, &self.options, &|| true);
            let pod = |pod: &solver::PodRef| types::PodRef {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                uid: String::new(),
            };
            let left = |left: &solver::Unschedulable| types::Unschedulable {
                pod: Some(pod(&left.pod)),
                ..types::Unschedulable::default()
            };
            Ok(SimulateResponse {
                new_nodes: plan.new_nodes.iter().map(|node| self.planned(node)).collect(),
                unschedulable: plan.unschedulable.iter().map(left).collect(),
                displaced: displaced.iter().map(pod).collect(),
                ..SimulateResponse::default()
            })
        };
        Ok(questions.iter().map(answer).collect())
    }
}

/// A command as both ends must find it.
fn command<N: PlannedNode>(proposal: &Proposal<N>, types: impl Fn(&N) -> Vec<String>) -> String {
    let planned: Vec<_> = proposal.planned.iter().map(|node| (types(node), node.price())).collect();
    format!(
        "{} {:?} for {planned:?}, saves {}, moves {}, pays back in {}",
        proposal.method, proposal.nodes, proposal.saving, proposal.pods_moved, proposal.payback
    )
}

#[tokio::test]
async fn plan_and_the_running_service_find_the_same_commands() {
    let mut methods: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut replacing, mut refused) = (0, 0);
    for seed in 0..200 {
        let (input, rest) = cluster(seed);
        let options = simulation_options(&Options::default());
        let snapshot = Snapshot::build(input.clone());
        let (all, _) = consolidation::situation(&input, &rest);
        // One pool with a budget of one node: single-node consolidation.
        let mut one = all.clone();
        one.entries.retain(|entry| &*entry.candidate.pool == "default" && entry.methods.consolidation);
        for allowance in one.allowances.values_mut() {
            allowance.insert("default".into(), 1);
        }
        // Every third node has drifted, the last by name first.
        let mut drifted = all.clone();
        for (number, entry) in drifted.entries.iter_mut().enumerate().filter(|(number, _)| number % 3 == 0) {
            entry.methods = Methods { drift: true, ..Methods::default() };
            let hours = i64::try_from(number).unwrap();
            entry.drifted = Some(Timestamp::from_second(1_000_000 - 3600 * hours).unwrap());
        }
        for situation in [all, one, drifted] {
            let local = drive(&situation, |question| {
                Ok(what_if::answer(&snapshot, question, &input.pools, &options, |_| false, &|| true))
            });
            let provisioner =
                Provisioner { snapshot: snapshot.clone(), pools: &input.pools, options: options.clone() };
            let remote = search(&situation, &provisioner).await.unwrap();
            let here: Vec<String> = local
                .proposals
                .iter()
                .map(|found| {
                    command(found, |node: &NewNode| {
                        node.instance_types.iter().map(ToString::to_string).collect()
                    })
                })
                .collect();
            let there: Vec<String> = remote
                .proposals
                .iter()
                .map(|found| command(found, |node| node.0.instance_types.clone()))
                .collect();
            assert_eq!(here, there, "seed {seed}");
            // The service asks about several single nodes at once, so that it may know more of them.
            for verdict in &local.verdicts {
                let same =
                    remote.verdicts.iter().find(|other| other.node == verdict.node).expect("a verdict");
                assert_eq!((&verdict.words, verdict.saving), (&same.words, same.saving), "seed {seed}");
            }
            refused += local.verdicts.iter().filter(|verdict| verdict.saving.is_none()).count();
            replacing += local.proposals.iter().filter(|found| !found.planned.is_empty()).count();
            for found in &local.proposals {
                *methods.entry(found.method.as_str()).or_default() += 1;
            }
        }
    }
    use policy::Method::{Drift, Emptiness, ManyForMany, MultiNode, SingleNode};
    for method in [Emptiness, Drift, MultiNode, ManyForMany, SingleNode] {
        assert!(methods.contains_key(method.as_str()), "no {method} among {methods:?}");
    }
    println!("{methods:?}; {replacing} replace, {refused} refused");
    assert!(replacing > 10 && refused > 0, "{replacing} replace, {refused} nodes refused: {methods:?}");
}
