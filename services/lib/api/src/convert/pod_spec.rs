//! What a pod, or the pods of a template, ask of the place where they run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use model::pod::{
    HostPort, NodeInclusionPolicy, PodAffinityTerm, PodSpec, Protocol, TopologySpread, WeightedNodeTerm,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use model::requirements::Requirements;
use model::taint::{Effect, Toleration, UnknownName};

use super::error::{At, Invalid};
use super::node_terms;
use super::requests::{self, is_sidecar};
use super::selectors::label_selector;

/// `at` is where `spec` stands in its object (`spec`, or `spec.template.spec`), `status` is that of a running pod.
/// `priority_class` gives the value of a PriorityClass by name.
pub fn pod_spec(
    labels: Option<&BTreeMap<String, String>>,
    spec: &core::PodSpec,
    status: Option<&core::PodStatus>,
    priority_class: &dyn Fn(&str) -> Option<i32>,
    at: &At<'_>,
) -> Result<PodSpec, Invalid> {
    let affinity = spec.affinity.as_ref();
    let affinity_at = at.key("affinity");
    let together = affinity.and_then(|a| a.pod_affinity.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let together_at = affinity_at.key("podAffinity");
    let apart_at = affinity_at.key("podAntiAffinity");
    let node = affinity.and_then(|a| a.node_affinity.as_ref());
    let node_at = affinity_at.key("nodeAffinity");
    Ok(PodSpec {
        labels: labels.cloned().unwrap_or_default(),
        requests: requests::effective(spec, status, at)?,
        node_selector: spec.node_selector.clone().unwrap_or_default(),
        required_node_affinity: required_node_terms(node, &node_at)?,
        preferred_node_affinity: preferred_node_terms(node, &node_at)?,
        tolerations: tolerations(spec, at)?,
        topology_spread: spread(spec, at)?,
        affinity: required_terms(
            together.and_then(|t| t.required_during_scheduling_ignored_during_execution.as_deref()),
            &together_at.key(REQUIRED),
        )?,
        anti_affinity: required_terms(
            apart.and_then(|t| t.required_during_scheduling_ignored_during_execution.as_deref()),
            &apart_at.key(REQUIRED),
        )?,
        preferred_affinity: preferred_terms(
            together.and_then(|t| t.preferred_during_scheduling_ignored_during_execution.as_deref()),
            &together_at.key(PREFERRED),
        )?,
        preferred_anti_affinity: preferred_terms(
            apart.and_then(|t| t.preferred_during_scheduling_ignored_during_execution.as_deref()),
            &apart_at.key(PREFERRED),
        )?,
        host_ports: host_ports(spec, at)?,
        priority: priority_of(spec, priority_class),
        uses_resource_claims: spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
    })
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The number where admission has filled it in, else the class's; 0 where neither is known.
pub fn priority_of(spec: &core::PodSpec, priority_class: &dyn Fn(&str) -> Option<i32>) -> i32 {
    let of_class = |name: &str| {
        priority_class(name).or(match name {
            "system-cluster-critical" => Some(2_000_000_000),
            "system-node-critical" => Some(2_000_001_000),
            _ => None,
        })
    };
    spec.priority.or_else(|| of_class(spec.priority_class_name.as_deref()?)).unwrap_or(0)
}

fn required_node_terms(node: Option<&core::NodeAffinity>, at: &At<'_>) -> Result<Vec<Requirements>, Invalid> {
    let required = node.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref());
    let (required_at, list) = (at.key(REQUIRED), "nodeSelectorTerms");
    let terms = required.map(|r| r.node_selector_terms.as_slice()).unwrap_or_default();
    let terms_at = required_at.key(list);
    terms.iter().enumerate().map(|(i, term)| node_terms::requirements(term, &terms_at.index(i))).collect()
}

fn preferred_node_terms(
    node: Option<&core::NodeAffinity>,
    at: &At<'_>,
) -> Result<Vec<WeightedNodeTerm>, Invalid> {
    let preferred = node.and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_deref());
    let list_at = at.key(PREFERRED);
    preferred
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, term)| {
            let term_at = list_at.index(index);
            let requirements = node_terms::requirements(&term.preference, &term_at.key("preference"))?;
            Ok(WeightedNodeTerm { weight: term.weight, term: requirements })
        })
        .collect()
}

fn tolerations(spec: &core::PodSpec, at: &At<'_>) -> Result<Vec<Toleration>, Invalid> {
    let list_at = at.key("tolerations");
    spec.tolerations
        .iter()
        .flatten()
        .enumerate()
        .map(|(index, toleration)| {
            let here = list_at.index(index);
            let name_error = |field: &str, error: UnknownName| here.key(field).invalid(error);
            Ok(Toleration {
                key: toleration.key.clone().unwrap_or_default(),
                operator: toleration
                    .operator
                    .as_deref()
                    .unwrap_or_default()
                    .parse()
                    .map_err(|error| name_error("operator", error))?,
                value: toleration.value.clone().unwrap_or_default(),
                effect: toleration
                    .effect
                    .as_deref()
                    .filter(|effect| !effect.is_empty())
                    .map(str::parse::<Effect>)
                    .transpose()
                    .map_err(|error| name_error("effect", error))?,
                toleration_seconds: toleration.toleration_seconds,
            })
        })
        .collect()
}

fn spread(spec: &core::PodSpec, at: &At<'_>) -> Result<Vec<TopologySpread>, Invalid> {
    let list_at = at.key("topologySpreadConstraints");
    spec.topology_spread_constraints
        .iter()
        .flatten()
        .enumerate()
        .map(|(index, constraint)| spread_constraint(constraint, &list_at.index(index)))
        .collect()
}

