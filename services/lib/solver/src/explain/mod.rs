//! Why a pod is where it is, or nowhere: for every pool the first rule that failed, and how near the miss was. Computed only
//! for pods that were left over, or when asked.

mod placed;
mod pools;
mod relaxed;

use std::fmt;
use std::sync::Arc;

pub use placed::explain;
pub use relaxed::relaxed;

use crate::engine::demand::DemandId;
use crate::engine::state::State;

/// An answer for one pod (and all others of its class).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What became of it, in one sentence.
    pub verdict: String,
    pub rule: Rule,
    /// For every pool that did not take it: the first rule that failed. In order of preference.
    pub pools: Vec<PoolMiss>,
    /// What nodes that exist lack, where there are any.
    pub existing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMiss {
    pub pool: Arc<str>,
    pub rule: Rule,
    /// The rule and the nearest miss: "no type has 16 nvidia.com/gpu; the largest has 8".
    pub miss: String,
}

/// Names a rule; a closed set, so that it can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Nothing failed: the pod has a place.
    None,
    /// Refused before scheduling.
    Validation,
    NoPools,
    /// The pool's own requirements leave no type.
    PoolWithoutTypes,
    FixedSizePool,
    Taints,
    Requirements,
    Offerings,
    Resources,
    HostPorts,
    Volumes,
    TopologySpread,
    PodAffinity,
    PodAntiAffinity,
    Limits,
    MinValues,
    Reservations,
    ResourceClaims,
    UninitializedNode,
    HigherWeight,
    /// No place was found, and no time was left to say why.
    Deadline,
}

impl Rule {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Validation => "validation",
            Self::NoPools => "no-pools",
            Self::PoolWithoutTypes => "pool-without-types",
            Self::FixedSizePool => "fixed-size-pool",
            Self::Taints => "taints",
            Self::Requirements => "requirements",
            Self::Offerings => "offerings",
            Self::Resources => "resources",
            Self::HostPorts => "host-ports",
            Self::Volumes => "volumes",
            Self::TopologySpread => "topology-spread",
            Self::PodAffinity => "pod-affinity",
            Self::PodAntiAffinity => "pod-anti-affinity",
            Self::Limits => "limits",
            Self::MinValues => "min-values",
            Self::Reservations => "reservations",
            Self::ResourceClaims => "resource-claims",
            Self::UninitializedNode => "uninitialized-node",
            Self::HigherWeight => "higher-weight",
            Self::Deadline => "deadline",
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict)?;
        for (index, miss) in self.pools.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}pool {}: {}", miss.pool, miss.miss)?;
        }
        match &self.existing {
            Some(existing) => write!(f, "; {existing}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    pub(crate) fn plain(rule: Rule, verdict: impl Into<String>) -> Self {
        Self { verdict: verdict.into(), rule, pools: Vec::new(), existing: None }
    }

    pub(crate) fn rejected(why: &str) -> Self {
        Self::plain(Rule::Validation, why)
    }

    pub(crate) fn cut_short() -> Self {
        Self::plain(
            Rule::Deadline,
            "no node was found for it, and the deadline came before the reason was looked for",
        )
    }

    pub(crate) fn on_uninitialized(node: &str) -> Self {
        Self::plain(
            Rule::UninitializedNode,
            format!("would land on node {node}, which is not initialised yet"),
        )
    }
}

pub(crate) struct Explainer<'s, 'w> {
    pub(crate) state: &'s State<'w>,
}

impl<'s, 'w> Explainer<'s, 'w> {
    pub(crate) fn new(state: &'s State<'w>) -> Self {
        Self { state }
    }

    /// The label on which every alternative of the pod's node affinity contradicts itself or the node selector.
    fn contradiction(&self, demand: DemandId) -> Option<&'w str> {
        let ladder = self.state.class_of(demand).ladder(self.state.options.preferences);
        let sets = &self.state.world.sets.requirements;
        let strict = ladder.last().map_or(&[][..], |variant| &variant.strict);
        let found: Option<Vec<&str>> = strict.iter().map(|set| sets.get(*set).contradiction()).collect();
        found?.last().copied()
    }

    /// Why no place was found, judged by the end of the decision.
    pub(crate) fn why_not(&mut self, demand: DemandId) -> Explanation {
        let (state, world) = (self.state, self.state.world);
        let class = state.class_of(demand);
        if class.spec.uses_resource_claims {
            let text = "it uses resource claims (dynamic resource allocation), which are not supported yet";
            return Explanation::plain(Rule::ResourceClaims, text);
        }
        if let Some(key) = self.contradiction(demand) {
            let text = format!(
                "its node selector and node affinity contradict each other on label {key}: no node can satisfy both"
            );
            return Explanation::plain(Rule::Requirements, text);
        }
        let existing = (!world.nodes.is_empty()).then(|| "no node that exists has room for it".to_owned());
        if world.pools.is_empty() {
            return Explanation {
                existing,
                ..Explanation::plain(Rule::NoPools, "there is no NodePool to make a node from")
            };
        }
        let pools: Vec<PoolMiss> = (0..world.pools.len()).map(|pool| self.pool_miss(demand, pool)).collect();
        Explanation {
            verdict: "no NodePool can make a node for it".to_owned(),
            rule: pools.first().map_or(Rule::NoPools, |p| p.rule),
            pools,
            existing,
        }
    }
}
