//! The cluster as the plan would make it: every node that stays or comes, and the pods on it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::node::{Node, NodeState};
use model::pod::Pod;
use model::pool::{ClusterInput, NodePool};
use model::resources::Resources;
use model::taint::Taint;

use super::labels::{Labels, Outcome};
use super::resources;
use super::violation::Place;
use crate::options::Options;
use crate::plan::{NewNode, Plan, PodRef};

pub(super) struct Cluster<'a> {
    pub(super) input: &'a ClusterInput,
    pub(super) sites: Vec<Site<'a>>,
    /// Whether reserved offerings exist at all.
    pub(super) use_reserved: bool,
    /// Pods that need a place, by `namespace/name`.
    pub(super) to_place: BTreeMap<String, (&'a Pod, Origin)>,
}

/// Why a pod needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Pending,
    /// Its node is being deleted anyway.
    Deleting,
    /// Its node is one of those that the question removes.
    Moved,
}

/// A node that exists or is to be made.
pub(super) struct Site<'a> {
    pub(super) place: Place,
    pub(super) kind: Kind<'a>,
    /// Pods that the plan puts here.
    pub(super) new: Vec<&'a Pod>,
    /// Pods that are here already and stay.
    pub(super) bound: Vec<&'a Pod>,
    /// All ways in which the node can turn out; exactly one for a node that exists. Those of one type are beside each other.
    pub(super) outcomes: Vec<Labels<'a>>,
    /// Where the outcomes of each type are.
    by_type: BTreeMap<&'a str, Range<usize>>,
}

pub(super) enum Kind<'a> {
    New {
        node: &'a NewNode,
        pool: Option<&'a NodePool>,
    },
    Existing {
        node: &'a Node,
        /// It is being deleted, or the question removes it.
        goes: bool,
    },
    Unknown,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(
        input: &'a ClusterInput,
        removed: &BTreeSet<&str>,
        plan: &'a Plan,
        options: &Options,
    ) -> Self {
        let to_place = to_place(input, removed);
        let find = |pods: &[PodRef]| -> Vec<&'a Pod> {
            pods.iter().filter_map(|pod| to_place.get(&pod.to_string()).map(|(pod, _)| *pod)).collect()
        };
        let mut bound: BTreeMap<&str, Vec<&'a Pod>> = BTreeMap::new();
        for pod in &input.pods {
            if let (Some(node), false) = (&pod.node, to_place.contains_key(&pod.key())) {
                bound.entry(node).or_default().push(pod);
            }
        }
        let mut sites: Vec<Site<'a>> = Vec::new();
        let mut planned: BTreeMap<&str, Vec<&'a Pod>> = BTreeMap::new();
        for existing in &plan.existing {
            planned.entry(&existing.node).or_default().extend(find(&existing.pods));
        }
        for node in &input.nodes {
            let gone = removed.contains(&*node.name);
            let new = planned.remove(&*node.name);
            if gone && new.is_none() {
                continue;
            }
            sites.push(Site {
                place: Place::Existing(node.name.clone()),
                kind: Kind::Existing { node, goes: gone || node.state == NodeState::Deleting },
                new: new.unwrap_or_default(),
                bound: if gone { Vec::new() } else { bound.remove(&*node.name).unwrap_or_default() },
                outcomes: vec![Labels::Node(node)],
                by_type: BTreeMap::new(),
            });
        }
        sites.extend(planned.into_iter().map(|(name, new)| Site {
            place: Place::Existing(name.into()),
            kind: Kind::Unknown,
            new,
            bound: Vec::new(),
            outcomes: Vec::new(),
            by_type: BTreeMap::new(),
        }));
        let mut ways = Ways { input, use_reserved: options.use_reserved, known: BTreeMap::new() };
        for (index, node) in plan.new_nodes.iter().enumerate() {
            let pool = input.pools.iter().find(|pool| pool.name == node.pool);
            let new = find(&node.pods);
            let outcomes = pool.map_or_else(Vec::new, |pool| ways.outcomes(pool, node, index, &new));
            sites.push(Site {
                by_type: by_type(&outcomes),
                place: Place::New { index, pool: node.pool.clone() },
                kind: Kind::New { node, pool },
                new,
                bound: Vec::new(),
                outcomes,
            });
        }
        Self { input, sites, use_reserved: options.use_reserved, to_place }
    }

    /// Nodes to be made whose pool exists.
    pub(super) fn new_nodes(&self) -> impl Iterator<Item = (&Site<'a>, &'a NewNode, &'a NodePool)> {
        self.sites.iter().filter_map(|site| match site.kind {
            Kind::New { node, pool: Some(pool) } => Some((site, node, pool)),
            _ => None,
        })
    }

    /// Nodes that exist.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Site<'a>, &'a Node)> {
        self.sites.iter().filter_map(|site| match site.kind {
            Kind::Existing { node, .. } => Some((site, node)),
            _ => None,
        })
    }

    /// Every pod that counts in topology, with the index of its site and whether the plan put it there. A pod that is
    /// terminating does not count.
    pub(super) fn counted(&self) -> impl Iterator<Item = (&'a Pod, usize, bool)> {
        self.sites.iter().enumerate().flat_map(|(index, site)| {
            let bound = site.bound.iter().filter(|pod| !pod.terminating).map(move |pod| (*pod, index, false));
            bound.chain(site.new.iter().map(move |pod| (*pod, index, true)))
        })
    }
}

