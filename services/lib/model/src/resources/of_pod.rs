//! What a pod asks for in all, from its containers: the arithmetic of the Kubernetes scheduler.

use super::{CPU, HUGE_PAGES_PREFIX, MEMORY, Resources};

/// One container's resources as far as scheduling looks at them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    pub requests: Resources,
    /// In a resize: what the kubelet has set aside and what the container now runs with. `None` when the status does not
    /// say.
    pub in_use: Option<Resources>,
    /// An init container that keeps running beside the others. Plays no part among ordinary containers.
    pub is_sidecar: bool,
}

impl Container {
    #[must_use]
    pub fn new(requests: Resources) -> Self {
        Self { requests, ..Self::default() }
    }

    #[must_use]
    pub fn sidecar(requests: Resources) -> Self {
        Self { requests, is_sidecar: true, ..Self::default() }
    }

    /// Requests are filled up from limits, resource by resource. The API server does this for pods, but not for the
    /// template of a DaemonSet.
    pub fn default_requests_from(&mut self, limits: &Resources) {
        default_from(&mut self.requests, limits);
    }

    /// While a resize is under way the larger of old and new counts; when it cannot be done, only the old.
    fn effective(&self, resize_is_infeasible: bool) -> Resources {
        match &self.in_use {
            None => self.requests.clone(),
            Some(in_use) if resize_is_infeasible => in_use.clone(),
            Some(in_use) => {
                let mut larger = self.requests.clone();
                larger.max(in_use);
                larger
            }
        }
    }
}

/// Everything that a pod's requests follow from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodParts {
    pub containers: Vec<Container>,
    /// In the order they start.
    pub init_containers: Vec<Container>,
    /// Requests set for the pod as a whole; they win over the sum for cpu, memory and huge pages.
    pub pod_requests: Resources,
    /// What the runtime class adds.
    pub overhead: Resources,
    /// The kubelet reported that a pending resize can never be done on this node.
    pub resize_is_infeasible: bool,
}

impl PodParts {
    /// The most the pod needs at any moment. Containers and sidecars run together; each init container runs beside the
    /// sidecars started before it. Without `pods`: that every pod counts as one is known to who counts pods.
    #[must_use]
    pub fn requests(&self) -> Resources {
        let mut running = Resources::new();
        for container in &self.containers {
            running.add(&container.effective(self.resize_is_infeasible));
        }
        let mut sidecars = Resources::new();
        let mut starting = Resources::new();
        for container in &self.init_containers {
            // Only sidecars can be resized; other init containers are over by then.
            if container.is_sidecar {
                let requests = container.effective(self.resize_is_infeasible);
                running.add(&requests);
                sidecars.add(&requests);
                starting.max(&sidecars);
            } else {
                let mut step = container.requests.clone();
                step.add(&sidecars);
                starting.max(&step);
            }
        }
        running.max(&starting);
        for (name, amount) in self.pod_requests.iter().filter(|(name, _)| can_be_set_for_a_pod(name)) {
            running.insert(name, amount);
        }
        running.add(&self.overhead);
        running
    }

    /// Pod-level requests are filled up from pod-level limits.
    pub fn default_pod_requests_from(&mut self, limits: &Resources) {
        default_from(&mut self.pod_requests, limits);
    }
}

fn default_from(requests: &mut Resources, limits: &Resources) {
    for (name, amount) in limits.iter() {
        if !requests.contains(name) {
            requests.insert(name, amount);
        }
    }
}

fn can_be_set_for_a_pod(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES_PREFIX)
}
