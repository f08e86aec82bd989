//! The relaxation ladder: what a pod asks for with all its preferences, then with fewer and fewer of them.
//!
//! Each rung drops the first thing that can be dropped: the heaviest preferred pod affinity, then anti-affinity, then node
//! affinity, a `ScheduleAnyway` spread, and last it tolerates soft taints. The OR-terms of the required node affinity are on
//! every rung: any of them will do, as kube-scheduler has it, and the price decides.

use std::fmt;

use model::pod::{PodAffinityTerm, PodSpec, TopologySpread, WeightedNodeTerm, WhenUnsatisfiable};
use model::requirements::Requirements;
use model::taint::Toleration;

use crate::options::PreferencePolicy;
use crate::pools::required_alternatives;

/// What is in force on one rung.
#[derive(Clone, Debug)]
pub(crate) struct Rung<'a> {
    /// Node selector and required node affinity: one per OR-term.
    pub(crate) strict: Vec<Requirements>,
    /// The same with the heaviest remaining preferred term.
    pub(crate) asked: Vec<Requirements>,
    pub(crate) affinity: Vec<&'a PodAffinityTerm>,
    pub(crate) preferred_affinity: Vec<&'a PodAffinityTerm>,
    pub(crate) anti_affinity: Vec<&'a PodAffinityTerm>,
    pub(crate) preferred_anti_affinity: Vec<&'a PodAffinityTerm>,
    pub(crate) spread: Vec<&'a TopologySpread>,
    pub(crate) tolerations: Vec<Toleration>,
}

/// The rungs of a pod, strictest first. `soft_taints`: something has a `PreferNoSchedule` taint, so that tolerating it can
/// help.
pub(crate) fn ladder(spec: &PodSpec, policy: PreferencePolicy, soft_taints: bool) -> Vec<Rung<'_>> {
    let mut now = State::new(spec, policy);
    let mut rungs = vec![now.rung(spec)];
    while now.relax(soft_taints).is_some() {
        rungs.push(now.rung(spec));
    }
    rungs
}

/// What is given up from one rung to the next, in order.
pub(crate) fn given_up(spec: &PodSpec, policy: PreferencePolicy, soft_taints: bool) -> Vec<Dropped<'_>> {
    let mut now = State::new(spec, policy);
    std::iter::from_fn(|| now.relax(soft_taints)).collect()
}

/// One thing that a pod gives up.
#[derive(Clone, Debug)]
pub(crate) enum Dropped<'a> {
    Affinity(i32, &'a PodAffinityTerm),
    AntiAffinity(i32, &'a PodAffinityTerm),
    NodeTerm(&'a WeightedNodeTerm),
    Spread(&'a TopologySpread),
    SoftTaints,
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity(weight, term) => {
                write!(f, "preferred pod affinity by {} (weight {weight})", term.topology_key)
            }
            Self::AntiAffinity(weight, term) => {
                write!(f, "preferred pod anti-affinity by {} (weight {weight})", term.topology_key)
            }
            Self::NodeTerm(own) => write!(f, "preferred node affinity {} (weight {})", own.term, own.weight),
            Self::Spread(spread) => write!(f, "spread over {} (ScheduleAnyway)", spread.topology_key),
            Self::SoftTaints => f.write_str("keeping off PreferNoSchedule taints"),
        }
    }
}

struct State<'a> {
    /// Heaviest first; ties in declaration order.
    node_terms: Vec<&'a WeightedNodeTerm>,
    pod_affinity: Vec<(i32, &'a PodAffinityTerm)>,
    pod_anti_affinity: Vec<(i32, &'a PodAffinityTerm)>,
    spread: Vec<&'a TopologySpread>,
    tolerates_soft: bool,
}

impl<'a> State<'a> {
    fn new(spec: &'a PodSpec, policy: PreferencePolicy) -> Self {
        let respect = policy == PreferencePolicy::Respect;
        let weighted = |terms: &'a [model::pod::WeightedPodAffinityTerm]| {
            let mut all: Vec<_> =
                if respect { terms.iter().map(|t| (t.weight, &t.term)).collect() } else { vec![] };
            all.sort_by_key(|(weight, _)| -weight);
            all
        };
        let mut node_terms: Vec<_> =
            if respect { spec.preferred_node_affinity.iter().collect() } else { vec![] };
        node_terms.sort_by_key(|t| -t.weight);
        let hard = |s: &&TopologySpread| s.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        Self {
            node_terms,
            pod_affinity: weighted(&spec.preferred_affinity),
            pod_anti_affinity: weighted(&spec.preferred_anti_affinity),
            spread: spec.topology_spread.iter().filter(|s| respect || hard(s)).collect(),
            tolerates_soft: false,
        }
    }

    fn relax(&mut self, soft_taints: bool) -> Option<Dropped<'a>> {
        if !self.pod_affinity.is_empty() {
            let (weight, term) = self.pod_affinity.remove(0);
            Some(Dropped::Affinity(weight, term))
        } else if !self.pod_anti_affinity.is_empty() {
            let (weight, term) = self.pod_anti_affinity.remove(0);
            Some(Dropped::AntiAffinity(weight, term))
        } else if !self.node_terms.is_empty() {
            Some(Dropped::NodeTerm(self.node_terms.remove(0)))
        } else if let Some(soft) =
            self.spread.iter().position(|s| s.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway)
        {
            Some(Dropped::Spread(self.spread.swap_remove(soft)))
        } else if soft_taints && !self.tolerates_soft {
            self.tolerates_soft = true;
            Some(Dropped::SoftTaints)
        } else {
            None
        }
    }

    fn rung(&self, spec: &'a PodSpec) -> Rung<'a> {
        let strict = required_alternatives(spec);
        let mut asked = strict.clone();
        if let Some(heaviest) = self.node_terms.first() {
            asked.iter_mut().for_each(|own| own.add_all(&heaviest.term));
        }
        let mut tolerations = spec.tolerations.clone();
        if self.tolerates_soft {
            tolerations.push(Toleration::of_every_soft_taint());
        }
        let preferred =
            |terms: &[(i32, &'a PodAffinityTerm)]| terms.iter().map(|(_, t)| *t).collect::<Vec<_>>();
        Rung {
            strict,
            asked,
            affinity: spec.affinity.iter().collect(),
            preferred_affinity: preferred(&self.pod_affinity),
            anti_affinity: spec.anti_affinity.iter().collect(),
            preferred_anti_affinity: preferred(&self.pod_anti_affinity),
            spread: self.spread.clone(),
            tolerations,
        }
    }
}
