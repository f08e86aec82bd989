//! A small model of everything around the two finalizers: API server, eviction API, kubelet, attach controller, EC2, and
//! a controller that may be killed at any point. The controller's decisions are the real ones.
//!
//! The model checks what must never happen at the moment it would happen; [`super::explore`] walks through all of it.

use super::super::claim::{self, ClaimSeen, ClaimStep};
use super::super::node::{self, ClaimOfNode, Drained, Mark, NodeSeen, NodeStep, Volumes};
use super::super::volumes::Attachment;
use super::super::{Deadline, Instance};
use super::*;

/// The clock moves in these steps, up to [`Scenario::last`].
pub(super) const TICK: i64 = 6;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Machine {
    Running,
    ShuttingDown,
    Gone,
}

/// What the controller keeps in memory about the instance; lost when it is killed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Knows {
    Nothing,
    /// Asked only whether it is there.
    Looking,
    /// Told to end it; no answer yet.
    Telling,
    Running,
    Ending,
    Gone,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct PodState {
    pub(super) there: bool,
    /// End and length of its grace period.
    pub(super) deletion: Option<(i64, i64)>,
    pub(super) protected: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct World {
    pub(super) now: i64,
    pub(super) node: bool,
    node_deleting: bool,
    ready: bool,
    tainted: bool,
    pub(super) claim: bool,
    claim_deleting: bool,
    deadline: Option<i64>,
    /// Condition Drained: 0 absent, 1 Unknown, 2 True.
    drained: u8,
    drained_since: i64,
    volumes: u8,
    terminating: bool,
    pub(super) pods: Vec<PodState>,
    allowed: u8,
    attached: bool,
    pub(super) machine: Machine,
    knows: Knows,
}

pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Templates; `labels[app]` = `db` is covered by the one budget.
    pub(super) pods: Vec<Pod>,
    /// The last pod is bound late, by a scheduler that has not seen the taint.
    pub(super) one_comes_late: bool,
    pub(super) grace_period: Option<i64>,
    pub(super) volume: bool,
    pub(super) by_node: bool,
    pub(super) last: i64,
}

/// One thing that can happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    NodePass,
    /// Killed after the conditions were written, before the step was taken.
    NodePassCutShort,
    ClaimPass,
    Ec2Answers,
    Killed,
    Tick,
    BudgetOpens,
    BudgetCloses,
    PodEnds(usize),
    ProtectionEnds(usize),
    LatePod,
    VolumeDetaches,
    MachineDies,
    ShutdownEnds,
    NotReady,
    ReadyAgain,
}

impl Scenario {
    pub(super) fn start(&self) -> World {
        let late = |index: usize| self.one_comes_late && index + 1 == self.pods.len();
        let pods = self.pods.iter().enumerate().map(|(index, pod)| PodState {
            there: !late(index),
            deletion: None,
            protected: pod.protection(at(0)).is_active(),
        });
        World {
            now: 0,
            node: true,
            node_deleting: self.by_node,
            ready: true,
            tainted: false,
            claim: true,
            claim_deleting: !self.by_node,
            deadline: None,
            drained: 0,
            drained_since: 0,
            volumes: 0,
            terminating: false,
            pods: pods.collect(),
            allowed: 0,
            attached: self.volume,
            machine: Machine::Running,
            knows: Knows::Nothing,
        }
    }

    pub(super) fn events(&self, world: &World) -> Vec<Event> {
        let mut all = vec![
            Event::NodePass,
            Event::NodePassCutShort,
            Event::ClaimPass,
            Event::Ec2Answers,
            Event::Killed,
            Event::BudgetOpens,
            Event::BudgetCloses,
            Event::VolumeDetaches,
            Event::MachineDies,
            Event::ShutdownEnds,
            Event::NotReady,
            Event::ReadyAgain,
            Event::LatePod,
        ];
        if world.now < self.last {
            all.push(Event::Tick);
        }
        all.extend((0..world.pods.len()).flat_map(|n| [Event::PodEnds(n), Event::ProtectionEnds(n)]));
        all
    }