fn spread_constraint(
    constraint: &core::TopologySpreadConstraint,
    at: &At<'_>,
) -> Result<TopologySpread, Invalid> {
    let max_skew = u32::try_from(constraint.max_skew).ok().filter(|skew| *skew >= 1);
    let min_domains = match constraint.min_domains {
        None => None,
        Some(count) => match u32::try_from(count).ok().filter(|c| *c >= 1) {
            Some(count) => Some(count),
            None => return Err(at.key("minDomains").invalid(format!("{count} is not at least 1"))),
        },
    };
    let when_unsatisfiable = match constraint.when_unsatisfiable.as_str() {
        "" | "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
        other => {
            let problem = format!("{other:?} is unknown: use DoNotSchedule or ScheduleAnyway");
            return Err(at.key("whenUnsatisfiable").invalid(problem));
        }
    };
    let policy = |text: Option<&str>, default, field: &str| match text {
        None | Some("") => Ok(default),
        Some("Honor") => Ok(NodeInclusionPolicy::Honor),
        Some("Ignore") => Ok(NodeInclusionPolicy::Ignore),
        Some(other) => Err(at.key(field).invalid(format!("{other:?} is unknown: use Honor or Ignore"))),
    };
    Ok(TopologySpread {
        topology_key: constraint.topology_key.clone(),
        max_skew: max_skew
            .ok_or_else(|| at.key("maxSkew").invalid(format!("{} is not at least 1", constraint.max_skew)))?,
        min_domains,
        when_unsatisfiable,
        selector: label_selector(constraint.label_selector.as_ref(), &at.key("labelSelector"))?,
        match_label_keys: constraint.match_label_keys.clone().unwrap_or_default(),
        node_affinity_policy: policy(
            constraint.node_affinity_policy.as_deref(),
            NodeInclusionPolicy::Honor,
            "nodeAffinityPolicy",
        )?,
        node_taints_policy: policy(
            constraint.node_taints_policy.as_deref(),
            NodeInclusionPolicy::Ignore,
            "nodeTaintsPolicy",
        )?,
    })
}

fn required_terms(
    terms: Option<&[core::PodAffinityTerm]>,
    at: &At<'_>,
) -> Result<Vec<PodAffinityTerm>, Invalid> {
    terms.unwrap_or_default().iter().enumerate().map(|(i, term)| pod_term(term, &at.index(i))).collect()
}

fn preferred_terms(
    terms: Option<&[core::WeightedPodAffinityTerm]>,
    at: &At<'_>,
) -> Result<Vec<WeightedPodAffinityTerm>, Invalid> {
    terms
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, weighted)| {
            let here = at.index(index);
            let term = pod_term(&weighted.pod_affinity_term, &here.key("podAffinityTerm"))?;
            Ok(WeightedPodAffinityTerm { weight: weighted.weight, term })
        })
        .collect()
}

fn pod_term(term: &core::PodAffinityTerm, at: &At<'_>) -> Result<PodAffinityTerm, Invalid> {
    if term.topology_key.is_empty() {
        return Err(at.key("topologyKey").invalid("is missing: name the node label that makes a domain"));
    }
    Ok(PodAffinityTerm {
        topology_key: term.topology_key.clone(),
        selector: label_selector(term.label_selector.as_ref(), &at.key("labelSelector"))?,
        namespaces: term.namespaces.clone().unwrap_or_default(),
        namespace_selector: label_selector(term.namespace_selector.as_ref(), &at.key("namespaceSelector"))?,
        match_label_keys: term.match_label_keys.clone().unwrap_or_default(),
        mismatch_label_keys: term.mismatch_label_keys.clone().unwrap_or_default(),
    })
}

/// Of containers and sidecars, as kube-scheduler counts them since 1.33.3. With `hostNetwork` admission makes every container
/// port a host port.
fn host_ports(spec: &core::PodSpec, at: &At<'_>) -> Result<Vec<HostPort>, Invalid> {
    let host_network = spec.host_network == Some(true);
    let (containers_at, init_at) = (at.key("containers"), at.key("initContainers"));
    let containers = spec.containers.iter().enumerate().map(|(n, own)| (own, containers_at.index(n)));
    let init = spec.init_containers.iter().flatten().enumerate();
    let sidecars = init.filter(|(_, own)| is_sidecar(own)).map(|(n, own)| (own, init_at.index(n)));
    let mut ports = Vec::new();
    for (container, container_at) in containers.chain(sidecars) {
        let ports_at = container_at.key("ports");
        for (nth, port) in container.ports.iter().flatten().enumerate() {
            let here = ports_at.index(nth);
            let number = port.host_port.or_else(|| host_network.then_some(port.container_port)).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let number = u16::try_from(number)
                .map_err(|_| here.key("hostPort").invalid(format!("{number} is not between 1 and 65535")))?;
            let ip = match port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
                None => None,
                Some(text) => Some(
                    text.parse()
                        .map_err(|_| here.key("hostIP").invalid(format!("{text:?} is no IP address")))?,
                ),
            };
            let protocol = match port.protocol.as_deref() {
                None | Some("" | "TCP") => Protocol::Tcp,
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                Some(other) => {
                    let problem = format!("{other:?} is unknown: use TCP, UDP or SCTP");
                    return Err(here.key("protocol").invalid(problem));
                }
            };
            ports.push(HostPort::new(ip, number, protocol));
        }
    }
    Ok(ports)
}
