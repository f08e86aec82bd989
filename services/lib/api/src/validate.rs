//! Checks that the API server cannot make: of NodePools, NodeOverlays and pods. An object that fails is stored; its errors
//! become a condition's message, or the reason why a pod is left alone.
//!
//! The rule for one requirement is `model::requirement::validate`, the same for all three.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, PodSpec};
use model::labels;
use model::requirement::{Entry, Invalid, Operator, validate as check_entry};

use crate::requirement::Requirement;
use crate::taint::Taint;
use crate::{NodeOverlay, NodePool};

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Requirement(#[from] Invalid),
    #[error(
        "label {key}: operator {operator:?} is none of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte"
    )]
    Operator { key: String, operator: String },
    #[error(
        "label karpenter.sh/nodepool cannot be set in a NodePool: its value is always the pool's own name"
    )]
    OwnName,
    #[error("label {key} is restricted: the autoscaler sets it itself")]
    RestrictedLabel { key: String },
    #[error("{key:?} is no label key: {reason}")]
    LabelKey { key: String, reason: &'static str },
    #[error("{value:?} is no value of label {key}: {reason}")]
    LabelValue { key: String, value: String, reason: &'static str },
    #[error("{key:?} is no taint key: {reason}")]
    TaintKey { key: String, reason: &'static str },
    #[error("{value:?} is no value of taint {key}: {reason}")]
    TaintValue { key: String, value: String, reason: &'static str },
    #[error("taint {key}:{effect} is listed twice in taints and startupTaints")]
    DuplicateTaint { key: String, effect: String },
    #[error("label {key}: operator NotIn needs at least one value")]
    NotInWithoutValues { key: String },
    #[error("resource {name} is known from the instance type and cannot be overlaid")]
    KnownResource { name: String },
    #[error("node affinity by matchFields is not supported; use matchExpressions")]
    MatchFields,
}

/// The message of a condition: all problems, one after the other.
pub fn message(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks a NodePool's template: labels, taints and requirements. Not budgets and limits.
pub fn node_pool(pool: &NodePool) -> Vec<Problem> {
    let template = &pool.spec.template;
    let mut problems = Vec::new();
    if let Some(labels) = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref()) {
        for (key, value) in labels {
            problems.extend(template_label(key, value));
        }
    }
    let taints = template.spec.taints.iter().flatten();
    problems.extend(all_taints(taints.chain(template.spec.startup_taints.iter().flatten())));
    for requirement in &template.spec.requirements {
        if labels::normalize(&requirement.key) == labels::NODEPOOL {
            problems.push(Problem::OwnName);
        }
        problems.extend(one_requirement(requirement));
    }
    problems
}

/// Checks a NodeOverlay's requirements and the resources it adds.
pub fn node_overlay(overlay: &NodeOverlay) -> Vec<Problem> {
    let mut problems = Vec::new();
    for requirement in &overlay.spec.requirements {
        if requirement.operator.as_str() == Operator::NotIn.as_str() && requirement.values().is_empty() {
            problems.push(Problem::NotInWithoutValues { key: requirement.key.clone() });
        }
        problems.extend(one_requirement(requirement));
    }
    for name in overlay.spec.capacity.iter().flat_map(|capacity| capacity.keys()) {
        if KNOWN_RESOURCES.contains(&name.as_str()) {
            problems.push(Problem::KnownResource { name: name.clone() });
        }
    }
    problems
}

/// Checks what a pod demands of its node: its selector and every required affinity term. A pod that fails is left alone.
pub fn pod(pod: &PodSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in pod.node_selector.iter().flatten() {
        problems.extend(one_entry(Entry::new(key, Operator::In, [value])));
    }
    let required = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    for term in required.iter().flat_map(|selector| &selector.node_selector_terms) {
        problems.extend(pod_term(term));
    }
    problems
}

/// Resources whose amount is known from the instance type, so that no overlay may set it. GPUs of NVIDIA and AMD are not
/// among them: their plugins can be configured to show others.
pub const KNOWN_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/efa",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

fn pod_term(term: &NodeSelectorTerm) -> Vec<Problem> {
    let mut problems = Vec::new();
    if term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
        problems.push(Problem::MatchFields);
    }
    for expression in term.match_expressions.iter().flatten() {
        let requirement = Requirement::new(
            &*expression.key,
            expression.operator.as_str().into(),
            expression.values.iter().flatten(),
        );
        problems.extend(one_requirement(&requirement));
    }
    problems
}

fn one_requirement(requirement: &Requirement) -> Option<Problem> {
    match requirement.to_entry() {
        Ok(entry) => one_entry(entry),
        Err(_) => Some(Problem::Operator {
            key: requirement.key.clone(),
            operator: requirement.operator.as_str().to_owned(),
        }),
    }
}

fn one_entry(entry: Entry) -> Option<Problem> {
    check_entry(&entry).err().map(Problem::from)
}

fn template_label(key: &str, value: &str) -> Option<Problem> {
    if key == labels::NODEPOOL {
        return Some(Problem::OwnName);
    }
    if let Err(reason) = labels::check_qualified_name(key) {
        return Some(Problem::LabelKey { key: key.to_owned(), reason });
    }
    if let Err(reason) = labels::check_value(value) {
        return Some(Problem::LabelValue { key: key.to_owned(), value: value.to_owned(), reason });
    }
    labels::is_restricted(key).then(|| Problem::RestrictedLabel { key: key.to_owned() })
}

fn all_taints<'a>(taints: impl Iterator<Item = &'a Taint>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for taint in taints {
        if let Err(reason) = labels::check_qualified_name(&taint.key) {
            problems.push(Problem::TaintKey { key: taint.key.clone(), reason });
        }
        // A taint's value is a qualified name too, so that it may have a prefix.
        if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty())
            && let Err(reason) = labels::check_qualified_name(value)
        {
            problems.push(Problem::TaintValue { key: taint.key.clone(), value: value.to_owned(), reason });
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            problems.push(Problem::DuplicateTaint {
                key: taint.key.clone(),
                effect: taint.effect.as_str().to_owned(),
            });
        }
    }
    problems
}
