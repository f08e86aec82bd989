//! How many pods each group counts in each domain, as the cluster stands.

use std::sync::OnceLock;

use packing::Bits;
use rustc_hash::FxHashMap;

use super::group::GroupId;
use super::groups::NO_DOMAIN;
use super::hosts::HostLevels;
use crate::world::World;

/// Counts of one group. For hostname groups by node, for others by domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Domains that exist for the group, even if empty: those of nodes, and those that some pool could make.
    pub(crate) eligible: Bits,
    /// Those of nodes that the group counts.
    pub(crate) on_nodes: Bits,
    pub(crate) selected: Vec<i32>,
    /// Pods that state the (required anti-affinity) rule.
    pub(crate) stating: Vec<i32>,
    /// `(selected, stating)` by node, for hostname groups.
    pub(crate) hosts: FxHashMap<u32, (i32, i32)>,
    /// For hostname groups, once it was asked for.
    pub(crate) levels: OnceLock<HostLevels>,
    /// Selected pods anywhere.
    pub(crate) total: i32,
}

impl Counts {
    pub(crate) fn add_selected(&mut self, place: Place, by: i32) {
        self.total += by;
        match place {
            Place::Host(node) => {
                self.hosts.entry(node).or_default().0 += by;
                self.levels = OnceLock::new();
            }
            Place::Domain(domain) => self.selected[domain as usize] += by,
        }
    }

    pub(crate) fn add_stating(&mut self, place: Place, by: i32) {
        match place {
            Place::Host(node) => self.hosts.entry(node).or_default().1 += by,
            Place::Domain(domain) => self.stating[domain as usize] += by,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host(u32),
    Domain(u32),
}

impl World {
    /// Where a group counts the pods of a node; `None` if the node plays no part for it.
    pub(crate) fn place_of(&self, group: GroupId, node: u32) -> Option<Place> {
        let data = self.groups.get(group);
        if !self.counts_node(group, node) {
            return None;
        }
        if self.groups.keys[data.key].host {
            return Some(Place::Host(node));
        }
        let domain = self.node_domains[data.key][node as usize];
        (domain != NO_DOMAIN).then_some(Place::Domain(domain))
    }

    /// Whether the group's node filter accepts the node.
    pub(crate) fn counts_node(&self, group: GroupId, node: u32) -> bool {
        let Some((any_of, tolerations)) = &self.groups.get(group).filter else { return true };
        let node = node as usize;
        (any_of.is_empty() || any_of.iter().any(|set| self.accepting(*set).has(node)))
            && tolerations.is_none_or(|set| self.tolerated(set).has(node))
    }

    /// Counts from nothing. Pods that must be placed anew (on nodes being deleted) are not counted.
    pub(crate) fn count_all(&self) -> Vec<Counts> {
        let mut all: Vec<Counts> =
            (0..self.groups.list.len()).map(|g| self.empty_counts(g as GroupId)).collect();
        for node in 0..self.nodes.len() as u32 {
            self.count_node(node, 1, &mut all);
        }
        all
    }

    /// Adds or takes away all that one node's pods contribute.
    pub(crate) fn count_node(&self, node: u32, by: i32, all: &mut [Counts]) {
        let data = &self.nodes[node as usize];
        for pod in &data.pods {
            if !pod.counts_for_topology(data.deleting()) {
                continue;
            }
            let class = self.classes.get(pod.class);
            for &group in &class.selected {
                if let Some(place) = self.place_of(group, node) {
                    all[group as usize].add_selected(place, by);
                }
            }
            for &group in class.stated_anti() {
                if let Some(place) = self.place_of(group, node) {
                    all[group as usize].add_stating(place, by);
                }
            }
        }
    }

    /// The domains of a group, all at zero: what pools can make, and what nodes are in.
    pub(crate) fn empty_counts(&self, group: GroupId) -> Counts {
        let data = self.groups.get(group);
        let key = &self.groups.keys[data.key];
        if key.host {
            return Counts::default();
        }
        let mut eligible = Bits::new(key.values.len());
        let tolerations = data.rule.filter.as_ref().and_then(|f| f.tolerations.as_deref());
        for (taints, domains) in &self.universe[data.key] {
            if tolerations.is_none_or(|own| taints.iter().all(|t| t.is_tolerated_by(own))) {
                eligible.add(domains);
            }
        }
        let mut on_nodes = Bits::new(key.values.len());
        for (node, domain) in self.node_domains[data.key].iter().enumerate() {
            let data = &self.nodes[node];
            let present = *domain != NO_DOMAIN && data.registered && !data.deleting();
            if present && !on_nodes.has(*domain as usize) && self.counts_node(group, node as u32) {
                on_nodes.set(*domain as usize);
            }
        }
        eligible.add(&on_nodes);
        Counts {
            eligible,
            on_nodes,
            selected: vec![0; key.values.len()],
            stating: vec![0; key.values.len()],
            ..Counts::default()
        }
    }
}