    /// The world afterwards. Panics where something happened that must not.
    pub(super) fn after(&self, world: &World, event: Event) -> World {
        let mut next = world.clone();
        match event {
            Event::NodePass => self.node_pass(&mut next, true),
            Event::NodePassCutShort => self.node_pass(&mut next, false),
            Event::ClaimPass => self.claim_pass(&mut next),
            Event::Ec2Answers => next.ec2_answers(),
            Event::Killed => next.knows = Knows::Nothing,
            Event::Tick => next.now += TICK,
            Event::BudgetOpens => next.allowed = 1,
            Event::BudgetCloses => next.allowed = 0,
            Event::PodEnds(n) if next.pods[n].deletion.is_some() => next.pods[n].there = false,
            Event::ProtectionEnds(n) => next.pods[n].protected = false,
            Event::LatePod if self.one_comes_late && !next.tainted && next.node && next.now == 0 => {
                next.pods.last_mut().unwrap().there = true;
            }
            Event::VolumeDetaches => next.attached = false,
            Event::MachineDies => next.machine = Machine::Gone,
            Event::ShutdownEnds if next.machine == Machine::ShuttingDown => next.machine = Machine::Gone,
            Event::NotReady => next.ready = false,
            // A kubelet can come back only with its machine.
            Event::ReadyAgain if next.machine == Machine::Running => next.ready = true,
            Event::PodEnds(_) | Event::LatePod | Event::ShutdownEnds | Event::ReadyAgain => {}
        }
        next
    }

    fn pod(&self, world: &World, index: usize) -> Pod {
        let state = &world.pods[index];
        let mut pod = self.pods[index].clone();
        pod.deletion = state.deletion.map(|(ends, grace_seconds)| Deletion { ends: at(ends), grace_seconds });
        if !state.protected {
            pod.do_not_disrupt = DoNotDisrupt::Absent;
        }
        pod
    }

    fn covered(&self, index: usize) -> bool {
        self.pods[index].labels.get("app").is_some_and(|app| app == "db")
    }

    fn index_of(&self, pod: &Pod) -> usize {
        self.pods.iter().position(|other| other.uid == pod.uid).unwrap()
    }

    fn node_pass(&self, world: &mut World, whole: bool) {
        if !(world.node && world.node_deleting) {
            return;
        }
        let there: Vec<usize> = (0..world.pods.len()).filter(|n| world.pods[*n].there).collect();
        let pods = arcs(there.iter().map(|n| self.pod(world, *n)));
        let deadline = world.deadline.map_or(Deadline::None, |seconds| Deadline::At(at(seconds)));
        let attachment =
            Attachment { name: "va".into(), volume: Some("pv".into()), claim: None, shown: "vol-1".into() };
        let attachments: Vec<_> = world.attached.then_some(attachment).into_iter().collect();
        let instance = world.instance();
        let seen = NodeSeen {
            ready: world.ready,
            tainted: world.tainted,
            claim: world.claim.then_some(ClaimOfNode {
                deleting: world.claim_deleting,
                deadline: &deadline,
                drained: match world.drained {
                    0 => Drained::NotBegun,
                    1 => Drained::Since(at(world.drained_since)),
                    _ => Drained::Done,
                },
                volumes: [Volumes::NotLooked, Volumes::Awaited, Volumes::Detached, Volumes::Abandoned]
                    [usize::from(world.volumes)],
                instance_terminating: world.terminating,
            }),
            pods: &pods,
            attachments: &attachments,
            instance: &instance,
        };
        let decision = node::next_step(&seen, at(world.now));
        for mark in decision.marks {
            world.mark(mark);
        }
        if !whole {
            return;
        }
        match decision.step {
            NodeStep::DeleteClaim => world.claim_deleting = true,
            NodeStep::LookAtInstance => world.look(),
            NodeStep::Taint => world.tainted = true,
            NodeStep::Pods(plan) => {
                assert!(world.tainted, "pods leave only a tainted node");
                for pod in plan.evict {
                    self.evict(world, self.index_of(&pod));
                }
                for (pod, grace) in plan.delete {
                    self.delete(world, self.index_of(&pod), grace);
                }
            }
            NodeStep::EndInstance => {
                let left = pods.iter().filter(|pod| pod.is_awaited(at(world.now))).count();
                assert_eq!(left, 0, "the instance is ended under pods that are waited for");
                let over = world.deadline.is_some_and(|deadline| world.now >= deadline);
                assert!(!world.attached || over, "the instance is ended with a volume attached");
                world.tell();
            }
            NodeStep::Release => {
                assert!(
                    world.machine == Machine::Gone || !world.claim,
                    "the node is released while its instance may run"
                );
                if world.ready {
                    let left = pods.iter().filter(|pod| pod.is_awaited(at(world.now))).count();
                    assert_eq!(left, 0, "a ready node is released under its pods");
                }
                world.node = false;
            }
            NodeStep::Settle | NodeStep::AwaitVolumes(_) | NodeStep::AwaitInstance | NodeStep::Hold(_) => {}
        }
    }

