//! The template of a NodePool as the Go structure that is hashed.

use jiff::Timestamp;
use model::duration::{GoDuration, NillableDuration};

use super::go::{self, Struct};
use crate::nodeclass_ref::NodeClassRef;
use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMeta};
use crate::taint::Taint;

pub(super) fn template(template: &NodeClaimTemplate) -> u64 {
    // A value, not a pointer: without labels and annotations it is zero.
    let metadata =
        template.metadata.as_ref().filter(|meta| meta.labels.is_some() || meta.annotations.is_some());
    Struct::new("NodeClaimTemplate")
        .optional("ObjectMeta", metadata, meta)
        .field("Spec", spec(&template.spec))
        .end()
}

fn meta(meta: &TemplateMeta) -> u64 {
    Struct::new("ObjectMeta")
        .optional("Labels", meta.labels.as_ref(), |labels| go::map(labels, |v| go::text(v)))
        .optional("Annotations", meta.annotations.as_ref(), |annotations| {
            go::map(annotations, |v| go::text(v))
        })
        .end()
}

fn spec(spec: &NodeClaimTemplateSpec) -> u64 {
    let expire_after = match &spec.expire_after {
        NillableDuration::Never => None,
        NillableDuration::After(duration) => Some(duration),
    };
    Struct::new("NodeClaimTemplateSpec")
        .optional("Taints", spec.taints.as_ref(), |taints| go::list(taints, taint))
        .optional("StartupTaints", spec.startup_taints.as_ref(), |taints| go::list(taints, taint))
        .field("NodeClassRef", node_class_ref(&spec.node_class_ref))
        .optional("TerminationGracePeriod", spec.termination_grace_period.as_ref(), duration)
        .optional("ExpireAfter", expire_after, |duration| {
            // Holds a pointer, so a zero duration is hashed too.
            Struct::new("NillableDuration").field("Duration", go::int64(duration.nanos())).end()
        })
        .end()
}

fn taint(taint: &Taint) -> u64 {
    Struct::new("Taint")
        .plain_text("Key", &taint.key)
        .plain_text("Value", taint.value.as_deref().unwrap_or_default())
        .plain_text("Effect", taint.effect.as_str())
        .optional("TimeAdded", taint.time_added.as_ref(), |at| time(at.0))
        .end()
}

fn node_class_ref(reference: &NodeClassRef) -> u64 {
    Struct::new("NodeClassReference")
        .plain_text("Kind", &reference.kind)
        .plain_text("Name", &reference.name)
        .plain_text("Group", &reference.group)
        .end()
}

/// `metav1.Duration`, which holds its length as a plain integer.
pub(super) fn duration(duration: &GoDuration) -> u64 {
    let start = Struct::new("Duration");
    match duration.nanos() {
        0 => start,
        nanos => start.field("Duration", go::int64(nanos)),
    }
    .end()
}

/// `metav1.Time`, hashed through Go's binary form of an instant: version, seconds since year 1, nanoseconds, and the offset
/// of the time zone in minutes, which is 0 in the containers the reference runs in.
fn time(at: Timestamp) -> u64 {
    const YEAR_ONE_TO_UNIX: i64 = 62_135_596_800;
    let mut binary = vec![1];
    binary.extend((at.as_second() + YEAR_ONE_TO_UNIX).to_be_bytes());
    binary.extend(at.subsec_nanosecond().to_be_bytes());
    binary.extend(0_i16.to_be_bytes());
    Struct::new("Time").field("Time", go::bytes(&binary)).end()
}
