//! Node selector terms, as node affinity and volumes write them.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use model::requirement::{Entry, Operator, Requirement};
use model::requirements::Requirements;

use super::error::{At, Invalid};

/// The expressions of one term as written. Its `matchFields` are left out: nothing that is not bound to a node yet can be
/// decided by them.
pub(super) fn entries(term: &NodeSelectorTerm, at: &At<'_>) -> Result<Vec<Entry>, Invalid> {
    let expressions_at = at.key("matchExpressions");
    term.match_expressions
        .iter()
        .flatten()
        .enumerate()
        .map(|(index, expression)| entry(expression, &expressions_at.index(index)))
        .collect()
}

fn entry(expression: &NodeSelectorRequirement, at: &At<'_>) -> Result<Entry, Invalid> {
    let operator: Operator = expression
        .operator
        .parse()
        .map_err(|error: model::taint::UnknownName| at.key("operator").invalid(error))?;
    Ok(Entry::new(expression.key.as_str(), operator, expression.values.iter().flatten().map(String::as_str)))
}

/// All expressions of one term together.
pub(super) fn requirements(term: &NodeSelectorTerm, at: &At<'_>) -> Result<Requirements, Invalid> {
    Ok(entries(term, at)?.iter().map(Requirement::from).collect())
}