fn to_place<'a>(input: &'a ClusterInput, removed: &BTreeSet<&str>) -> BTreeMap<String, (&'a Pod, Origin)> {
    let deleting: BTreeSet<&str> =
        input.nodes.iter().filter(|n| n.state == NodeState::Deleting).map(|n| &*n.name).collect();
    let known: BTreeSet<&str> = input.nodes.iter().map(|n| &*n.name).collect();
    let origin = |pod: &Pod| match pod.node.as_deref() {
        None => Some(Origin::Pending),
        Some(node) if !known.contains(node) || !pod.reschedulable || pod.bound_to_node => None,
        Some(node) if removed.contains(node) => Some(Origin::Moved),
        Some(node) if deleting.contains(node) => Some(Origin::Deleting),
        Some(_) => None,
    };
    input.pods.iter().filter_map(|pod| Some((pod.key(), (pod, origin(pod)?)))).collect()
}

/// Type and offering.
type Way<'a> = (&'a InstanceType, &'a Offering);

/// A way, and what it leaves for pods.
type Roomy<'a> = (Way<'a>, Resources);

/// Ways of launching what nodes list. Many nodes of a plan share their list and requirements, and with them the answer.
struct Ways<'a> {
    input: &'a ClusterInput,
    use_reserved: bool,
    /// By pool, list of types and requirements, the latter two by where they are stored.
    known: BTreeMap<(&'a str, usize, usize), Vec<Roomy<'a>>>,
}

impl<'a> Ways<'a> {
    /// Ways of launching a listed type that the requirements allow and that hold the pods; of a type that never holds them, all
    /// that are allowed.
    fn outcomes(
        &mut self,
        pool: &'a NodePool,
        node: &'a NewNode,
        index: usize,
        pods: &[&Pod],
    ) -> Vec<Labels<'a>> {
        let (input, use_reserved) = (self.input, self.use_reserved);
        let outcome = |(instance, offering): Way<'a>| Outcome {
            pool,
            claim: &node.requirements,
            instance,
            offering,
            of_types: &input.extra_well_known,
            index,
        };
        let types = Arc::as_ptr(&node.instance_types).cast::<()>() as usize;
        let key = (&*pool.name, types, Arc::as_ptr(&node.requirements) as usize);
        let allowed = self.known.entry(key).or_insert_with(|| {
            let types: BTreeMap<&str, &InstanceType> =
                pool.instance_types.iter().map(|t| (&*t.name, t)).collect();
            let usable =
                |o: &Offering| o.is_open() && (use_reserved || o.capacity_type != CapacityType::Reserved);
            let listed = node.instance_types.iter().filter_map(|name| types.get(&**name).copied());
            let ways = listed.flat_map(|instance| instance.offerings.iter().map(move |o| (instance, o)));
            let allowed = ways.filter(|way| usable(way.1) && outcome(*way).is_allowed());
            allowed.map(|way| (way, resources::room(input, pool, outcome(way)))).collect()
        });
        let wanted = resources::wanted(pods);
        let mut out = Vec::with_capacity(allowed.len());
        for of_type in allowed.chunk_by(|a, b| std::ptr::eq(a.0.0, b.0.0)) {
            let start = out.len();
            let holding = of_type.iter().filter(|(_, room)| wanted.fits(room));
            out.extend(holding.map(|(way, _)| Labels::Outcome(outcome(*way))));
            if out.len() == start {
                out.extend(of_type.iter().map(|(way, _)| Labels::Outcome(outcome(*way))));
            }
        }
        out
    }
}

fn by_type<'a>(outcomes: &[Labels<'a>]) -> BTreeMap<&'a str, Range<usize>> {
    let mut out: BTreeMap<&'a str, Range<usize>> = BTreeMap::new();
    for (index, labels) in outcomes.iter().enumerate() {
        if let Labels::Outcome(outcome) = labels {
            let range = out.entry(&outcome.instance.name).or_insert(index..index);
            range.end = index + 1;
        }
    }
    out
}

impl<'a> Site<'a> {
    /// Outcomes of a new node that become `name`.
    pub(super) fn outcomes_of(&self, name: &str) -> impl Iterator<Item = Outcome<'a>> {
        let range = self.by_type.get(name).cloned().unwrap_or_default();
        self.outcomes[range].iter().filter_map(|labels| match labels {
            Labels::Outcome(outcome) => Some(*outcome),
            Labels::Node(_) => None,
        })
    }

    /// Taints that pods meet here; none where nothing is known.
    pub(super) fn taints(&self) -> Vec<&'a Taint> {
        match self.kind {
            Kind::New { pool: Some(pool), .. } => pool.taints.iter().collect(),
            Kind::Existing { node, .. } => node.scheduling_taints().collect(),
            Kind::New { pool: None, .. } | Kind::Unknown => Vec::new(),
        }
    }

    /// Pods of the plan, one for each distinct specification: rules that look at nothing else need no more.
    pub(super) fn distinct_new(&self) -> Vec<&'a Pod> {
        let mut seen = BTreeSet::new();
        self.new.iter().copied().filter(|pod| seen.insert(std::sync::Arc::as_ptr(&pod.spec))).collect()
    }
}
