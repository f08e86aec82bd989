//! What a buffer stands for: which template, how many placeholders, or why neither can be said. Pure.

use api::CapacityBuffer;
use api::convert::virtual_pods;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use model::pod::Pod;

/// The pods that a buffer is made in the image of.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) template: PodTemplateSpec,
    /// Replicas of the workload; `None` for a PodTemplate.
    pub(super) replicas: Option<i32>,
    /// Of the PodTemplate.
    pub(super) generation: Option<i64>,
}

/// Where to look for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    Template(&'a str),
    Workload { kind: Workload, name: &'a str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Deployment,
    StatefulSet,
    ReplicaSet,
}

/// Why a buffer stands for nothing; the reference's reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    TemplateNotFound(String),
    WorkloadNotFound(String),
    Failed(String),
}

impl Unresolved {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::TemplateNotFound(_) => "PodTemplateNotFound",
            Self::WorkloadNotFound(_) => "ScalableRefNotFound",
            Self::Failed(_) => "ResolutionFailed",
        }
    }

    pub(super) fn message(&self) -> &str {
        match self {
            Self::TemplateNotFound(text) | Self::WorkloadNotFound(text) | Self::Failed(text) => text,
        }
    }
}

pub(super) fn reference(buffer: &CapacityBuffer) -> Result<Reference<'_>, Unresolved> {
    match (&buffer.spec.pod_template_ref, &buffer.spec.scalable_ref) {
        (Some(template), _) => Ok(Reference::Template(&template.name)),
        (None, Some(scalable)) => {
            let group = scalable.api_group.as_deref().filter(|group| !group.is_empty()).unwrap_or("apps");
            let kind = match (group, scalable.kind.as_str()) {
                ("apps", "Deployment") => Workload::Deployment,
                ("apps", "StatefulSet") => Workload::StatefulSet,
                ("apps", "ReplicaSet") => Workload::ReplicaSet,
                (group, kind) => {
                    let text = format!(
                        "scalableRef {group}/{kind} is not supported; apps/Deployment, apps/StatefulSet and apps/ReplicaSet are"
                    );
                    return Err(Unresolved::Failed(text));
                }
            };
            Ok(Reference::Workload { kind, name: &scalable.name })
        }
        (None, None) => Err(Unresolved::Failed("neither podTemplateRef nor scalableRef is set".to_owned())),
    }
}

pub(super) fn pods(buffer: &CapacityBuffer, model: &Model) -> Result<Vec<Pod>, Unresolved> {
    virtual_pods(buffer, &model.template, model.replicas)
        .map_err(|error| Unresolved::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn buffer(spec: Value) -> CapacityBuffer {
        serde_json::from_value(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "b", "namespace": "n", "uid": "u"}, "spec": spec,
        }))
        .unwrap()
    }

    // Cases: SCH-M.1-5, SCH-M.1-6, SCH-M.1-7
    #[test]
    fn an_empty_group_means_apps_and_other_kinds_are_refused_by_name() {
        let own = buffer(json!({"scalableRef": {"kind": "StatefulSet", "name": "db"}}));
        let wanted = Reference::Workload { kind: Workload::StatefulSet, name: "db" };
        assert_eq!(reference(&own), Ok(wanted));
        let job = buffer(json!({"scalableRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}}));
        let why = reference(&job).unwrap_err();
        assert_eq!(why.reason(), "ResolutionFailed");
        assert!(why.message().contains("batch/Job"), "{why:?}");
        assert_eq!(reference(&buffer(json!({}))).unwrap_err().reason(), "ResolutionFailed");
    }

    // Cases: SCH-M.1-15, SCH-M.2-21, SCH-M.2-22, SCH-M.3-4
    #[test]
    fn placeholders_follow_the_larger_of_number_and_share_and_carry_no_volumes() {
        let template: PodTemplateSpec = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        }}))
        .unwrap();
        let model = Model { template, replicas: Some(10), generation: None };
        let own = buffer(
            json!({"replicas": 2, "percentage": 25, "scalableRef": {"kind": "Deployment", "name": "d"}}),
        );
        let made = pods(&own, &model).unwrap();
        assert_eq!(made.len(), 3);
        assert_eq!((&*made[0].name, &*made[2].uid), ("capacity-buffer-b-1", "u-3"));
        assert!(made.iter().all(|pod| pod.buffer && pod.volumes.is_empty()));
        let capped =
            buffer(json!({"replicas": 5, "limits": {"cpu": "2500m"}, "podTemplateRef": {"name": "t"}}));
        assert_eq!(pods(&capped, &model).unwrap().len(), 2);
    }
}
