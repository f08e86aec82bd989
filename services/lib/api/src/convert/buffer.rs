//! CapacityBuffers: how many placeholder pods they stand for, and what those look like.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use model::pod::{Pod, PodSpec};
use model::quantity::Quantity;

use super::error::{At, Error};
use super::pod_spec::pod_spec;
use super::quantities::amounts;
use crate::capacitybuffer::CapacityBuffer;

/// Number of placeholders. `workload_replicas` is that of the scalable object the buffer refers to, if it refers to one.
/// Fixed number and percentage combine by the larger; limits cap both, or alone decide.
pub fn buffer_replicas(
    buffer: &CapacityBuffer,
    workload_replicas: Option<i32>,
    spec: &PodSpec,
) -> Result<u32, Error> {
    let at = At::Root;
    let spec_at = at.key("spec");
    let limits = amounts(buffer.spec.limits.as_ref(), &spec_at.key("limits")).map_err(|i| of(buffer, i))?;
    let share = buffer.spec.percentage.zip(workload_replicas).filter(|(_, replicas)| *replicas > 0).map(
        |(percent, replicas)| {
            let count = (i64::from(percent.max(0)) * i64::from(replicas) + 99) / 100;
            i32::try_from(count).unwrap_or(i32::MAX)
        },
    );
    let wanted = buffer.spec.replicas.max(share).map(|count| u32::try_from(count).unwrap_or(0));
    let room = limits
        .iter()
        .filter_map(|(name, limit)| {
            let each: Quantity = spec.requests.get(name);
            (!each.is_zero() && !each.is_negative())
                .then(|| u32::try_from((limit.nano() / each.nano()).max(0)).unwrap_or(u32::MAX))
        })
        .min();
    Ok(match (wanted, room) {
        (Some(wanted), Some(room)) => wanted.min(room),
        (Some(count), None) | (None, Some(count)) => count,
        (None, None) => 0,
    })
}

/// The placeholders: `capacity-buffer-<buffer>-<i>` from 1, without volumes, of the least priority.
pub fn virtual_pods(
    buffer: &CapacityBuffer,
    template: &PodTemplateSpec,
    workload_replicas: Option<i32>,
) -> Result<Vec<Pod>, Error> {
    let meta = &buffer.metadata;
    let namespace: Arc<str> = Arc::from(meta.namespace.as_deref().unwrap_or("default"));
    let name = meta.name.as_deref().unwrap_or_default();
    let uid = meta.uid.as_deref().unwrap_or(name);
    let written = template.spec.clone().unwrap_or_default();
    let labels = template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    let at = At::Root;
    let template_at = at.key("template");
    let mut spec = pod_spec(labels, &written, None, &|_| None, &template_at.key("spec"))
        .map_err(|invalid| of(buffer, invalid))?;
    spec.priority = i32::MIN;
    let count = buffer_replicas(buffer, workload_replicas, &spec)?;
    let spec = Arc::new(spec);
    Ok((1..=count)
        .map(|index| Pod {
            namespace: namespace.clone(),
            name: Arc::from(format!("capacity-buffer-{name}-{index}")),
            uid: Arc::from(format!("{uid}-{index}")),
            created: 0,
            node: None,
            spec: spec.clone(),
            volumes: Vec::new(),
            terminating: false,
            bound_to_node: false,
            daemon: false,
            reschedulable: false,
            do_not_disrupt: false,
            buffer: true,
            rejected: None,
        })
        .collect())
}

fn of(buffer: &CapacityBuffer, invalid: super::error::Invalid) -> Error {
    invalid.of("CapacityBuffer", buffer.metadata.namespace.as_deref(), buffer.metadata.name.as_deref())
}
