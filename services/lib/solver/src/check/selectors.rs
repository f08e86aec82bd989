//! Which pods a topology constraint of a pod is about.

use std::collections::{BTreeMap, BTreeSet};

use model::catalog::LabelMap;
use model::pod::{
    LabelSelector, Pod, PodAffinityTerm, SelectorOperator, SelectorRequirement, TopologySpread,
};
use model::pool::ClusterInput;

use super::sites::Cluster;

/// The label that Kubernetes puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    namespaces: BTreeSet<String>,
    /// `None` selects no pod.
    selector: Option<LabelSelector>,
}

impl Selected {
    pub(super) fn by_spread(pod: &Pod, constraint: &TopologySpread) -> Self {
        let selector = constraint.selector.as_ref();
        Self {
            namespaces: BTreeSet::from([pod.namespace.to_string()]),
            selector: selector.map(|s| with_own(s, pod, &constraint.match_label_keys, SelectorOperator::In)),
        }
    }

    pub(super) fn by_term(input: &ClusterInput, pod: &Pod, term: &PodAffinityTerm) -> Self {
        let selector = term.selector.as_ref().map(|selector| {
            let same = with_own(selector, pod, &term.match_label_keys, SelectorOperator::In);
            with_own(&same, pod, &term.mismatch_label_keys, SelectorOperator::NotIn)
        });
        Self { namespaces: namespaces(input, pod, term), selector }
    }

    /// By all required affinity terms of a pod: only pods that every one of them selects meet any of them.
    pub(super) fn by_affinity(input: &ClusterInput, pod: &Pod) -> Self {
        let mut terms = pod.spec.affinity.iter().map(|term| Self::by_term(input, pod, term));
        let first = terms.next().unwrap_or(Self { namespaces: BTreeSet::new(), selector: None });
        terms.fold(first, |all, term| Self {
            namespaces: &all.namespaces & &term.namespaces,
            selector: all.selector.zip(term.selector).map(|(mut all, more)| {
                all.requirements.extend(more.requirements);
                all
            }),
        })
    }

    /// By sample of the cluster.
    pub(super) fn among(&self, cluster: &Cluster<'_>) -> Vec<bool> {
        cluster.samples.iter().map(|pod| self.has(pod)).collect()
    }

    pub(super) fn has(&self, pod: &Pod) -> bool {
        self.namespaces.contains(&*pod.namespace)
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.spec.labels))
    }
}

/// The selector, and for each of `keys` that the pod has, its own value in (or not in) it.
fn with_own(
    selector: &LabelSelector,
    pod: &Pod,
    keys: &[String],
    operator: SelectorOperator,
) -> LabelSelector {
    let mut out = selector.clone();
    for key in keys {
        if let Some(value) = pod.spec.labels.get(key) {
            out.requirements.push(SelectorRequirement {
                key: key.clone(),
                operator,
                values: vec![value.clone()],
            });
        }
    }
    out
}

fn namespaces(input: &ClusterInput, pod: &Pod, term: &PodAffinityTerm) -> BTreeSet<String> {
    if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        return BTreeSet::from([pod.namespace.to_string()]);
    }
    let mut out: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    if let Some(selector) = &term.namespace_selector {
        let mut known: BTreeMap<&str, LabelMap> =
            input.namespaces.iter().map(|(name, labels)| (name.as_str(), labels.clone())).collect();
        for pod in &input.pods {
            known.entry(&pod.namespace).or_default();
        }
        for (name, mut labels) in known {
            labels.insert(NAMESPACE_NAME.to_owned(), name.to_owned());
            if selector.matches(&labels) {
                out.insert(name.to_owned());
            }
        }
    }
    out
}
