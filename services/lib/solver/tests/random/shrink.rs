//! Makes a case that goes wrong smaller, part by part, as long as it still goes wrong.

use std::sync::Arc;

use model::pod::PodSpec;
use model::pool::{ClusterInput, NodePool};
use model::requirements::Requirements;
use model::resources::Resources;

type PodChange = fn(&mut PodSpec);
type PoolChange = fn(&mut NodePool);

const OF_PODS: [PodChange; 17] = [
    |s| s.labels.clear(),
    |s| s.requests = Resources::new(),
    |s| s.node_selector.clear(),
    |s| s.required_node_affinity.clear(),
    |s| s.required_node_affinity.truncate(1),
    |s| s.preferred_node_affinity.clear(),
    |s| s.tolerations.clear(),
    |s| s.topology_spread.clear(),
    |s| s.topology_spread.truncate(1),
    |s| s.affinity.clear(),
    |s| s.anti_affinity.clear(),
    |s| s.preferred_affinity.clear(),
    |s| s.preferred_anti_affinity.clear(),
    |s| s.host_ports.clear(),
    |s| s.affinity.truncate(1),
    |s| s.uses_resource_claims = false,
    |s| s.priority = 0,
];

const OF_POOLS: [PoolChange; 7] = [
    |p| p.weight = 0,
    |p| p.limits = Resources::new(),
    |p| p.labels.clear(),
    |p| p.taints.clear(),
    |p| p.startup_taints.clear(),
    |p| p.requirements = Requirements::new(),
    |p| p.node_class_label = None,
];

/// The smallest input found for which `wrong` still says yes.
pub(crate) fn shrink(mut input: ClusterInput, wrong: &dyn Fn(&ClusterInput) -> bool) -> ClusterInput {
    loop {
        let before = input.clone();
        drop_parts(&mut input, wrong);
        simplify(&mut input, wrong);
        if input == before {
            return input;
        }
    }
}

fn attempt(
    input: &mut ClusterInput,
    wrong: &dyn Fn(&ClusterInput) -> bool,
    change: impl FnOnce(&mut ClusterInput),
) -> bool {
    let mut smaller = input.clone();
    change(&mut smaller);
    let better = smaller != *input && wrong(&smaller);
    if better {
        *input = smaller;
    }
    better
}

fn drop_parts(input: &mut ClusterInput, wrong: &dyn Fn(&ClusterInput) -> bool) {
    for index in (0..input.nodes.len()).rev() {
        attempt(input, wrong, |i| {
            i.nodes.remove(index);
        });
    }
    for index in (0..input.pods.len()).rev() {
        attempt(input, wrong, |i| {
            i.pods.remove(index);
        });
    }
    for index in (0..input.pools.len()).rev() {
        attempt(input, wrong, |i| {
            i.pools.remove(index);
        });
    }
    for index in (0..input.daemon_sets.len()).rev() {
        attempt(input, wrong, |i| {
            i.daemon_sets.remove(index);
        });
    }
    for pool in 0..input.pools.len() {
        for index in (0..input.pools[pool].instance_types.len()).rev() {
            attempt(input, wrong, |i| {
                Arc::make_mut(&mut i.pools[pool].instance_types).remove(index);
            });
        }
    }
}

fn simplify(input: &mut ClusterInput, wrong: &dyn Fn(&ClusterInput) -> bool) {
    for index in 0..input.pods.len() {
        for change in OF_PODS {
            attempt(input, wrong, |i| change(Arc::make_mut(&mut i.pods[index].spec)));
        }
        attempt(input, wrong, |i| i.pods[index].volumes.clear());
        attempt(input, wrong, |i| i.pods[index].buffer = false);
    }
    for index in 0..input.daemon_sets.len() {
        for change in OF_PODS {
            attempt(input, wrong, |i| change(Arc::make_mut(&mut i.daemon_sets[index].pod)));
        }
    }
    for index in 0..input.pools.len() {
        for change in OF_POOLS {
            attempt(input, wrong, |i| change(&mut i.pools[index]));
        }
        for n in 0..input.pools[index].instance_types.len() {
            for offering in (0..input.pools[index].instance_types[n].offerings.len()).rev() {
                attempt(input, wrong, |i| {
                    let types = Arc::make_mut(&mut i.pools[index].instance_types);
                    let old = &types[n];
                    let mut offerings = old.offerings.clone();
                    offerings.remove(offering);
                    let mut own = old.requirements.clone();
                    for key in ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type"] {
                        own.remove(key);
                    }
                    own.remove("karpenter.k8s.aws/capacity-reservation-id");
                    own.remove("karpenter.k8s.aws/capacity-reservation-type");
                    types[n] = model::catalog::InstanceType::with_requirements(
                        &old.name,
                        own,
                        old.capacity.clone(),
                        old.overhead.clone(),
                        offerings,
                    );
                });
            }
        }
    }
    for index in 0..input.nodes.len() {
        attempt(input, wrong, |i| i.nodes[index].taints.clear());
        attempt(input, wrong, |i| i.nodes[index].csi_limits.clear());
        attempt(input, wrong, |i| i.nodes[index].settling = false);
    }
}
