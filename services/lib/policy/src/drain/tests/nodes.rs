use super::super::node::{ClaimOfNode, Drained, Mark, NodeDecision, NodeSeen, NodeStep, Volumes, next_step};
use super::super::volumes::{Attachment, awaited};
use super::super::{Deadline, Instance};
use super::*;

struct Scene {
    ready: bool,
    tainted: bool,
    claim: bool,
    claim_deleting: bool,
    deadline: Deadline,
    drained: Drained,
    volumes: Volumes,
    terminating: bool,
    pods: Vec<Arc<Pod>>,
    attachments: Vec<Attachment>,
    instance: Instance,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            ready: true,
            tainted: true,
            claim: true,
            claim_deleting: true,
            deadline: Deadline::None,
            drained: Drained::Since(at(-60)),
            volumes: Volumes::NotLooked,
            terminating: false,
            pods: Vec::new(),
            attachments: Vec::new(),
            instance: Instance::Unasked,
        }
    }
}

impl Scene {
    fn decide(&self, now: Timestamp) -> NodeDecision {
        let claim = self.claim.then_some(ClaimOfNode {
            deleting: self.claim_deleting,
            deadline: &self.deadline,
            drained: self.drained,
            volumes: self.volumes,
            instance_terminating: self.terminating,
        });
        let seen = NodeSeen {
            ready: self.ready,
            tainted: self.tainted,
            claim,
            pods: &self.pods,
            attachments: &self.attachments,
            instance: &self.instance,
        };
        next_step(&seen, now)
    }

    fn step(&self) -> NodeStep {
        self.decide(at(0)).step
    }
}

fn attachment(name: &str, claim: &str) -> Attachment {
    Attachment {
        name: name.into(),
        volume: Some(format!("pv-{name}").into()),
        claim: Some(("shop".into(), claim.into())),
        shown: format!("vol-{name}").into(),
    }
}

// Cases: TRM-5
#[test]
fn the_claim_is_deleted_first_when_only_the_node_was() {
    let scene = Scene { claim_deleting: false, tainted: false, ready: false, ..Scene::default() };
    assert_eq!(scene.step(), NodeStep::DeleteClaim);
}

#[test]
fn an_untainted_node_is_tainted_before_any_eviction() {
    let scene = Scene { tainted: false, pods: arcs([pod("a")]), ..Scene::default() };
    assert_eq!(scene.step(), NodeStep::Taint);
}

// Cases: TRM-18, TRM-19
#[test]
fn a_dead_node_goes_at_once_and_a_ready_one_never_without_a_drain() {
    let dead = Scene { ready: false, tainted: false, pods: arcs([pod("a")]), ..Scene::default() };
    assert_eq!(dead.step(), NodeStep::LookAtInstance);
    assert_eq!(Scene { instance: Instance::Gone, ..dead }.step(), NodeStep::Release);
    let alive = Scene { instance: Instance::Gone, pods: arcs([pod("a")]), ..Scene::default() };
    assert!(matches!(alive.step(), NodeStep::Pods(_)));
}

#[test]
fn an_ec2_that_does_not_answer_does_not_hold_up_the_drain_of_a_dead_node() {
    let failing = Instance::Asking(Some("DescribeInstances: RequestLimitExceeded".into()));
    let scene = Scene { ready: false, instance: failing, pods: arcs([pod("a")]), ..Scene::default() };
    assert!(matches!(scene.step(), NodeStep::Pods(_)));
}

// Cases: TRM-1, TRM-25
#[test]
fn an_empty_node_is_watched_for_five_seconds_before_it_counts_as_drained() {
    let fresh = Scene { drained: Drained::NotBegun, ..Scene::default() }.decide(at(0));
    assert_eq!(
        fresh,
        NodeDecision { marks: vec![Mark::Draining], step: NodeStep::Settle, look_again: Some(at(5)) }
    );
    let scene = Scene { drained: Drained::Since(at(0)), ..Scene::default() };
    assert_eq!(scene.decide(at(4)).step, NodeStep::Settle);
    let later = scene.decide(at(5));
    assert_eq!(later.marks, [Mark::Drained, Mark::VolumesDetached]);
    assert_eq!(later.step, NodeStep::EndInstance);
}

#[test]
fn a_pod_that_comes_after_the_drain_is_drained_too() {
    let scene = Scene { drained: Drained::Done, pods: arcs([pod("late")]), ..Scene::default() };
    assert!(matches!(scene.step(), NodeStep::Pods(_)));
}

