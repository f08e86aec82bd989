//! Every interleaving around a claim that is deleted at any point of its life: before, during and after its launch, before and
//! after its node registered, alone or with another claim on the same instance. The launch, the provisioner's notes, EC2's
//! lag and a controller that is killed are modelled; the claim's steps and the collector's verdicts are the real ones.

use std::collections::BTreeSet;

use super::super::claim::{ClaimSeen, ClaimStep, next_step};
use super::super::collect::{ClaimRef, InstanceSeen, Unwanted};
use super::super::{Deadline, Instance};
use super::*;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Machine {
    NotLaunched,
    Running,
    ShuttingDown,
    Gone,
}

/// What was heard of the instance, lost when the controller is killed or begins to know it by another name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Heard {
    Nothing,
    /// Asked; so many clean looks have not found it.
    Asked {
        misses: u8,
        seen: bool,
        end: bool,
    },
    Running,
    Ending,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum NodeIs {
    Absent,
    There,
    Deleting,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Other {
    Absent,
    Staying,
    Deleting,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct World {
    claim: bool,
    noted: bool,
    registered: bool,
    marked: bool,
    node: NodeIs,
    machine: Machine,
    heard: Heard,
    other: Other,
    /// The claim went while nobody could know whether its launch would still land.
    left_to_the_collector: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Pass,
    Ec2Answers,
    Killed,
    LaunchLands,
    LaunchNoted,
    NodeJoins,
    Registers,
    NodeEnds,
    MachineDies,
    ShutdownEnds,
    OtherDeleted,
    Collected,
}

const EVENTS: [Event; 12] = [
    Event::Pass,
    Event::Ec2Answers,
    Event::Killed,
    Event::LaunchLands,
    Event::LaunchNoted,
    Event::NodeJoins,
    Event::Registers,
    Event::NodeEnds,
    Event::MachineDies,
    Event::ShutdownEnds,
    Event::OtherDeleted,
    Event::Collected,
];

impl World {
    fn start(other: Other) -> Self {
        let shared = other != Other::Absent;
        Self {
            claim: true,
            noted: shared,
            registered: false,
            marked: false,
            node: NodeIs::Absent,
            machine: if shared { Machine::Running } else { Machine::NotLaunched },
            heard: Heard::Nothing,
            other,
            left_to_the_collector: false,
        }
    }

    fn after(&self, event: Event) -> Self {
        let mut next = self.clone();
        match event {
            Event::Pass if next.claim => next.pass(),
            Event::Ec2Answers => next.ec2_answers(),
            Event::Killed => next.heard = Heard::Nothing,
            // A fleet request may be on its way when its claim goes.
            Event::LaunchLands if next.machine == Machine::NotLaunched => next.machine = Machine::Running,
            Event::LaunchNoted if next.claim && !next.noted && next.machine != Machine::NotLaunched => {
                (next.noted, next.heard) = (true, Heard::Nothing);
            }
            Event::NodeJoins if next.machine == Machine::Running && next.node == NodeIs::Absent => {
                next.node = NodeIs::There;
            }
            Event::Registers if next.claim && next.noted && next.node == NodeIs::There => {
                next.registered = true;
            }
            // Also by hand: then its machine may still run.
            Event::NodeEnds if next.node == NodeIs::Deleting => next.node = NodeIs::Absent,
            Event::MachineDies if next.machine != Machine::NotLaunched => next.machine = Machine::Gone,
            Event::ShutdownEnds if next.machine == Machine::ShuttingDown => next.machine = Machine::Gone,
            Event::OtherDeleted if next.other == Other::Staying => next.other = Other::Deleting,
            Event::Collected => next.collect(),
            _ => {}
        }
        next
    }

    fn pass(&mut self) {
        let nodes: Vec<(Arc<str>, bool)> = match self.node {
            // Nodes are joined by provider id.
            NodeIs::There if self.noted => vec![("node".into(), false)],
            NodeIs::Deleting if self.noted => vec![("node".into(), true)],
            _ => Vec::new(),
        };
        let instance = match self.heard {
            Heard::Nothing => Instance::Unasked,
            Heard::Asked { .. } => Instance::Asking(None),
            Heard::Running => Instance::Running,
            Heard::Ending => Instance::Ending,
            Heard::Gone => Instance::Gone,
        };
        let seen = ClaimSeen {
            deleted_at: at(0),
            termination_grace_period: None,
            deadline: &Deadline::None,
            registered: self.registered,
            launched: self.noted,
            nodes: &nodes,
            shared_with: (self.noted && self.other == Other::Staying).then_some("other"),
            instance: &instance,
            instance_terminating: self.marked,
        };
        match next_step(&seen) {
            ClaimStep::StampDeadline(_) => panic!("there is no grace period"),
            ClaimStep::DeleteNodes(_) => {
                assert!(self.registered, "a node is deleted that is not ours yet");
                self.node = NodeIs::Deleting;
            }
            ClaimStep::LookForInstance => self.ask(false),
            ClaimStep::EndInstance => {
                assert!(
                    !(self.registered && self.noted && self.node != NodeIs::Absent),
                    "the instance is ended under its node: {self:?}"
                );
                self.ask(true);
            }
            ClaimStep::AwaitInstance { mark } => self.marked |= mark,
            ClaimStep::AwaitNodes => {}
            ClaimStep::Hold(why) => panic!("nothing here is untouchable: {why}"),
            ClaimStep::Release { kept_by: Some(_) } => {
                assert_eq!(self.other, Other::Staying, "left to a claim that goes too");
                self.claim = false;
            }
            ClaimStep::Release { kept_by: None } => {
                let gone = self.machine == Machine::Gone;
                // Found nowhere, twice, and never noted: only the collector can know of what lands later.
                let unknowable = !self.noted && self.heard == Heard::Gone;
                assert!(gone || unknowable, "released while the instance may run: {self:?}");
                self.left_to_the_collector = !gone;
                self.claim = false;
            }
        }
    }

    fn ask(&mut self, end: bool) {
        self.heard = match self.heard {
            Heard::Asked { misses, seen, end: already } => Heard::Asked { misses, seen, end: already || end },
            Heard::Running => Heard::Asked { misses: 0, seen: true, end },
            Heard::Nothing => Heard::Asked { misses: 0, seen: false, end },
            known => known,
        };
    }

    /// A clean answer; errors are the absence of this event.
    fn ec2_answers(&mut self) {
        let (misses, seen, end) = match self.heard {
            Heard::Nothing => return,
            Heard::Asked { misses, seen, end } => (misses, seen, end),
            Heard::Running => (0, true, false),
            // Insists until it is gone.
            Heard::Ending => (0, true, true),
            Heard::Gone => return,
        };
        if end && self.machine == Machine::Running {
            assert_ne!(self.other, Other::Staying, "the instance of a claim that stays is ended: {self:?}");
            self.machine = Machine::ShuttingDown;
        }
        self.heard = match self.machine {
            Machine::Running => Heard::Running,
            Machine::ShuttingDown => Heard::Ending,
            Machine::NotLaunched | Machine::Gone if seen || misses >= 1 => Heard::Gone,
            Machine::NotLaunched | Machine::Gone => Heard::Asked { misses: misses + 1, seen, end },
        };
    }

    /// Two looks of the collector, long after the launch.
    fn collect(&mut self) {
        if self.machine == Machine::NotLaunched {
            return;
        }
        let instance = InstanceSeen {
            id: "i-1".into(),
            ending: self.machine != Machine::Running,
            launched_at: Some(at(-600)),
            claim: Some("claim".into()),
            batch: None,
        };
        let listed: Vec<InstanceSeen> =
            (self.machine != Machine::Gone).then_some(instance).into_iter().collect();
        let claim = |name: &str, noted: bool| ClaimRef {
            name: name.into(),
            instance: noted.then(|| "i-1".into()),
            batch: None,
            registered: self.registered,
            deleting: true,
            created_at: at(-600),
        };
        let own = self.claim.then(|| claim("claim", self.noted));
        let others = (self.other != Other::Absent).then(|| claim("other", true));
        let claims: Vec<ClaimRef> = own.into_iter().chain(others).collect();
        let mut memory = Unwanted::default();
        memory.look(&listed, &claims, at(0));
        if !memory.look(&listed, &claims, at(10)).is_empty() {
            assert!(!self.claim && self.other == Other::Absent, "collected from under its claim: {self:?}");
            self.machine = Machine::ShuttingDown;
        }
    }

    fn is_over(&self) -> bool {
        let kept = self.other != Other::Absent;
        !self.claim && (kept || matches!(self.machine, Machine::Gone | Machine::NotLaunched))
    }
}

/// All reachable states, and from each the way to the end in a world where EC2 answers and nodes go when deleted.
fn explore(start: World) -> usize {
    let mut known = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        let mut friendly = world.clone();
        for _ in 0..12 {
            for event in
                [Event::Pass, Event::Ec2Answers, Event::ShutdownEnds, Event::NodeEnds, Event::Collected]
            {
                friendly = friendly.after(event);
            }
        }
        assert!(friendly.is_over(), "stuck in {friendly:?}, coming from {world:?}");
        for event in EVENTS {
            let next = world.after(event);
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    known.len()
}

#[test]
fn a_claim_deleted_at_any_point_of_its_launch_leaves_no_instance_behind() {
    let states = explore(World::start(Other::Absent));
    assert!(states > 100, "the walk is no walk: {states}");
}

#[test]
fn an_instance_of_two_claims_lives_until_the_second_one_goes() {
    assert!(explore(World::start(Other::Staying)) > 50);
    assert!(explore(World::start(Other::Deleting)) > 50);
}
