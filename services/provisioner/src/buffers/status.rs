//! The whole status of a buffer. Pure.

use api::CapacityBuffer;
use api::capacitybuffer::{CapacityBufferStatus, LocalObjectRef};
use api::conditions::{self, Finding};
use jiff::Timestamp;

use super::Placed;
use super::resolve::{Model, Unresolved};

const READY: &str = "ReadyForProvisioning";
const PROVISIONING: &str = "Provisioning";

/// What is known of a buffer.
pub(super) struct Known<'a> {
    pub(super) buffer: &'a CapacityBuffer,
    /// The model, and how many placeholders it comes to.
    pub(super) resolved: Result<(&'a Model, usize), &'a Unresolved>,
    /// `None`: no decision has been made with its placeholders.
    pub(super) placed: Option<Placed>,
}

/// `None` when the buffer says all that already.
pub(super) fn wanted(known: &Known<'_>, now: Timestamp) -> Option<CapacityBufferStatus> {
    let (buffer, generation) = (known.buffer, known.buffer.metadata.generation);
    let mut status = buffer.status.clone().unwrap_or_default();
    let ready = match known.resolved {
        Ok((model, count)) => {
            status.replicas = Some(i32::try_from(count).unwrap_or(i32::MAX));
            status.provisioning_strategy = buffer.spec.provisioning_strategy.clone();
            let of_template = buffer.spec.pod_template_ref.as_ref();
            status.pod_template_ref =
                of_template.map(|own| LocalObjectRef { name: own.name.clone(), ..LocalObjectRef::default() });
            status.pod_template_generation = of_template.and(model.generation);
            Finding::holds_because("Resolved", "")
        }
        Err(why) => Finding::fails(why.reason(), why.message()),
    };
    let provisioning = match (known.resolved, known.placed) {
        (Err(_), _) => Some(Finding::fails(
            "NotReadyForProvisioning",
            "what it stands for is not known, see ReadyForProvisioning",
        )),
        (Ok((_, 0)), _) => Some(Finding::fails("BufferEmpty", "it stands for no pods")),
        (Ok(_), None) => None,
        (Ok(_), Some(Placed { created: 0, lack: 0, .. })) => Some(Finding::holds_because(
            "FitsExistingCapacity",
            "nodes that are there have room for all of it",
        )),
        (Ok(_), Some(Placed { fit, created, lack })) => {
            let (new, all) = (created + lack, fit + created + lack);
            let text = format!("{new} of {all} placeholder(s) need a node that is not there yet");
            Some(Finding::fails("RequiresNewCapacity", text))
        }
    };
    let list = status.conditions.get_or_insert_default();
    conditions::set_plain(list, generation, READY, ready, now);
    if let Some(finding) = provisioning {
        conditions::set_plain(list, generation, PROVISIONING, finding, now);
    }
    (buffer.status.as_ref() != Some(&status)).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(
        resolved: Result<usize, Unresolved>,
        placed: Option<Placed>,
    ) -> Vec<(String, String, String)> {
        let buffer = CapacityBuffer::default();
        let model = Model { template: Default::default(), replicas: None, generation: None };
        let resolved = resolved.as_ref().map(|count| (&model, *count));
        let status = wanted(&Known { buffer: &buffer, resolved, placed }, Timestamp::UNIX_EPOCH).unwrap();
        let line = |c: api::conditions::Condition| (c.type_, c.status.as_str().to_owned(), c.reason);
        status.conditions.unwrap().into_iter().map(line).collect()
    }

    fn pair(status: &str, reason: &str) -> (String, String, String) {
        (PROVISIONING.to_owned(), status.to_owned(), reason.to_owned())
    }

    // Cases: SCH-M.4-13, SCH-M.4-14, SCH-M.4-16, SCH-M.4-17
    #[test]
    fn it_says_whether_its_room_is_there() {
        let fits = findings(Ok(2), Some(Placed { fit: 2, created: 0, lack: 0 }));
        assert!(fits.contains(&pair("True", "FitsExistingCapacity")), "{fits:?}");
        for placed in [Placed { fit: 1, created: 0, lack: 1 }, Placed { fit: 1, created: 1, lack: 0 }] {
            let lacks = findings(Ok(2), Some(placed));
            assert!(lacks.contains(&pair("False", "RequiresNewCapacity")), "{lacks:?}");
        }
        let empty = findings(Ok(0), None);
        assert!(empty.contains(&pair("False", "BufferEmpty")), "{empty:?}");
        assert_eq!(findings(Ok(2), None).len(), 1, "before any decision nothing is said");
    }

    // Cases: SCH-M.1-2, SCH-M.4-15
    #[test]
    fn a_missing_template_is_named_in_both_conditions() {
        let lost = findings(Err(Unresolved::TemplateNotFound("there is no PodTemplate t".into())), None);
        assert!(lost.contains(&(READY.to_owned(), "False".to_owned(), "PodTemplateNotFound".to_owned())));
        assert!(lost.contains(&pair("False", "NotReadyForProvisioning")), "{lost:?}");
    }
}
