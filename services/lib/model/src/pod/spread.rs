//! Topology spread constraints.

use super::LabelSelector;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpread {
    pub topology_key: String,
    /// At least 1.
    pub max_skew: u32,
    /// With fewer eligible domains than this the global minimum counts as zero.
    pub min_domains: Option<u32>,
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// `None` selects no pod: such a constraint does not spread.
    pub selector: Option<LabelSelector>,
    /// Keys whose value on the pod itself is added to the selector; keys that the pod lacks are ignored.
    pub match_label_keys: Vec<String>,
    /// Whether domains that the pod's own node selector and affinity exclude count; default Honor (they do not).
    pub node_affinity_policy: NodeInclusionPolicy,
    /// Whether domains whose nodes have taints that the pod does not tolerate count; default Ignore (they do).
    pub node_taints_policy: NodeInclusionPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeInclusionPolicy {
    Honor,
    Ignore,
}
