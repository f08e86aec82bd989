//! Rules that compare a node with others: spread, pod affinity and anti-affinity, as the checker of plans judges them.

use std::sync::Arc;

use model::pod::Pod;
use solver::check::{Violation, check_within};
use solver::{ExistingNode, Options, Plan, PodRef};

use super::Rule;
use crate::cluster::ClusterView;

/// The nodes among `near` that the pod cannot join, each with the rule. Nodes that there is no time for are left out.
pub(super) fn misses<'n>(
    view: &ClusterView,
    pod: &Pod,
    near: &[&'n Arc<str>],
    options: &Options,
    keep_going: &dyn Fn() -> bool,
) -> Vec<(&'n Arc<str>, Rule, String)> {
    let with_pod = |node: &Arc<str>| ExistingNode {
        node: Arc::clone(node),
        pods: vec![PodRef { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) }],
    };
    if near.is_empty() || !keep_going() {
        return Vec::new();
    }
    // All of them in one excerpt of the cluster, and one after the other in a plan of its own.
    let all = Plan { existing: near.iter().map(|node| with_pod(node)).collect(), ..Plan::default() };
    let input = view.input_for(&all);
    let key = pod.key();
    let mut found = Vec::new();
    for node in near {
        let plan = Plan { existing: vec![with_pod(node)], ..Plan::default() };
        let Ok(violations) = check_within(&input, &plan, options, keep_going) else { break };
        let miss =
            violations.iter().find_map(|violation| rule(violation, &key).map(|rule| (rule, violation)));
        if let Some((rule, violation)) = miss {
            found.push((*node, rule, violation.to_string()));
        }
    }
    found
}

/// The rule of a violation that is about this pod.
fn rule(violation: &Violation, key: &str) -> Option<Rule> {
    match violation {
        Violation::SpreadUndecided { pod, .. } | Violation::SpreadSkewed { pod, .. } if pod == key => {
            Some(Rule::TopologySpread)
        }
        Violation::AffinityUnmet { pod, .. } if pod == key => Some(Rule::PodAffinity),
        Violation::AntiAffinityBroken { pod, other, .. } if pod == key || other == key => {
            Some(Rule::PodAntiAffinity)
        }
        _ => None,
    }
}
