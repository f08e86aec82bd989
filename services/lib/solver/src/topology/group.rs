//! Topology groups: a spread, affinity or anti-affinity rule with the pods that it counts. Pods that state the same rule
//! share one group.

use std::collections::BTreeSet;

use model::pod::{
    LabelSelector, NodeInclusionPolicy, PodAffinityTerm, PodSpec, SelectorOperator, SelectorRequirement,
    TopologySpread,
};
use model::requirements::Requirements;
use model::taint::Toleration;

use crate::pools::required_alternatives;

pub(crate) type GroupId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Spread {
        max_skew: u32,
        min_domains: Option<u32>,
    },
    Affinity,
    /// A required rule also keeps the pods that it selects away from the pods that state it; a preferred one does not.
    AntiAffinity {
        required: bool,
    },
}

/// What makes two rules the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) namespaces: Namespaces,
    /// `None` selects no pod.
    pub(crate) selector: Option<LabelSelector>,
    /// Which nodes count; `None`: all.
    pub(crate) filter: Option<NodeFilter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespaces {
    All,
    Listed(BTreeSet<String>),
}

/// Nodes that a spread rule looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeFilter {
    /// Any of these must accept the node's labels; empty: no condition.
    pub(crate) any_of: Vec<Requirements>,
    /// These must tolerate the node's taints; `None`: no condition.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl Namespaces {
    pub(crate) fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(names) => names.contains(namespace),
        }
    }

    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, other) | (other, Self::All) => other.clone(),
            (Self::Listed(own), Self::Listed(others)) => Self::Listed(own & others),
        }
    }
}

/// Resolves namespace selectors.
pub(crate) trait NamespaceLabels {
    /// Names of the namespaces that the selector selects.
    fn matching(&self, selector: &LabelSelector) -> BTreeSet<String>;
}

impl Rule {
    /// `tolerations` as they are on the rung: a pod that puts up with soft taints also counts on nodes that have them.
    pub(crate) fn of_spread(
        spread: &TopologySpread,
        spec: &PodSpec,
        tolerations: &[Toleration],
        namespace: &str,
    ) -> Self {
        let honors = |policy| policy == NodeInclusionPolicy::Honor;
        let alternatives = required_alternatives(spec);
        let any_of = match honors(spread.node_affinity_policy) && alternatives.iter().any(|r| !r.is_empty()) {
            true => alternatives,
            false => Vec::new(),
        };
        let tolerations = honors(spread.node_taints_policy).then(|| tolerations.to_vec());
        let filter = NodeFilter { any_of, tolerations };
        Self {
            kind: Kind::Spread { max_skew: spread.max_skew.max(1), min_domains: spread.min_domains },
            key: model::labels::normalize(&spread.topology_key).to_owned(),
            namespaces: Namespaces::Listed([namespace.to_owned()].into()),
            selector: spread
                .selector
                .as_ref()
                .map(|s| with_own_labels(s, spec, &spread.match_label_keys, &[])),
            filter: (!filter.any_of.is_empty() || filter.tolerations.is_some()).then_some(filter),
        }
    }

    pub(crate) fn of_term(
        kind: Kind,
        term: &PodAffinityTerm,
        spec: &PodSpec,
        namespace: &str,
        known: &dyn NamespaceLabels,
    ) -> Self {
        let selector = term.selector.as_ref();
        Self {
            kind,
            key: model::labels::normalize(&term.topology_key).to_owned(),
            namespaces: namespaces(term, namespace, known),
            selector: selector
                .map(|s| with_own_labels(s, spec, &term.match_label_keys, &term.mismatch_label_keys)),
            filter: None,
        }
    }

    /// A pod's required affinity terms, matched together: each is met by pods that all of them select (kube-scheduler:
    /// InterPodAffinity). A single term is as it is.
    pub(crate) fn of_terms(
        terms: &[&PodAffinityTerm],
        spec: &PodSpec,
        namespace: &str,
        known: &dyn NamespaceLabels,
    ) -> Vec<Self> {
        let of_term = |term: &&PodAffinityTerm| Self::of_term(Kind::Affinity, term, spec, namespace, known);
        let mut rules: Vec<Self> = terms.iter().map(of_term).collect();
        let Some((first, others)) = rules.split_first() else { return rules };
        let mut selector = first.selector.clone();
        let mut namespaces = first.namespaces.clone();
        for other in others {
            selector = selector.zip(other.selector.as_ref()).map(|(mut all, more)| {
                all.requirements.extend(more.requirements.iter().cloned());
                all.requirements.sort_unstable();
                all.requirements.dedup();
                all
            });
            namespaces = namespaces.and(&other.namespaces);
        }
        for rule in &mut rules {
            rule.selector.clone_from(&selector);
            rule.namespaces.clone_from(&namespaces);
        }
        rules
    }

    pub(crate) fn is_host(&self) -> bool {
        self.key == model::labels::HOSTNAME
    }

    pub(crate) fn is_required_anti_affinity(&self) -> bool {
        self.kind == Kind::AntiAffinity { required: true }
    }
}

fn namespaces(term: &PodAffinityTerm, own: &str, known: &dyn NamespaceLabels) -> Namespaces {
    let mut listed: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    match &term.namespace_selector {
        Some(selector) if selector.requirements.is_empty() => return Namespaces::All,
        Some(selector) => listed.extend(known.matching(selector)),
        None if listed.is_empty() => {
            listed.insert(own.to_owned());
        }
        None => {}
    }
    Namespaces::Listed(listed)
}

/// The selector with the pod's own values of the given keys, in a canonical order and without repeats.
fn with_own_labels(
    selector: &LabelSelector,
    spec: &PodSpec,
    equal: &[String],
    unequal: &[String],
) -> LabelSelector {
    let mut requirements = selector.requirements.clone();
    let mut add = |keys: &[String], operator| {
        for key in keys {
            if let Some(value) = spec.labels.get(key) {
                requirements.push(SelectorRequirement {
                    key: key.clone(),
                    operator,
                    values: vec![value.clone()],
                });
            }
        }
    };
    add(equal, SelectorOperator::In);
    add(unequal, SelectorOperator::NotIn);
    for requirement in &mut requirements {
        requirement.values.sort_unstable();
        requirement.values.dedup();
    }
    requirements.sort_unstable();
    requirements.dedup();
    LabelSelector { requirements }
}
