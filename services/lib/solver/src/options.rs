//! How to decide: the settings of the reference that influence scheduling, and how much effort to spend.

#[derive(Clone, Debug)]
pub struct Options {
    pub preferences: PreferencePolicy,
    pub min_values: MinValuesPolicy,
    /// Whether reserved offerings may be used at all (the `ReservedCapacity` gate).
    pub use_reserved: bool,
    /// Most instance types written on one new node; the cheapest are kept.
    pub max_instance_types: usize,
    pub effort: Effort,
    /// Consolidation: nodes that still settle (`Node::settling`) accept only pods that have no other home.
    pub protect_settling: bool,
    /// Disruption: a pod moved onto a node of ours that is not initialised yet counts as left over, unless it comes from a
    /// node that is being deleted anyway.
    pub distrust_uninitialized: bool,
    /// Whether pods that are pending and find no place are listed, each with an explanation. What-ifs are about the pods of
    /// removed nodes: they need neither.
    pub report_pending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// Preferences count as requirements until nothing else is left, then go one by one.
    Respect,
    /// Preferences do not exist.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    Strict,
    /// A new node may have fewer values than asked for, and says so.
    BestEffort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// One greedy pass and cheap improvements; no bound. For what-if questions by the thousand.
    Quick,
    /// Several packings, column generation, and a lower bound.
    Full,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            use_reserved: true,
            max_instance_types: 600,
            effort: Effort::Full,
            protect_settling: false,
            distrust_uninitialized: false,
            report_pending: true,
        }
    }
}
