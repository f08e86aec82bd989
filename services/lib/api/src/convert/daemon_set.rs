//! A DaemonSet, as overhead of the nodes it runs on.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet as ApiDaemonSet;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use model::pool::DaemonSet;

use super::error::{At, Error};
use super::pod_spec::pod_spec;

/// `newest` is the newest pod of the set, where there is one: it shows what admission made of the template. Its required
/// node affinity pins it to its node, so that part always comes from the template.
pub fn daemon_set(
    object: &ApiDaemonSet,
    newest: Option<&Pod>,
    priority_class: &dyn Fn(&str) -> Option<i32>,
) -> Result<DaemonSet, Error> {
    let meta = &object.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let name = meta.name.as_deref().unwrap_or_default();
    let template = object.spec.as_ref().map(|s| &s.template);
    let root = At::Root;
    let (spec_at, key) = (root.key("spec"), "template");
    let template_at = spec_at.key(key);
    let inner_at = template_at.key("spec");
    let empty = PodSpec::default();
    let own = template.and_then(|t| t.spec.as_ref()).unwrap_or(&empty);
    let labels = template.and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    let mut spec = pod_spec(labels, own, None, priority_class, &inner_at)
        .map_err(|invalid| invalid.of("DaemonSet", Some(namespace), Some(name)))?;
    if let Some((pod, running)) = newest.and_then(|pod| Some((pod, pod.spec.as_ref()?))) {
        let affinity = std::mem::take(&mut spec.required_node_affinity);
        spec = pod_spec(pod.metadata.labels.as_ref(), running, None, priority_class, &spec_at)
            .map_err(|invalid| invalid.of("Pod", Some(namespace), pod.metadata.name.as_deref()))?;
        spec.required_node_affinity = affinity;
    }
    Ok(DaemonSet { namespace: Arc::from(namespace), name: Arc::from(name), pod: Arc::new(spec) })
}
