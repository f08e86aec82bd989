//! What a pod asks for in all, read for the arithmetic that kube-scheduler applies to containers, init steps, sidecars,
//! pod-level resources, overhead and resizes in place ([`PodParts`]).

use k8s_openapi::api::core::v1::{self as core, ContainerStatus, PodSpec, PodStatus};
use model::resources::{Container, PodParts, Resources};

use super::error::{At, Invalid};
use super::quantities::quantities;

/// `status` matters for pods resized in place.
pub(super) fn effective(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    at: &At<'_>,
) -> Result<Resources, Invalid> {
    let statuses = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let init_statuses = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();
    let mut parts = PodParts {
        containers: containers(&spec.containers, statuses, &at.key("containers"))?,
        init_containers: containers(
            spec.init_containers.as_deref().unwrap_or_default(),
            init_statuses,
            &at.key("initContainers"),
        )?,
        overhead: quantities(spec.overhead.as_ref(), &at.key("overhead"))?,
        resize_is_infeasible: status.is_some_and(resize_is_infeasible),
        ..PodParts::default()
    };
    if let Some(resources) = &spec.resources {
        let at = at.key("resources");
        parts.pod_requests = quantities(resources.requests.as_ref(), &at.key("requests"))?;
        parts.default_pod_requests_from(&quantities(resources.limits.as_ref(), &at.key("limits"))?);
    }
    Ok(parts.requests())
}

fn containers(
    all: &[core::Container],
    statuses: &[ContainerStatus],
    at: &At<'_>,
) -> Result<Vec<Container>, Invalid> {
    let of = |(index, container): (usize, &core::Container)| {
        let here = at.index(index);
        let mut out = Container { is_sidecar: is_sidecar(container), ..Container::default() };
        if let Some(resources) = &container.resources {
            let at = here.key("resources");
            out.requests = quantities(resources.requests.as_ref(), &at.key("requests"))?;
            // The API server's default, for manifests that no API server has seen.
            out.default_requests_from(&quantities(resources.limits.as_ref(), &at.key("limits"))?);
        }
        out.in_use = in_use(statuses.iter().find(|status| status.name == container.name))?;
        Ok(out)
    };
    all.iter().enumerate().map(of).collect()
}

/// An init container that keeps running beside the others.
pub(super) fn is_sidecar(container: &core::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What the kubelet has set aside for the container, and what it runs with. `None` where the status says neither.
fn in_use(status: Option<&ContainerStatus>) -> Result<Option<Resources>, Invalid> {
    let allocated = status.and_then(|s| s.allocated_resources.as_ref());
    let running = status.and_then(|s| s.resources.as_ref()).and_then(|r| r.requests.as_ref());
    if allocated.is_none() && running.is_none() {
        return Ok(None);
    }
    let at = At::Root.key("status");
    let mut in_use = quantities(allocated, &at.key("allocatedResources"))?;
    in_use.max(&quantities(running, &at.key("resources"))?);
    Ok(Some(in_use))
}

/// As the condition PodResizePending says it, and `status.resize` before Kubernetes 1.33.
fn resize_is_infeasible(status: &PodStatus) -> bool {
    const INFEASIBLE: &str = "Infeasible";
    let pending = |c: &&core::PodCondition| c.type_ == "PodResizePending" && c.status == "True";
    let condition = status.conditions.iter().flatten().find(pending);
    condition.and_then(|c| c.reason.as_deref()) == Some(INFEASIBLE)
        || status.resize.as_deref() == Some(INFEASIBLE)
}