    /// The eviction API: the budget decides.
    fn evict(&self, world: &mut World, index: usize) {
        assert!(!world.pods[index].protected, "a do-not-disrupt pod is evicted");
        if self.covered(index) {
            if world.allowed == 0 {
                return;
            }
            world.allowed -= 1;
        }
        let grace = self.pods[index].grace_seconds;
        world.pods[index].deletion = Some((world.now + grace, grace));
    }

    fn delete(&self, world: &mut World, index: usize, grace: i64) {
        let deadline = world.deadline.expect("a pod is deleted past its budget without a deadline");
        assert!(world.now > deadline - self.pods[index].grace_seconds, "a pod is deleted before its time");
        assert!(grace >= 1, "a raw delete could leave two pods of one identity");
        let pod = &mut world.pods[index];
        pod.deletion = match pod.deletion {
            None => Some((world.now + grace, grace)),
            Some((ends, old)) if grace < old => Some((ends - old + grace, grace)),
            same => same,
        };
    }

    fn claim_pass(&self, world: &mut World) {
        if !(world.claim && world.claim_deleting) {
            return;
        }
        let deadline = world.deadline.map_or(Deadline::None, |seconds| Deadline::At(at(seconds)));
        let period = self.grace_period.map(model::duration::GoDuration::from_secs);
        let nodes: Vec<(Arc<str>, bool)> =
            world.node.then(|| ("node".into(), world.node_deleting)).into_iter().collect();
        let instance = world.instance();
        let seen = ClaimSeen {
            deleted_at: at(0),
            termination_grace_period: period.as_ref(),
            deadline: &deadline,
            registered: true,
            launched: true,
            nodes: &nodes,
            shared_with: None,
            instance: &instance,
            instance_terminating: world.terminating,
        };
        match claim::next_step(&seen) {
            ClaimStep::StampDeadline(deadline) => {
                world.deadline = Some(deadline.as_second() - at(0).as_second());
            }
            ClaimStep::DeleteNodes(_) => world.node_deleting = true,
            ClaimStep::LookForInstance => world.look(),
            ClaimStep::EndInstance => {
                assert!(!world.node, "the claim ends the instance under its node");
                world.tell();
            }
            ClaimStep::AwaitInstance { mark } => world.terminating |= mark,
            ClaimStep::Release { .. } => {
                assert_eq!(world.machine, Machine::Gone, "the claim is released while its instance may run");
                assert!(!world.node, "the claim is released before its node");
                world.claim = false;
            }
            ClaimStep::AwaitNodes | ClaimStep::Hold(_) => {}
        }
    }
}

impl World {
    fn instance(&self) -> Instance {
        match self.knows {
            Knows::Nothing => Instance::Unasked,
            Knows::Looking | Knows::Telling => Instance::Asking(None),
            Knows::Running => Instance::Running,
            Knows::Ending => Instance::Ending,
            Knows::Gone => Instance::Gone,
        }
    }

    fn look(&mut self) {
        if self.knows == Knows::Nothing {
            self.knows = Knows::Looking;
        }
    }

    fn tell(&mut self) {
        if matches!(self.knows, Knows::Nothing | Knows::Running | Knows::Looking) {
            self.knows = Knows::Telling;
        }
    }

    /// A clean answer. Errors are the absence of this event.
    fn ec2_answers(&mut self) {
        if self.knows == Knows::Telling && self.machine == Machine::Running {
            self.machine = Machine::ShuttingDown;
        }
        self.knows = match (self.knows, self.machine) {
            (Knows::Nothing, _) => Knows::Nothing,
            (_, Machine::Gone) => Knows::Gone,
            (_, Machine::ShuttingDown) => Knows::Ending,
            (_, Machine::Running) => Knows::Running,
        };
    }

    fn mark(&mut self, mark: Mark) {
        assert!(self.claim, "a condition is set on a claim that is gone");
        match mark {
            Mark::Draining => (self.drained, self.drained_since) = (1, self.now),
            Mark::Drained => self.drained = 2,
            Mark::AwaitingVolumes => self.volumes = 1,
            Mark::VolumesDetached => self.volumes = 2,
            Mark::VolumesAbandoned => self.volumes = 3,
            Mark::InstanceTerminating => self.terminating = true,
        }
    }
}
