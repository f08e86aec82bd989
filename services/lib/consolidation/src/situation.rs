//! From plain objects to what a pass works on. Looks past what only time decides: every node counts as past its consolidateAfter window,
//! and budgets with a schedule, which depend on the hour, do not count.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::disruption::ConsolidationPolicy;
use api::nodepool::NodePool;
use jiff::Timestamp;
use model::labels;
use model::node::{Node, NodeState};
use model::pod::Pod;
use model::pool::ClusterInput;
use model::price::MicroDollars;
use policy::Reason;
use policy::budget::{self, Budgets, CountedNode, Counts, State};
use policy::consolidation::{COST_UNIT, Candidate, pool_totals};

use crate::launch::price_in;
use crate::pool::{budget_specs, churn_settings};
use crate::search::{Entry, Methods, Situation};
use crate::{Blocked, Rest};

/// What a pass must know of one node.
pub(crate) struct Surveyed {
    pool: Arc<str>,
    price: MicroDollars,
    /// Of moving all its pods.
    cost: i64,
    entry: Result<Entry, String>,
}

impl Surveyed {
    /// It may not be disrupted, for one more reason.
    pub(crate) fn block(&mut self, reason: String) {
        if self.entry.is_ok() {
            self.entry = Err(reason);
        }
    }
}

/// Nodes that may be disrupted, and why the others may not.
pub fn situation(input: &ClusterInput, rest: &Rest) -> (Situation, Vec<Blocked>) {
    let mut pods: BTreeMap<&Arc<str>, Vec<&Pod>> = BTreeMap::new();
    for pod in &input.pods {
        if let Some(node) = &pod.node {
            pods.entry(node).or_default().push(pod);
        }
    }
    let own = |node: &Node| pods.get(&node.name).map(Vec::as_slice).unwrap_or_default();
    let surveyed = |node: &Node| Some((Arc::clone(&node.name), survey(node, own(node), input, rest)?));
    let nodes: BTreeMap<Arc<str>, Surveyed> = input.nodes.iter().filter_map(surveyed).collect();
    situation_of(&nodes, input, rest)
}

/// `None` for a node that is not ours, or not registered.
pub(crate) fn survey(node: &Node, pods: &[&Pod], input: &ClusterInput, rest: &Rest) -> Option<Surveyed> {
    let candidate = Some(node).filter(|node| node.managed() && node.registered);
    let candidate = candidate.and_then(|node| candidate_of(node, pods, input, rest))?;
    let methods = match obstacle(node, pods, rest) {
        Some(reason) => Err(reason),
        None => methods(&candidate, rest.pools.get(&candidate.pool)),
    };
    Some(Surveyed {
        pool: Arc::clone(&candidate.pool),
        price: candidate.price,
        cost: COST_UNIT + pods.iter().filter(|p| !p.daemon).map(|p| cost(p, rest)).sum::<i64>(),
        entry: methods.map(|methods| Entry {
            candidate,
            methods,
            pods: u32::try_from(pods.iter().filter(|p| must_move(p)).count()).unwrap_or(u32::MAX),
            drifted: None,
            basis: 0,
            known: false,
        }),
    })
}

/// `nodes`: all that were surveyed, by name.
pub(crate) fn situation_of(
    nodes: &BTreeMap<Arc<str>, Surveyed>,
    input: &ClusterInput,
    rest: &Rest,
) -> (Situation, Vec<Blocked>) {
    let entries = nodes.values().filter_map(|node| node.entry.as_ref().ok().cloned()).collect();
    let why = |(name, node): (&Arc<str>, &Surveyed)| {
        let reason = node.entry.as_ref().err()?.clone();
        Some(Blocked { node: name.to_string(), reason })
    };
    let blocked = nodes.iter().filter_map(why).collect();
    let costs = nodes.values().map(|node| (Arc::clone(&node.pool), node.price, node.cost));
    let states = budget_states(input, rest);
    let allowance = |reason: Reason| {
        let states = states.iter().filter_map(|(pool, states)| Some((pool, states.get(&reason)?)));
        (reason, budget::allowance(states))
    };
    let is_balanced =
        |pool: &NodePool| pool.spec.disruption.consolidation_policy == ConsolidationPolicy::Balanced;
    let situation = Situation {
        entries,
        allowances: Reason::ALL.into_iter().map(allowance).collect(),
        balanced: rest
            .pools
            .iter()
            .filter(|(_, pool)| is_balanced(pool))
            .map(|(n, _)| Arc::clone(n))
            .collect(),
        totals: pool_totals(costs),
        churn: rest.pools.iter().map(|(name, pool)| (Arc::clone(name), churn_settings(pool))).collect(),
        spot_to_spot: rest.spot_to_spot,
        ..Situation::default()
    };
    (situation, blocked)
}

