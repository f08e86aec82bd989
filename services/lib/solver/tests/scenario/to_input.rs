//! A scenario as the solver's input.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::node::{Node, NodeState};
use model::pod::{
    HostPort, LabelSelector, NodeInclusionPolicy, Pod, PodAffinityTerm, PodSpec, Protocol, TopologySpread,
    WeightedNodeTerm, WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use model::pool::{ClusterInput, DaemonSet, NodePool};
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::requirement::{Entry, Operator, Requirement};
use model::requirements::Requirements;
use model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, PODS, Resources};
use model::taint::{Effect, Taint, Toleration, TolerationOperator};

use super::catalogue::{Kind, ZONES};
use super::{Labels, Scenario, Term, Workload};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

pub fn resources(milli_cpu: i64, mib: i64, gpus: i64) -> Resources {
    let mut all = Resources::new()
        .with(CPU, Quantity::from_milli(milli_cpu))
        .with(MEMORY, Quantity::from_bytes(mib * MIB));
    if gpus > 0 {
        all.insert(NVIDIA_GPU, Quantity::from_units(gpus));
    }
    all
}

pub fn instance_type(kind: &Kind) -> InstanceType {
    let offering = |zone: usize, capacity_type, price| Offering {
        zone: Arc::from(ZONES[zone].0),
        zone_id: Some(Arc::from(ZONES[zone].1)),
        capacity_type,
        price: MicroDollars::new(price),
        available: true,
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    };
    let spot = kind.spot.iter().enumerate().map(|(zone, price)| offering(zone, CapacityType::Spot, *price));
    let bought = (0..kind.on_demand_zones).map(|zone| offering(zone, CapacityType::OnDemand, kind.price));
    let mut labels = kind.labels.clone();
    labels.insert("topology.kubernetes.io/region".to_owned(), "us-east-1".to_owned());
    let capacity = resources(kind.milli_cpu, kind.mib, kind.gpus)
        .with(PODS, Quantity::from_units(kind.pods))
        .with(EPHEMERAL_STORAGE, Quantity::from_bytes(20 * GIB));
    let overhead = resources(kind.overhead_milli_cpu, kind.overhead_mib, 0)
        .with(EPHEMERAL_STORAGE, Quantity::from_bytes(3 * GIB));
    InstanceType::new(&kind.name, &labels, capacity, overhead, spot.chain(bought).collect())
}

fn requirements(terms: &[Term]) -> Requirements {
    let requirement = |term: &Term| {
        let operator: Operator = term.operator.parse().expect("scenarios use known operators");
        Requirement::from(&Entry::new(term.key.as_str(), operator, term.values.iter().map(String::as_str)))
    };
    terms.iter().map(requirement).collect()
}

fn selector(labels: &Labels) -> LabelSelector {
    LabelSelector::of_labels(labels.iter().map(|(k, v)| (k.as_str(), v.as_str())))
}

fn spec(workload: &Workload) -> PodSpec {
    let term = |t: &super::Together| PodAffinityTerm {
        topology_key: t.key.to_owned(),
        selector: Some(selector(&t.labels)),
        namespaces: Vec::new(),
        namespace_selector: None,
        match_label_keys: Vec::new(),
        mismatch_label_keys: Vec::new(),
    };
    let required = |apart: bool| {
        workload.affinity.iter().filter(move |t| t.apart == apart && t.weight.is_none()).map(term).collect()
    };
    let preferred = |apart: bool| {
        let terms = workload.affinity.iter().filter(move |t| t.apart == apart);
        terms.filter_map(|t| Some(WeightedPodAffinityTerm { weight: t.weight?, term: term(t) })).collect()
    };
    PodSpec {
        labels: workload.labels.clone(),
        requests: resources(workload.milli_cpu, workload.mib, workload.gpus),
        node_selector: workload.selector.clone(),
        required_node_affinity: workload.required.iter().map(|terms| requirements(terms)).collect(),
        preferred_node_affinity: workload
            .preferred
            .iter()
            .map(|(weight, term)| WeightedNodeTerm {
                weight: *weight,
                term: requirements(std::slice::from_ref(term)),
            })
            .collect(),
        tolerations: workload
            .tolerations
            .iter()
            .map(|(key, value)| Toleration {
                key: key.clone(),
                operator: TolerationOperator::Equal,
                value: value.clone(),
                effect: Some(Effect::NoSchedule),
                toleration_seconds: None,
            })
            .collect(),
        topology_spread: workload
            .spread
            .iter()
            .map(|s| TopologySpread {
                topology_key: s.key.to_owned(),
                max_skew: s.skew,
                min_domains: None,
                when_unsatisfiable: if s.hard {
                    WhenUnsatisfiable::DoNotSchedule
                } else {
                    WhenUnsatisfiable::ScheduleAnyway
                },
                selector: Some(selector(&s.labels)),
                match_label_keys: Vec::new(),
                node_affinity_policy: NodeInclusionPolicy::Honor,
                node_taints_policy: NodeInclusionPolicy::Ignore,
            })
            .collect(),
        affinity: required(false),
        anti_affinity: required(true),
        preferred_affinity: preferred(false),
        preferred_anti_affinity: preferred(true),
        host_ports: workload
            .host_port
            .map(|port| HostPort::new(None, port, Protocol::Tcp))
            .into_iter()
            .collect(),
        priority: 0,
        uses_resource_claims: false,
    }
}

