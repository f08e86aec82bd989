//! The cluster as the plan would make it: every node that stays or comes, and the pods on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::node::{Node, NodeState};
use model::pod::{Pod, PodSpec};
use model::pool::{ClusterInput, NodePool};
use model::taint::Taint;

use super::outcomes::{Outcomes, Ways};
use super::violation::Place;
use crate::options::Options;
use crate::plan::{NewNode, Plan, PodRef};

/// A pool, and a label of its nodes.
type PoolAndKey = (Arc<str>, String);

pub(super) struct Cluster<'a> {
    pub(super) input: &'a ClusterInput,
    pub(super) sites: Vec<Site<'a>>,
    /// Whether reserved offerings exist at all.
    pub(super) use_reserved: bool,
    /// Pods that need a place, by `namespace/name`.
    pub(super) to_place: BTreeMap<String, (&'a Pod, Origin)>,
    /// One pod for each specification and namespace: rules about whom a selector has need ask no others.
    pub(super) samples: Vec<&'a Pod>,
    counted: Vec<Counted<'a>>,
    keep_going: &'a dyn Fn() -> bool,
    /// Domains that pools can make, by pool and key, once they were asked for.
    pub(super) of_pools: RefCell<BTreeMap<PoolAndKey, Rc<BTreeSet<String>>>>,
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
    pub(super) outcomes: Rc<Outcomes<'a>>,
    /// Every outcome of a new node holds its pods.
    pub(super) roomy: bool,
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
        keep_going: &'a dyn Fn() -> bool,
    ) -> Self {
        let to_place = to_place(input, removed);
        let find = |pods: &[PodRef]| -> Vec<&'a Pod> {
            pods.iter().filter_map(|pod| to_place.get(&pod.to_string()).map(|(pod, _)| *pod)).collect()
        };
        let mut bound: BTreeMap<&str, Vec<&'a Pod>> = BTreeMap::new();
        let moves: BTreeSet<*const Pod> =
            to_place.values().map(|(pod, _)| std::ptr::from_ref(*pod)).collect();
        for pod in &input.pods {
            if let (Some(node), false) = (&pod.node, moves.contains(&std::ptr::from_ref(pod))) {
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
                outcomes: Rc::new(Outcomes::of_node(node)),
                roomy: false,
            });
        }
        sites.extend(planned.into_iter().map(|(name, new)| Site {
            place: Place::Existing(name.into()),
            kind: Kind::Unknown,
            new,
            bound: Vec::new(),
            outcomes: Rc::default(),
            roomy: false,
        }));
        let mut ways = Ways::new(input, options.use_reserved);
        for (index, node) in plan.new_nodes.iter().enumerate() {
            let pool = input.pools.iter().find(|pool| pool.name == node.pool);
            let new = find(&node.pods);
            let (outcomes, roomy) =
                pool.map_or_else(|| (Rc::default(), false), |pool| ways.of(pool, node, &new));
            sites.push(Site {
                place: Place::New { index, pool: node.pool.clone() },
                kind: Kind::New { node, pool },
                new,
                bound: Vec::new(),
                outcomes,
                roomy,
            });
        }
        let (samples, counted) = counted(&sites);
        Self {
            input,
            use_reserved: options.use_reserved,
            to_place,
            samples,
            counted,
            sites,
            keep_going,
            of_pools: RefCell::default(),
        }
    }

    /// The deadline has not come yet.
    pub(super) fn in_time(&self) -> bool {
        (self.keep_going)()
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

    /// Every pod that counts in topology. A pod that is terminating does not.
    pub(super) fn counted(&self) -> impl Iterator<Item = &Counted<'a>> {
        self.counted.iter()
    }

    /// Pods of the plan.
    pub(super) fn placed(&self) -> impl Iterator<Item = &Counted<'a>> {
        self.counted.iter().filter(|counted| counted.new)
    }
}

/// A pod that counts in topology.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    pub(super) pod: &'a Pod,
    /// Index of the pod that stands for all of its specification and namespace.
    pub(super) sample: usize,
    pub(super) site: usize,
    /// The plan put it there.
    pub(super) new: bool,
}

fn counted<'a>(sites: &[Site<'a>]) -> (Vec<&'a Pod>, Vec<Counted<'a>>) {
    let mut samples: Vec<&'a Pod> = Vec::new();
    let mut known: BTreeMap<(*const PodSpec, &'a str), usize> = BTreeMap::new();
    let mut counted = Vec::new();
    for (site, data) in sites.iter().enumerate() {
        let bound = data.bound.iter().filter(|pod| !pod.terminating).map(|pod| (*pod, false));
        for (pod, new) in bound.chain(data.new.iter().map(|pod| (*pod, true))) {
            let sample = *known.entry((Arc::as_ptr(&pod.spec), &pod.namespace)).or_insert_with(|| {
                samples.push(pod);
                samples.len() - 1
            });
            counted.push(Counted { pod, sample, site, new });
        }
    }
    (samples, counted)
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
    let asked = |pod: &'a Pod| origin(pod).map(|origin| (pod.key(), (pod, origin)));
    input.pods.iter().filter_map(asked).collect()
}

impl<'a> Site<'a> {
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