fn budget_states(input: &ClusterInput, rest: &Rest) -> BTreeMap<Arc<str>, BTreeMap<Reason, State>> {
    let mut counts: BTreeMap<&Arc<str>, Counts> = BTreeMap::new();
    for node in &input.nodes {
        let Some(pool) = &node.pool else { continue };
        counts.entry(pool).or_default().add(CountedNode {
            managed: node.managed(),
            initialized: node.initialized,
            instance_terminating: false,
            ready: node.state == NodeState::Ready,
            leaving: node.state == NodeState::Deleting,
            reserved: false,
        });
    }
    let states = |(name, pool): (&Arc<str>, &Arc<NodePool>)| {
        let mut specs = budget_specs(pool);
        specs.retain(|spec| spec.schedule.is_none());
        let budgets = Budgets::read(&specs);
        let counts = counts.get(name).copied().unwrap_or_default();
        // Without schedules the time does not matter.
        let state = |reason| (reason, budgets.state(reason, counts, Timestamp::UNIX_EPOCH));
        (Arc::clone(name), Reason::ALL.into_iter().map(state).collect())
    };
    rest.pools.iter().map(states).collect()
}

/// The methods that the pool's policy lets see the node, or why there is none.
fn methods(candidate: &Candidate, pool: Option<&Arc<NodePool>>) -> Result<Methods, String> {
    let name = &candidate.pool;
    let Some(pool) = pool else { return Err(format!("its NodePool {name} is not in the input")) };
    let disruption = &pool.spec.disruption;
    if pool.is_static() {
        return Err(format!("NodePool {name} is static"));
    }
    if disruption.consolidate_after.get().is_none() {
        return Err(format!("NodePool {name} has consolidateAfter Never"));
    }
    let empty = candidate.is_empty();
    if !empty && disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty {
        return Err(format!("NodePool {name} only consolidates empty nodes"));
    }
    Ok(Methods { emptiness: empty, consolidation: !empty, ..Methods::default() })
}

fn obstacle(node: &Node, pods: &[&Pod], rest: &Rest) -> Option<String> {
    if !node.initialized {
        return Some("node is not initialized yet".to_owned());
    }
    if node.state == NodeState::Deleting {
        return Some("node is being deleted".to_owned());
    }
    if rest.held_nodes.contains(&node.name) {
        return Some(format!("node has {}", labels::DO_NOT_DISRUPT));
    }
    pods.iter().find_map(|pod| {
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        let obstacle = rest.facts.get(&key)?.obstacle.as_ref()?;
        Some(format!("pod {} {obstacle}", pod.key()))
    })
}

fn must_move(pod: &Pod) -> bool {
    pod.reschedulable && !pod.buffer
}

fn cost(pod: &Pod, rest: &Rest) -> i64 {
    let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
    rest.facts.get(&key).map_or(COST_UNIT, |facts| facts.eviction_cost).max(0)
}

fn candidate_of(node: &Node, pods: &[&Pod], input: &ClusterInput, rest: &Rest) -> Option<Candidate> {
    Some(Candidate {
        node: Arc::clone(&node.name),
        pool: Arc::clone(node.pool.as_ref()?),
        instance_type: node.price_key().map(|k| Arc::from(k.instance_type)),
        price: price_in(input, node).unwrap_or_default(),
        spot: node.labels.get(labels::CAPACITY_TYPE).is_some_and(|c| c == labels::SPOT),
        reschedule_cost: COST_UNIT + pods.iter().filter(|p| must_move(p)).map(|p| cost(p, rest)).sum::<i64>(),
        holds_buffers: pods.iter().any(|p| p.buffer),
    })
}
