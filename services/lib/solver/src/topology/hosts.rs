//! How evenly a hostname spread stands: the nodes that are domains of it, by how many pods it counts on each.

use std::collections::BTreeMap;

use super::group::GroupId;
use crate::world::World;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostLevels {
    nodes: BTreeMap<i32, u32>,
    /// Those that have a Node object, which kube-scheduler compares with `minDomains`.
    registered: u32,
}

impl HostLevels {
    pub(crate) fn add(&mut self, count: i32) {
        *self.nodes.entry(count).or_default() += 1;
    }

    pub(crate) fn take(&mut self, count: i32) {
        if let Some(nodes) = self.nodes.get_mut(&count) {
            *nodes -= 1;
            if *nodes == 0 {
                self.nodes.remove(&count);
            }
        }
    }

    pub(crate) fn take_registered(&mut self) {
        self.registered = self.registered.saturating_sub(1);
    }

    pub(crate) fn registered(&self) -> u32 {
        self.registered
    }

    /// Nodes without any pod that the rule counts.
    pub(crate) fn empty(&self) -> usize {
        self.nodes.get(&0).map_or(0, |nodes| *nodes as usize)
    }

    /// The fewest pods on any of the nodes; zero where there is no node.
    pub(crate) fn least(&self) -> i32 {
        self.nodes.first_key_value().map_or(0, |(count, _)| *count)
    }
}

impl World {
    /// Of a hostname group, as the cluster stands.
    pub(crate) fn host_levels(&self, group: GroupId) -> &HostLevels {
        let counts = &self.counts[group as usize];
        counts.levels.get_or_init(|| {
            let mut levels = HostLevels::default();
            for node in (0..self.nodes.len() as u32).filter(|node| self.is_host_domain(group, *node)) {
                levels.add(counts.hosts.get(&node).map_or(0, |host| host.0));
                levels.registered += u32::from(self.nodes[node as usize].registered);
            }
            levels
        })
    }

    /// Whether the node is a domain of a hostname group. Nodes that start are: kube-scheduler will know them soon. Nodes being
    /// deleted are not: it soon will not.
    pub(crate) fn is_host_domain(&self, group: GroupId, node: u32) -> bool {
        !self.nodes[node as usize].deleting() && self.counts_node(group, node)
    }
}
