//! Which pending pods are not scheduled at all, whatever room there is.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, PodSpec};
use model::labels;
use model::requirement::{Entry, Operator, validate};

use super::error::{At, Invalid};
use super::node_terms::entries;

/// Ends the reason of a pod that wants none of our nodes: no event is due for it.
pub const OPTED_OUT: &str = "none of ours";

/// One sentence if the pod opts out of our nodes or asks for something that no node of ours may be asked for. `Err` where
/// the affinity cannot be read at all. Preferences and pod affinities are not looked at, save for the opt-out.
pub fn why_rejected(spec: &PodSpec, at: &At<'_>) -> Result<Option<String>, Invalid> {
    let selected: Vec<Entry> = spec
        .node_selector
        .iter()
        .flatten()
        .map(|(key, value)| Entry::new(key.as_str(), Operator::In, [value.as_str()]))
        .collect();
    let node = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = node.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|r| r.node_selector_terms.as_slice()).unwrap_or_default();
    let (affinity_at, node_key) = (at.key("affinity"), "nodeAffinity");
    let node_at = affinity_at.key(node_key);
    let required_at = node_at.key("requiredDuringSchedulingIgnoredDuringExecution");
    let terms_at = required_at.key("nodeSelectorTerms");
    let terms: Vec<(&NodeSelectorTerm, Vec<Entry>)> = terms
        .iter()
        .enumerate()
        .map(|(index, term)| Ok((term, entries(term, &terms_at.index(index))?)))
        .collect::<Result<_, Invalid>>()?;

    let heaviest = node
        .and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_deref())
        .unwrap_or_default()
        .iter()
        .rev()
        .max_by_key(|term| term.weight)
        .and_then(|term| entries(&term.preference, at).ok())
        .unwrap_or_default();
    let first_term = terms.first().map(|(_, entries)| entries.as_slice()).unwrap_or_default();
    let opts_out =
        |e: &Entry| labels::normalize(&e.key) == labels::NODEPOOL && e.operator == Operator::DoesNotExist;
    if selected.iter().chain(first_term).chain(&heaviest).any(opts_out) {
        return Ok(Some(format!("it asks for nodes without the label {}: {OPTED_OUT}", labels::NODEPOOL)));
    }
    for entry in selected.iter().chain(terms.iter().flat_map(|(_, entries)| entries)) {
        if let Err(invalid) = validate(entry) {
            return Ok(Some(invalid.to_string()));
        }
    }
    if terms.iter().any(|(term, _)| term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty())) {
        return Ok(Some(
            "its node affinity uses matchFields, which no node yet to be made can satisfy".to_owned(),
        ));
    }
    Ok(None)
}
