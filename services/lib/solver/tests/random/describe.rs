//! A case in words, leaving out everything that has its default.

use std::fmt::{Debug, Write};

use model::pod::PodSpec;
use model::pool::ClusterInput;
use solver::Plan;

pub(crate) fn describe(input: &ClusterInput) -> String {
    let mut out = String::new();
    for pool in &input.pools {
        let _ = writeln!(
            out,
            "pool {} weight={} limits=[{}] labels={:?} taints={:?} requires=[{}] fixed={}",
            pool.name, pool.weight, pool.limits, pool.labels, pool.taints, pool.requirements, pool.fixed_size
        );
        for t in pool.instance_types.iter() {
            let _ = writeln!(out, "  type {} [{}] {}", t.name, t.capacity, t.requirements);
            for o in &t.offerings {
                let _ = writeln!(
                    out,
                    "    {} {} {} available={} {:?} less=[{}]",
                    o.capacity_type, o.zone, o.price, o.available, o.reservation, o.capacity_override
                );
            }
        }
    }
    for node in &input.nodes {
        let _ = writeln!(
            out,
            "node {} {:?} pool={:?} registered={} initialized={} settling={} labels={:?} taints={:?} \
             allocatable=[{}] csi={:?}",
            node.name,
            node.state,
            node.pool,
            node.registered,
            node.initialized,
            node.settling,
            node.labels,
            node.taints,
            node.allocatable,
            node.csi_limits
        );
    }
    for daemon in &input.daemon_sets {
        let _ = writeln!(out, "daemon {} {}", daemon.name, spec(&daemon.pod));
    }
    for pod in &input.pods {
        let _ = write!(out, "pod {} {}", pod.key(), spec(&pod.spec));
        if let Some(node) = &pod.node {
            let _ = write!(
                out,
                " on={node} terminating={} reschedulable={} daemon={}",
                pod.terminating, pod.reschedulable, pod.daemon
            );
        }
        let _ = writeln!(
            out,
            "{}{}{}",
            part(" volumes", &pod.volumes),
            if pod.buffer { " buffer" } else { "" },
            if pod.rejected.is_some() { " rejected" } else { "" }
        );
    }
    out
}

fn spec(spec: &PodSpec) -> String {
    let mut out = format!("[{}]", spec.requests);
    if !spec.labels.is_empty() {
        let _ = write!(out, " labels={:?}", spec.labels);
    }
    if !spec.node_selector.is_empty() {
        let _ = write!(out, " selector={:?}", spec.node_selector);
    }
    for term in &spec.required_node_affinity {
        let _ = write!(out, " or=[{term}]");
    }
    out += &part(" prefers", &spec.preferred_node_affinity);
    out += &part(" tolerates", &spec.tolerations);
    out += &part(" spread", &spec.topology_spread);
    out += &part(" with", &spec.affinity);
    out += &part(" apart", &spec.anti_affinity);
    out += &part(" rather-with", &spec.preferred_affinity);
    out += &part(" rather-apart", &spec.preferred_anti_affinity);
    out += &part(" ports", &spec.host_ports);
    if spec.uses_resource_claims {
        out += " resource-claims";
    }
    out
}

fn part<T: Debug>(name: &str, list: &[T]) -> String {
    if list.is_empty() { String::new() } else { format!("{name}={list:?}") }
}

pub(crate) fn describe_plan(plan: &Plan) -> String {
    let mut out = String::new();
    for node in &plan.new_nodes {
        let pods: Vec<String> = node.pods.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            out,
            "new {} pods={pods:?} types={:?} launch={:?} requests=[{}] requires=[{}]",
            node.pool, node.instance_types, node.launch, node.requests, node.requirements
        );
    }
    for node in &plan.existing {
        let pods: Vec<String> = node.pods.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "existing {} pods={pods:?}", node.node);
    }
    for left in &plan.unschedulable {
        let _ = writeln!(out, "left {}: {}", left.pod, left.why);
    }
    let _ = writeln!(out, "cost={} bound={:?} unreached={:?}", plan.cost, plan.lower_bound, plan.unreached);
    out
}
