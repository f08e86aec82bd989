//! PodDisruptionBudgets, as far as evictions depend on them.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::catalog::LabelMap;
use model::pod::LabelSelector;

use super::error::{At, Error, Invalid};
use super::selectors::label_selector;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBudget {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Evictions that it would allow now.
    pub disruptions_allowed: i32,
    /// It can never allow one: `maxUnavailable` of nothing, or `minAvailable` of everything.
    pub forbids_all: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub lets_unready_go: bool,
}

impl PodBudget {
    pub fn covers(&self, namespace: &str, labels: &LabelMap) -> bool {
        *self.namespace == *namespace && self.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A budget with its status as the disruption controller left it.
pub fn budget(object: &PodDisruptionBudget) -> Result<PodBudget, Error> {
    let meta = &object.metadata;
    let spec = object.spec.as_ref();
    let at = At::Root;
    let spec_at = at.key("spec");
    let selector = label_selector(spec.and_then(|s| s.selector.as_ref()), &spec_at.key("selector"))
        .map_err(|invalid| of(object, invalid))?;
    let is = |value: Option<&IntOrString>, number: i32, text: &str| match value {
        Some(IntOrString::Int(n)) => number >= 0 && *n == number,
        Some(IntOrString::String(s)) => s == text,
        None => false,
    };
    Ok(PodBudget {
        namespace: Arc::from(meta.namespace.as_deref().unwrap_or("default")),
        name: Arc::from(meta.name.as_deref().unwrap_or_default()),
        selector,
        disruptions_allowed: object.status.as_ref().map_or(0, |s| s.disruptions_allowed),
        forbids_all: is(spec.and_then(|s| s.max_unavailable.as_ref()), 0, "0%")
            || is(spec.and_then(|s| s.min_available.as_ref()), -1, "100%"),
        lets_unready_go: spec
            .is_some_and(|s| s.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow")),
    })
}

/// What the disruption controller would write into the status, given how many pods the budget selects and how many of
/// them are healthy. For manifests that no controller has seen.
pub fn implied_disruptions_allowed(
    object: &PodDisruptionBudget,
    expected: i32,
    healthy: i32,
) -> Result<i32, Error> {
    let Some(spec) = &object.spec else { return Ok(0) };
    let at = At::Root;
    let spec_at = at.key("spec");
    let desired = if let Some(value) = &spec.min_available {
        scaled(value, expected, &spec_at.key("minAvailable")).map_err(|invalid| of(object, invalid))?
    } else if let Some(value) = &spec.max_unavailable {
        let most =
            scaled(value, expected, &spec_at.key("maxUnavailable")).map_err(|invalid| of(object, invalid))?;
        (expected - most).max(0)
    } else {
        0
    };
    Ok((healthy - desired).max(0))
}

/// Percentages of the pods are rounded up.
fn scaled(value: &IntOrString, total: i32, at: &At<'_>) -> Result<i32, Invalid> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent: i64 = text
                .strip_suffix('%')
                .and_then(|digits| digits.parse().ok())
                .filter(|percent| (0..=i64::from(i32::MAX)).contains(percent))
                .ok_or_else(|| at.invalid(format!("{text:?} is neither a number nor a percentage")))?;
            let count = (i64::from(total) * percent + 99) / 100;
            Ok(i32::try_from(count).unwrap_or(i32::MAX))
        }
    }
}

fn of(object: &PodDisruptionBudget, invalid: Invalid) -> Error {
    let meta = &object.metadata;
    invalid.of("PodDisruptionBudget", meta.namespace.as_deref(), meta.name.as_deref())
}