impl Scenario {
    pub fn to_input(&self) -> ClusterInput {
        let types: Arc<Vec<InstanceType>> = Arc::new(self.kinds.iter().map(instance_type).collect());
        let pools = self.pools.iter().map(|pool| NodePool {
            name: Arc::from(pool.name.as_str()),
            weight: pool.weight.unwrap_or(0),
            limits: pool
                .cpu_limit
                .map(|cpus| Resources::new().with(CPU, Quantity::from_units(cpus)))
                .unwrap_or_default(),
            labels: pool.labels.clone(),
            node_class_label: Some(("karpenter.k8s.aws/ec2nodeclass".to_owned(), "default".to_owned())),
            taints: pool
                .taints
                .iter()
                .map(|(k, v)| Taint::new(k.as_str(), v.as_str(), Effect::NoSchedule))
                .collect(),
            startup_taints: Vec::new(),
            requirements: requirements(&pool.requirements),
            fixed_size: false,
            instance_types: Arc::clone(&types),
        });
        let mut input = ClusterInput {
            pools: pools.collect(),
            nodes: self.nodes.iter().map(|node| self.node(node)).collect(),
            daemon_sets: self
                .daemons
                .iter()
                .map(|d| DaemonSet {
                    namespace: Arc::from("default"),
                    name: Arc::from(d.name.as_str()),
                    pod: Arc::new(spec(d)),
                })
                .collect(),
            ..ClusterInput::default()
        };
        let namespace: Arc<str> = Arc::from("default");
        // Bare pods often repeat each other; a real index shares their specs, too.
        let mut shared: BTreeMap<String, Arc<PodSpec>> = BTreeMap::new();
        for workload in &self.workloads {
            let anonymous = Workload { name: String::new(), on: None, ..workload.clone() };
            let spec = Arc::clone(
                shared.entry(format!("{anonymous:?}")).or_insert_with(|| Arc::new(spec(workload))),
            );
            for name in workload.pod_names() {
                let uid = Arc::from(format!("{:012}", input.pods.len()));
                input.pods.push(Pod {
                    namespace: Arc::clone(&namespace),
                    name: Arc::from(name),
                    uid,
                    created: 0,
                    node: workload.on.as_deref().map(Arc::from),
                    spec: Arc::clone(&spec),
                    volumes: Vec::new(),
                    terminating: false,
                    daemon: false,
                    bound_to_node: false,
                    reschedulable: true,
                    do_not_disrupt: false,
                    buffer: false,
                    rejected: None,
                });
            }
        }
        input
    }

    fn node(&self, node: &super::RunningNode) -> Node {
        let kind = &self.kinds[node.kind];
        let (milli_cpu, mib) = kind.allocatable();
        let free = resources(milli_cpu, mib, kind.gpus)
            .with(PODS, Quantity::from_units(kind.pods))
            .with(EPHEMERAL_STORAGE, Quantity::from_bytes(17 * GIB));
        let name: Arc<str> = Arc::from(node.name.as_str());
        Node {
            claim: Some(Arc::clone(&name)),
            pool: Some(Arc::from(node.pool.as_str())),
            labels: self.node_labels(node),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            capacity: free.clone(),
            allocatable: free,
            state: NodeState::Ready,
            registered: true,
            initialized: true,
            nominated: false,
            settling: false,
            csi_limits: BTreeMap::new(),
            name,
        }
    }

    pub fn node_labels(&self, node: &super::RunningNode) -> Labels {
        let kind = &self.kinds[node.kind];
        let mut labels = kind.labels.clone();
        let own = [
            ("karpenter.sh/nodepool", node.pool.as_str()),
            ("karpenter.sh/registered", "true"),
            ("karpenter.sh/initialized", "true"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            (super::CAPACITY_TYPE, if node.spot { "spot" } else { "on-demand" }),
            ("node.kubernetes.io/instance-type", kind.name.as_str()),
            ("topology.kubernetes.io/region", "us-east-1"),
            (super::ZONE, ZONES[node.zone].0),
            ("topology.k8s.aws/zone-id", ZONES[node.zone].1),
            (super::HOSTNAME, node.name.as_str()),
        ];
        labels.extend(own.map(|(k, v)| (k.to_owned(), v.to_owned())));
        labels
    }
}
