//! PodDisruptionBudgets with the status that a controller would have written.

use api::convert::{PodBudget, budget, implied_disruptions_allowed};

use super::workloads::Workload;
use crate::manifest::{InputError, Objects, Sources};

/// A budget that has a status keeps it; else all bound pods count as healthy, and all pods, pending ones too, as expected.
pub(super) fn complete(
    objects: &Objects,
    workloads: &[Workload],
    sources: &Sources,
) -> Result<Vec<PodBudget>, InputError> {
    let mut budgets = Vec::with_capacity(objects.budgets.len());
    for written in &objects.budgets {
        let fail = |error| sources.conversion_error(written.origin, &error);
        let mut converted = budget(&written.object).map_err(fail)?;
        let known =
            written.object.status.as_ref().is_some_and(|s| {
                s.expected_pods != 0 || s.disruptions_allowed != 0 || s.desired_healthy != 0
            });
        if !known {
            let (mut expected, mut healthy) = (0, 0);
            for pod in &objects.pods {
                let meta = &pod.object.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or("default");
                if meta.labels.as_ref().is_some_and(|labels| converted.covers(namespace, labels)) {
                    expected += 1;
                    healthy += i32::from(pod.object.spec.as_ref().is_some_and(|s| s.node_name.is_some()));
                }
            }
            for workload in workloads {
                let meta = &workload.pod.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or("default");
                if meta.labels.as_ref().is_some_and(|labels| converted.covers(namespace, labels)) {
                    expected += workload.numbers.end - workload.numbers.start;
                }
            }
            converted.disruptions_allowed =
                implied_disruptions_allowed(&written.object, expected, healthy).map_err(fail)?;
        }
        budgets.push(converted);
    }
    Ok(budgets)
}
