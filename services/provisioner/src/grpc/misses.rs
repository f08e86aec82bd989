//! Why nodes that exist cannot host a pod: the first rule that failed on each, nearest misses first. Pure.

use model::node::{Node, NodeState};
use model::pod::PodSpec;
use model::requirements::Requirements;
use model::resources::{PODS, Resources};
use model::taint::Effect;
use proto::provisioner::v1 as pb;

use crate::cluster::{ClusterView, NodeView};

const MOST: usize = 20;

/// Rules in the order in which they are tried; the later one fails, the nearer the miss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Resources,
    Requirements,
    Taints,
    Leaving,
}

impl Rule {
    fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Requirements => "requirements",
            Self::Taints => "taints",
            Self::Leaving => "leaving",
        }
    }
}

pub(super) fn of(view: &ClusterView, pod: &PodSpec) -> Vec<pb::NodeRejection> {
    let mut all: Vec<(Rule, &str, String)> = view
        .nodes
        .values()
        .filter_map(|n| miss(n, pod).map(|(rule, detail)| (rule, &*n.node.name, detail)))
        .collect();
    all.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    all.truncate(MOST);
    let wire = |(rule, node, detail): (Rule, &str, String)| pb::NodeRejection {
        node: node.to_owned(),
        rule: rule.as_str().to_owned(),
        detail,
    };
    all.into_iter().map(wire).collect()
}

fn miss(view: &NodeView, pod: &PodSpec) -> Option<(Rule, String)> {
    let node = &view.node;
    if node.state == NodeState::Deleting {
        return Some((Rule::Leaving, "it is on its way out".to_owned()));
    }
    if let Some(taint) = node
        .scheduling_taints()
        .find(|t| t.effect != Effect::PreferNoSchedule && !t.is_tolerated_by(&pod.tolerations))
    {
        return Some((Rule::Taints, format!("the pod does not tolerate {taint}")));
    }
    if let Some(detail) = label_miss(node, pod) {
        return Some((Rule::Requirements, detail));
    }
    let mut free = node.allocatable.clone();
    free.sub(&view.requested);
    let mut asked: Resources = pod.requests.clone();
    asked.insert(PODS, model::quantity::Quantity::from_units(1));
    let short: Vec<String> = asked
        .exceeding(&free)
        .map(|name| format!("{name}: {} asked for, {} free", asked.get(name), free.get(name)))
        .collect();
    (!short.is_empty()).then(|| (Rule::Resources, short.join("; ")))
}

fn label_miss(node: &Node, pod: &PodSpec) -> Option<String> {
    let differs = pod.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(value));
    if let Some((key, value)) = differs {
        let has = node.labels.get(key).map_or("none", String::as_str);
        return Some(format!("node selector {key}={value}, the node has {has}"));
    }
    let accepts = |term: &Requirements| {
        term.iter().all(|r| match node.labels.get(r.key()) {
            Some(value) => r.contains(value),
            None => r.allows_absence(),
        })
    };
    let terms = &pod.required_node_affinity;
    if terms.is_empty() || terms.iter().any(accepts) {
        return None;
    }
    Some(format!(
        "required node affinity: {}",
        terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    ))
}