// Cases: TRM-2
#[test]
fn a_node_without_claim_is_drained_and_released_without_touching_an_instance() {
    let with_pod = Scene { claim: false, pods: arcs([pod("a")]), ..Scene::default() };
    assert!(matches!(with_pod.step(), NodeStep::Pods(_)));
    let decision = Scene { claim: false, ..Scene::default() }.decide(at(0));
    assert_eq!(decision, NodeDecision::from(NodeStep::Release));
}

// Cases: TRM-26, TRM-28
#[test]
fn volumes_are_awaited_until_they_go_or_the_deadline_passes() {
    let mut scene = Scene {
        drained: Drained::Done,
        attachments: vec![attachment("one", "data")],
        deadline: Deadline::At(at(100)),
        ..Scene::default()
    };
    let waits = scene.decide(at(99));
    assert_eq!(waits.marks, [Mark::AwaitingVolumes]);
    assert!(matches!(&waits.step, NodeStep::AwaitVolumes(all) if all.len() == 1));
    assert_eq!(waits.look_again, Some(at(100)));
    let over = scene.decide(at(100));
    assert_eq!((over.marks, over.step), (vec![Mark::VolumesAbandoned], NodeStep::EndInstance));
    scene.deadline = Deadline::None;
    assert!(matches!(scene.decide(at(1_000_000)).step, NodeStep::AwaitVolumes(_)), "without end");
}

// Cases: TRM-27
#[test]
fn inline_volumes_and_those_of_pods_that_stay_are_not_awaited() {
    let mut stays = pod("stays");
    stays.tolerates_disrupted = true;
    stays.volume_claims = vec!["data".into()];
    let pods = arcs([stays]);
    let inline = Attachment { volume: None, claim: None, ..attachment("inline", "x") };
    let all = [attachment("one", "data"), inline, attachment("two", "other")];
    let left = awaited(&all, &pods, at(0));
    assert_eq!(left.iter().map(|a| &*a.name).collect::<Vec<_>>(), ["two"]);
    let unbound = Attachment { claim: None, ..attachment("three", "x") };
    assert_eq!(awaited(&[unbound], &pods, at(0)).len(), 1, "its claim is gone, the volume is not");
}

// Cases: TRM-1, TRM-5
#[test]
fn the_node_stays_until_the_instance_is_gone() {
    let drained = |instance: Instance| {
        Scene { drained: Drained::Done, volumes: Volumes::Detached, instance, ..Scene::default() }
            .decide(at(0))
    };
    assert_eq!(drained(Instance::Unasked).step, NodeStep::EndInstance);
    assert_eq!(drained(Instance::Running).step, NodeStep::EndInstance);
    assert_eq!(drained(Instance::Asking(None)).step, NodeStep::AwaitInstance);
    assert_eq!(drained(Instance::Ending).step, NodeStep::AwaitInstance);
    assert_eq!(drained(Instance::Ending).marks, [Mark::InstanceTerminating]);
    assert_eq!(drained(Instance::Gone).step, NodeStep::Release);
    assert_eq!(drained(Instance::Gone).marks, [Mark::InstanceTerminating], "before the node goes");
    assert_eq!(drained(Instance::Untouchable("why".into())).step, NodeStep::Hold("why".into()));
}

#[test]
fn an_unreadable_deadline_counts_as_none() {
    let pods = arcs([pod("a").protected("true")]);
    let scene = Scene { deadline: Deadline::Unreadable("tomorrow".into()), pods, ..Scene::default() };
    assert!(matches!(scene.step(), NodeStep::Pods(plan) if plan.delete.is_empty() && plan.awaited == 1));
}

#[test]
fn a_drain_noted_by_a_clock_that_is_ahead_does_not_hold_the_node() {
    let drained = |seconds| Scene { drained: Drained::Since(at(seconds)), ..Scene::default() };
    assert_eq!(drained(-1).step(), NodeStep::Settle, "just begun");
    assert_eq!(drained(2).step(), NodeStep::Settle, "two clocks are never quite equal");
    assert_eq!(drained(3600).step(), NodeStep::EndInstance, "an hour ahead says nothing");
}

#[test]
fn a_node_that_ec2_cannot_be_asked_about_is_drained_although_it_is_not_ready() {
    let untouchable = Instance::Untouchable("no provider id".into());
    let held = Scene {
        ready: false,
        claim: false,
        instance: untouchable.clone(),
        pods: arcs([pod("a")]),
        ..Scene::default()
    };
    assert!(matches!(held.step(), NodeStep::Pods(_)));
    let empty = Scene { pods: Vec::new(), ..held };
    assert_eq!(empty.step(), NodeStep::Release);
    let claimed = Scene { ready: false, instance: untouchable, ..Scene::default() };
    assert!(matches!(claimed.step(), NodeStep::Hold(_)), "with a claim the instance may run");
}
