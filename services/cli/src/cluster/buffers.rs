//! CapacityBuffers to placeholder pods.

use api::convert::{FieldPath, Step, virtual_pods};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::pod::Pod;

use crate::manifest::{InputError, Named, Objects, Sources};

pub(super) fn pods(objects: &Objects, sources: &Sources) -> Result<Vec<Pod>, InputError> {
    let mut pods = Vec::new();
    for buffer in &objects.capacity_buffers {
        let meta = &buffer.object.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let spec = &buffer.object.spec;
        let (field, name, found) = if let Some(reference) = &spec.pod_template_ref {
            let found = named(&objects.pod_templates, namespace, &reference.name, |t| &t.metadata)
                .and_then(|t| t.template.clone().map(|template| (template, None)));
            ("podTemplateRef", reference.name.clone(), found)
        } else if let Some(reference) = &spec.scalable_ref {
            (
                "scalableRef",
                reference.name.clone(),
                scalable(objects, namespace, &reference.kind, &reference.name),
            )
        } else {
            ("podTemplateRef", String::new(), None)
        };
        let Some((template, replicas)) = found else {
            let path = FieldPath(vec![Step::Key("spec".to_owned()), Step::Key(field.to_owned())]);
            let object = format!("CapacityBuffer {namespace}/{}", meta.name.as_deref().unwrap_or_default());
            let problem = format!("{name:?} is not in the input");
            return Err(sources.error(buffer.origin, &object, &path, &problem));
        };
        let made = virtual_pods(&buffer.object, &template, replicas)
            .map_err(|error| sources.conversion_error(buffer.origin, &error))?;
        pods.extend(made);
    }
    Ok(pods)
}

/// Template and replicas of a workload.
fn scalable(
    objects: &Objects,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Option<(PodTemplateSpec, Option<i32>)> {
    match kind {
        "Deployment" => {
            let spec = named(&objects.deployments, namespace, name, |d| &d.metadata)?.spec.as_ref()?;
            Some((spec.template.clone(), Some(spec.replicas.unwrap_or(1))))
        }
        "StatefulSet" => {
            let spec = named(&objects.stateful_sets, namespace, name, |s| &s.metadata)?.spec.as_ref()?;
            Some((spec.template.clone(), Some(spec.replicas.unwrap_or(1))))
        }
        "ReplicaSet" => {
            let spec = named(&objects.replica_sets, namespace, name, |r| &r.metadata)?.spec.as_ref()?;
            Some((spec.template.clone()?, Some(spec.replicas.unwrap_or(1))))
        }
        _ => None,
    }
}

fn named<'a, T>(
    list: &'a [Named<T>],
    namespace: &str,
    name: &str,
    meta: impl Fn(&T) -> &ObjectMeta,
) -> Option<&'a T> {
    let is = |meta: &ObjectMeta| {
        meta.name.as_deref() == Some(name) && meta.namespace.as_deref().unwrap_or("default") == namespace
    };
    list.iter().map(|n| &n.object).find(|o| is(meta(o)))
}
