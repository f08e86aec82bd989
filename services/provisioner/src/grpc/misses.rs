//! Why nodes that exist cannot host a pod: the first rule that failed on each, nearest misses first. Pure.

mod topology;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::labels;
use model::node::{Node, NodeState};
use model::pod::Pod;
use model::quantity::Quantity;
use model::requirements::Requirements;
use model::resources::{PODS, Resources};
use model::taint::Effect;
use proto::provisioner::v1 as pb;
use solver::Options;

use crate::cluster::{ClusterView, NodeView};

const MOST: usize = 20;

/// Nearest misses first: the later a rule is tried, the nearer is the node that fails it. The names are those of the solver's rules
/// where it has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    TopologySpread,
    PodAffinity,
    PodAntiAffinity,
    Volumes,
    HostPorts,
    Resources,
    Requirements,
    Taints,
    Leaving,
}

impl Rule {
    fn as_str(self) -> &'static str {
        match self {
            Self::TopologySpread => solver::Rule::TopologySpread.as_str(),
            Self::PodAffinity => solver::Rule::PodAffinity.as_str(),
            Self::PodAntiAffinity => solver::Rule::PodAntiAffinity.as_str(),
            Self::Volumes => solver::Rule::Volumes.as_str(),
            Self::HostPorts => solver::Rule::HostPorts.as_str(),
            Self::Resources => solver::Rule::Resources.as_str(),
            Self::Requirements => solver::Rule::Requirements.as_str(),
            Self::Taints => solver::Rule::Taints.as_str(),
            Self::Leaving => "leaving",
        }
    }
}

pub(super) fn of(
    view: &ClusterView,
    pod: &Pod,
    options: &Options,
    keep_going: &dyn Fn() -> bool,
) -> Vec<pb::NodeRejection> {
    let mut all: Vec<(Rule, &str, String)> = Vec::new();
    let mut near: Vec<&Arc<str>> = Vec::new();
    for node in view.nodes.values() {
        match miss(node, pod) {
            Some((rule, detail)) => all.push((rule, &*node.node.name, detail)),
            None => near.push(&node.node.name),
        }
    }
    // What is left to fail compares nodes with each other: it is asked only for as many as are shown.
    near.truncate(MOST);
    let misses = topology::misses(view, pod, &near, options, keep_going);
    all.extend(misses.into_iter().map(|(node, rule, detail)| (rule, &**node, detail)));
    all.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    all.truncate(MOST);
    let wire = |(rule, node, detail): (Rule, &str, String)| pb::NodeRejection {
        node: node.to_owned(),
        rule: rule.as_str().to_owned(),
        detail,
    };
    all.into_iter().map(wire).collect()
}

/// The first rule that the node fails by itself.
fn miss(view: &NodeView, pod: &Pod) -> Option<(Rule, String)> {
    let node = &view.node;
    if node.state == NodeState::Deleting {
        return Some((Rule::Leaving, "it is being removed".to_owned()));
    }
    if let Some(taint) = node
        .scheduling_taints()
        .find(|t| t.effect != Effect::PreferNoSchedule && !t.is_tolerated_by(&pod.spec.tolerations))
    {
        return Some((Rule::Taints, format!("the pod does not tolerate {taint}")));
    }
    if let Some(detail) = label_miss(node, pod) {
        return Some((Rule::Requirements, detail));
    }
    if let Some(detail) = resource_miss(view, pod) {
        return Some((Rule::Resources, detail));
    }
    if let Some(detail) = port_miss(view, pod) {
        return Some((Rule::HostPorts, detail));
    }
    volume_miss(view, pod).map(|detail| (Rule::Volumes, detail))
}

fn residents(view: &NodeView) -> impl Iterator<Item = &Arc<Pod>> {
    view.pods.iter().chain(&view.nominated)
}

/// The node's value of a label under any of the names that the label has.
fn label<'a>(node: &'a Node, key: &str) -> Option<Cow<'a, str>> {
    let key = labels::normalize(key);
    let own = node.labels.get(key).or_else(|| {
        let alias = node.labels.iter().find(|(own, _)| labels::normalize(own) == key);
        alias.map(|(_, value)| value)
    });
    match own {
        None if key == labels::HOSTNAME => Some(Cow::Borrowed(node.hostname())),
        own => own.map(|value| Cow::Borrowed(value.as_str())),
    }
}

fn accepts(node: &Node, term: &Requirements) -> bool {
    term.iter().all(|r| match label(node, r.key()) {
        Some(value) => r.contains(&value),
        None => r.allows_absence(),
    })
}

fn any_of(terms: &[Requirements]) -> String {
    terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

fn label_miss(node: &Node, pod: &Pod) -> Option<String> {
    let spec = &pod.spec;
    let differs =
        spec.node_selector.iter().find(|(key, value)| label(node, key).as_deref() != Some(value.as_str()));
    if let Some((key, value)) = differs {
        let has = label(node, key).unwrap_or(Cow::Borrowed("none"));
        return Some(format!("node selector {key}={value}, the node has {has}"));
    }
    let terms = &spec.required_node_affinity;
    if terms.is_empty() || terms.iter().any(|term| accepts(node, term)) {
        return None;
    }
    Some(format!("required node affinity: {}", any_of(terms)))
}

fn resource_miss(view: &NodeView, pod: &Pod) -> Option<String> {
    let mut free = view.node.allocatable.clone();
    free.sub(&view.requested);
    let mut asked: Resources = pod.spec.requests.clone();
    asked.insert(PODS, Quantity::from_units(1));
    let short: Vec<String> = asked
        .exceeding(&free)
        .map(|name| format!("{name}: {} asked for, {} free", asked.get(name), free.get(name)))
        .collect();
    (!short.is_empty()).then(|| short.join("; "))
}

fn port_miss(view: &NodeView, pod: &Pod) -> Option<String> {
    pod.spec.host_ports.iter().find_map(|port| {
        let has = |other: &&Arc<Pod>| other.spec.host_ports.iter().any(|own| own.conflicts(port));
        let other = residents(view).find(has)?;
        Some(format!("pod {} has host port {}", other.key(), port.port))
    })
}

fn volume_miss(view: &NodeView, pod: &Pod) -> Option<String> {
    let node = &view.node;
    let out_of_reach = |volume: &&model::pod::Volume| {
        !volume.alternatives.is_empty() && !volume.alternatives.iter().any(|one| accepts(node, one))
    };
    if let Some(volume) = pod.volumes.iter().find(out_of_reach) {
        return Some(format!("volume claim {} needs {}", volume.claim, any_of(&volume.alternatives)));
    }
    node.csi_limits.iter().find_map(|(driver, limit)| {
        let claims = |pod: &Pod| -> BTreeSet<Arc<str>> {
            let of_driver = pod.volumes.iter().filter(|volume| volume.driver.as_ref() == Some(driver));
            of_driver.map(|volume| Arc::clone(&volume.claim)).collect()
        };
        let attached: BTreeSet<Arc<str>> = residents(view).flat_map(|pod| claims(pod)).collect();
        let more = claims(pod).difference(&attached).count();
        (more > 0 && attached.len() + more > *limit as usize).then(|| {
            format!(
                "{driver}: {more} more volumes asked for, {} of at most {limit} are attached",
                attached.len()
            )
        })
    })
}

#[cfg(test)]
mod tests;
