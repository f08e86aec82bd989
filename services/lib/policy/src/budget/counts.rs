//! Which nodes of a pool count, and which of them are away.

/// What counting needs to know about one node of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedNode {
    /// It has a NodeClaim of ours.
    pub managed: bool,
    pub initialized: bool,
    /// Its claim's InstanceTerminating is True: it left the pool already.
    pub instance_terminating: bool,
    /// Its Ready condition is True.
    pub ready: bool,
    /// Leaving for whatever cause: claim or node has a deletion timestamp.
    pub leaving: bool,
    /// Part of a command, from the moment it is proposed: so that two commands never share one allowance.
    pub reserved: bool,
}

/// Of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What percentages refer to.
    pub total: u32,
    /// Not ready, leaving for any cause, or part of a command.
    pub away: u32,
}

impl Counts {
    pub fn of(nodes: impl IntoIterator<Item = CountedNode>) -> Self {
        let mut counts = Self::default();
        for node in nodes {
            counts.add(node);
        }
        counts
    }

    /// Nodes that are not ours, not initialised, or whose instance is shutting down do not count at all.
    pub fn add(&mut self, node: CountedNode) {
        if node.managed && node.initialized && !node.instance_terminating {
            self.total += 1;
            self.away += u32::from(!node.ready || node.leaving || node.reserved);
        }
    }
}
