use model::duration::GoDuration;

use super::super::claim::{ClaimSeen, ClaimStep, next_step};
use super::super::{Deadline, Instance};
use super::*;

fn seen<'a>(instance: &'a Instance, deadline: &'a Deadline) -> ClaimSeen<'a> {
    ClaimSeen {
        deleted_at: at(0),
        termination_grace_period: None,
        deadline,
        registered: true,
        launched: true,
        nodes: &[],
        shared_with: None,
        instance,
        instance_terminating: false,
    }
}

// Cases: FIN-15, FIN-16, FIN-17
#[test]
fn the_deadline_is_deletion_plus_grace_period_and_never_changed_afterwards() {
    let period = GoDuration::from_secs(300);
    let stamp = |deadline: Deadline| {
        next_step(&ClaimSeen {
            termination_grace_period: Some(&period),
            ..seen(&Instance::Running, &deadline)
        })
    };
    assert_eq!(stamp(Deadline::None), ClaimStep::StampDeadline(at(300)));
    assert_eq!(stamp(Deadline::At(at(7))), ClaimStep::EndInstance);
    assert_eq!(stamp(Deadline::Unreadable("soon".into())), ClaimStep::EndInstance);
    assert_eq!(
        next_step(&seen(&Instance::Running, &Deadline::None)),
        ClaimStep::EndInstance,
        "no period, no stamp"
    );
    let zero = GoDuration::from_secs(0);
    let none = Deadline::None;
    let at_once = ClaimSeen { termination_grace_period: Some(&zero), ..seen(&Instance::Running, &none) };
    assert_eq!(next_step(&at_once), ClaimStep::StampDeadline(at(0)));
}

// Cases: EVQ-16
#[test]
fn an_asked_for_deadline_only_ever_brings_it_forward() {
    assert_eq!(Deadline::At(at(5)).earlier(Some(at(9))), Some(at(5)));
    assert_eq!(Deadline::At(at(5)).earlier(Some(at(1))), Some(at(1)));
    assert_eq!(Deadline::None.earlier(Some(at(9))), Some(at(9)));
    assert_eq!(Deadline::Unreadable("x".into()).earlier(None), None);
    assert_eq!(
        Deadline::parse(Some("2026-11-16T04:57:00Z")).at().map(|at| at.to_string()).as_deref(),
        Some("2026-11-16T04:57:00Z")
    );
    assert_eq!(
        Deadline::parse(Some("2026-11-16T06:57:00+02:00")),
        Deadline::parse(Some("2026-11-16T04:57:00Z"))
    );
}

// Cases: FIN-5, FIN-11, FIN-12, FIN-18
#[test]
fn all_nodes_of_a_registered_claim_are_deleted_and_awaited() {
    let (one, two): ((Arc<str>, bool), (Arc<str>, bool)) = (("a".into(), true), ("b".into(), false));
    let nodes = [one.clone(), two];
    let base = seen(&Instance::Running, &Deadline::None);
    assert_eq!(
        next_step(&ClaimSeen { nodes: &nodes, ..base.clone() }),
        ClaimStep::DeleteNodes(vec!["b".into()])
    );
    assert_eq!(next_step(&ClaimSeen { nodes: &[one], ..base.clone() }), ClaimStep::AwaitNodes);
    let unregistered = ClaimSeen { nodes: &nodes, registered: false, ..base };
    assert_eq!(next_step(&unregistered), ClaimStep::EndInstance, "its nodes are left alone");
}

// Cases: FIN-10
#[test]
fn only_a_clean_answer_that_the_instance_is_gone_releases_the_claim() {
    let none = Deadline::None;
    for (instance, expected) in [
        (Instance::Unasked, ClaimStep::EndInstance),
        (Instance::Running, ClaimStep::EndInstance),
        (Instance::Asking(None), ClaimStep::AwaitInstance { mark: false }),
        (Instance::Asking(Some("throttled".into())), ClaimStep::AwaitInstance { mark: false }),
        (Instance::Ending, ClaimStep::AwaitInstance { mark: true }),
        (Instance::Untouchable("not ours".into()), ClaimStep::Hold("not ours".into())),
        (Instance::Gone, ClaimStep::Release { kept_by: None }),
    ] {
        assert_eq!(next_step(&seen(&instance, &none)), expected, "{instance:?}");
    }
}

// Cases: FIN-13
#[test]
fn a_claim_without_provider_id_is_released_only_after_a_look_for_a_launch_that_was_not_noted() {
    let none = Deadline::None;
    let unlaunched = |instance: &Instance| {
        next_step(&ClaimSeen { launched: false, registered: false, ..seen(instance, &none) })
    };
    assert_eq!(unlaunched(&Instance::Unasked), ClaimStep::LookForInstance);
    assert_eq!(unlaunched(&Instance::Running), ClaimStep::EndInstance);
    assert_eq!(unlaunched(&Instance::Gone), ClaimStep::Release { kept_by: None });
}

#[test]
fn a_claim_that_shares_its_instance_leaves_it_to_the_other() {
    let nodes: [(Arc<str>, bool); 1] = [("a".into(), false)];
    let none = Deadline::None;
    for instance in [Instance::Unasked, Instance::Running] {
        let shared = ClaimSeen { nodes: &nodes, shared_with: Some("other"), ..seen(&instance, &none) };
        assert_eq!(next_step(&shared), ClaimStep::Release { kept_by: Some("other".into()) });
    }
}
