//! What a pod asks for in all: the arithmetic that kube-scheduler applies to containers, init steps, sidecars, pod-level
//! resources and overhead.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use model::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, Resources};

use super::error::{At, Invalid};
use super::quantities::quantities;

/// `status` matters for pods resized in place: until a resize is through, the larger of asked and allocated counts.
pub(super) fn effective(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    at: &At<'_>,
) -> Result<Resources, Invalid> {
    let containers_at = at.key("containers");
    let statuses = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let mut total = Resources::new();
    for (index, container) in spec.containers.iter().enumerate() {
        total.add(&of_container(container, statuses, &containers_at.index(index))?);
    }

    let init_at = at.key("initContainers");
    let init_statuses = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();
    let mut sidecars = Resources::new();
    let mut largest_step = Resources::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let own = of_container(container, init_statuses, &init_at.index(index))?;
        // A sidecar runs on beside everything that starts after it; an init step ends before the next begins.
        let step = if container.restart_policy.as_deref() == Some("Always") {
            total.add(&own);
            sidecars.add(&own);
            sidecars.clone()
        } else {
            let mut step = own;
            step.add(&sidecars);
            step
        };
        largest_step.max(&step);
    }
    total.max(&largest_step);

    if let Some(resources) = &spec.resources {
        let pod_level = with_limits_as_requests(resources, &at.key("resources"))?;
        for (name, amount) in pod_level.iter().filter(|(name, _)| is_pod_level(name)) {
            total.insert(name, amount);
        }
    }
    total.add(&quantities(spec.overhead.as_ref(), &at.key("overhead"))?);
    Ok(total)
}

/// Only these can be set for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    resource == CPU || resource == MEMORY || resource.starts_with(HUGE_PAGES_PREFIX)
}

fn of_container(
    container: &Container,
    statuses: &[ContainerStatus],
    at: &At<'_>,
) -> Result<Resources, Invalid> {
    let mut wanted = match &container.resources {
        Some(resources) => with_limits_as_requests(resources, &at.key("resources"))?,
        None => Resources::new(),
    };
    let allocated =
        statuses.iter().find(|s| s.name == container.name).and_then(|s| s.allocated_resources.as_ref());
    wanted.max(&quantities(allocated, &At::Root.key("status").key("allocatedResources"))?);
    Ok(wanted)
}

/// The API server's default: a limit without a request is also the request. Done again here for manifests that no API
/// server has seen.
fn with_limits_as_requests(resources: &ResourceRequirements, at: &At<'_>) -> Result<Resources, Invalid> {
    let mut wanted = quantities(resources.requests.as_ref(), &at.key("requests"))?;
    for (name, limit) in quantities(resources.limits.as_ref(), &at.key("limits"))? {
        if !wanted.contains(&name) {
            wanted.insert(name, limit);
        }
    }
    Ok(wanted)
}
