//! Terms of pod affinity and pod anti-affinity.

use super::LabelSelector;

/// "Together with" (affinity) or "apart from" (anti-affinity) the pods that it selects, within one domain of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAffinityTerm {
    pub topology_key: String,
    /// `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Explicit namespaces. With neither these nor a namespace selector, the pod's own namespace is meant.
    pub namespaces: Vec<String>,
    /// Namespaces by their labels, in addition to the list; an empty selector means all namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// Keys whose value on the pod itself is added to the selector (`In`); keys that the pod lacks are ignored. The API
    /// server merges them at admission, offline input has them as written; merging twice is harmless.
    pub match_label_keys: Vec<String>,
    /// As above, with `NotIn`.
    pub mismatch_label_keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedPodAffinityTerm {
    pub weight: i32,
    pub term: PodAffinityTerm,
}
