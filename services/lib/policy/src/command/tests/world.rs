//! A cluster small enough to look at all of it: up to two nodes that go, a replacement, a pod that the scheduler may still bind,
//! somebody who deletes, and our process, which may die between any two writes, or lose the lead with deletions under way.
//!
//! One tick is a second. The scheduler acts on a view that is at most one tick old, which is what the settle time assumes. An
//! annotation comes once, the budget closes twice; more of the same adds no new order. Writes fail, the API server refuses every
//! change of a Node, a Node goes while its claim stays, reading pods takes long, and an order is carried out late.

use super::*;

/// A mistake that the walk must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// Deletes where the pods were to be read once more.
    DeletesWithoutLooking,
    /// Reads pods as soon as the taint is written.
    DoesNotSettle,
    /// Deletes whatever version the claim has.
    DeletesAnyVersion,
    /// Takes a spent PodDisruptionBudget for something that holds a node for good.
    GivesUpOnSpentBudgets,
    /// Tries for ever to take off what cannot be taken off.
    NeverGivesUp,
    /// Leaves replacements alone that come after the end.
    ForgetsLateOrders,
    /// Takes everything back but the replacement.
    KeepsUnusedReplacements,
}

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) nodes: usize,
    pub(super) needs: usize,
    /// The pod that may land carries do-not-disrupt.
    pub(super) late_is_protected: bool,
    /// Annotations come, and the PDB closes: left out where another scenario has them, to keep the walk short.
    pub(super) annotations: bool,
    pub(super) pdb: bool,
    /// Writes fail, or are refused for good; the Node goes while its claim stays; reading takes long.
    pub(super) faults: bool,
    pub(super) crashes: u8,
    /// Ticks after which the command is given up.
    pub(super) timeout: i64,
    /// Exploration stops advancing the clock here.
    pub(super) last_tick: i64,
    pub(super) mutation: Option<Mutation>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct World {
    pub(super) time: i64,
    pub(super) nodes: Vec<Node>,
    /// Where the late pod is; `None`: not bound, or evicted.
    pub(super) late: Option<usize>,
    pub(super) late_was_bound: bool,
    /// The PDB that covers the pods of all nodes allows nothing.
    pub(super) pdb_closed: bool,
    pub(super) pdb_changes: u8,
    pub(super) replacement: New,
    pub(super) process: Process,
    /// Deletions that a process had sent when it lost the lead, and that the API server has not seen yet.
    pub(super) late_deletions: Vec<(usize, u8)>,
    /// An order that a process had sent and heard nothing of.
    pub(super) late_order: bool,
    /// A process took over what another had taken back in part: it cannot know what became of the rest.
    pub(super) blind: bool,
    /// The replacement was there when the command ended.
    pub(super) kept: bool,
    pub(super) crashes: u8,
    /// Writes that failed, and reads that took too long.
    pub(super) failures: u8,
    pub(super) slow_reads: u8,
    /// Something happened that may cost a replacement: a protected pod, a lost node, a failed or refused write, a late order.
    pub(super) excused: bool,
    pub(super) others_deleted: bool,
    pub(super) ended: Option<End>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) gone: bool,
    pub(super) leaving: bool,
    /// The Node is gone and the claim stays.
    pub(super) lost: bool,
    /// Every change of the Node is refused.
    pub(super) guarded: bool,
    pub(super) noted: bool,
    pub(super) tainted: bool,
    pub(super) marked: bool,
    pub(super) scheduler_knows: bool,
    /// Its own pod carries do-not-disrupt.
    pub(super) annotated: bool,
    /// Something became protected since we looked.
    pub(super) changed_since_look: bool,
    /// resourceVersion of the claim.
    pub(super) version: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum New {
    None,
    Coming,
    Ready { since: i64, used: bool },
    Failing,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Done,
    RolledBack,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Process {
    Dead,
    Alive(Mind),
}

/// What the process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mind {
    pub(super) plan: bool,
    /// The command's nodes: of the proposal, or those that were noted when the process took over.
    pub(super) members: Vec<usize>,
    pub(super) validated: bool,
    pub(super) tainted: Option<i64>,
    pub(super) ready: Option<i64>,
    pub(super) stale_reads: u8,
    pub(super) giving_up: bool,
    /// Failures in a row to drop the replacement.
    pub(super) undropped: u8,
    /// Per node.
    pub(super) seen: Vec<Seen>,
    pub(super) writes: Vec<Write>,
}

/// What the process knows of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) looked: Option<i64>,
    pub(super) protected: bool,
    pub(super) pdb_closed: bool,
    pub(super) landed: bool,
    /// Writes that failed in a row, and those that take something back.
    pub(super) failures: u8,
    pub(super) not_undone: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Write {
    Note(usize),
    Taint(usize),
    Mark(usize),
    Order,
    /// With the claim's version as a precondition.
    Delete(usize, u8),
    DropNew,
    Unmark(usize),
    Untaint(usize),
    Unnote(usize),
    /// The command goes on without the node.
    Release(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Our process decides, or carries out the next of the writes it decided on.
    Pass,
    /// The same, with a second look that finds something else.
    PassRefused,
    /// The same, and pods that are read are old when they arrive.
    PassSlow,
    /// The next write fails.
    WriteFails,
    /// From now on every change of the Node is refused.
    Guard(usize),
    /// The Node object goes, its claim stays.
    NodeVanishes(usize),
    Crash,
    Restart,
    LateDeletion,
    LateOrder,
    Tick,
    SchedulerBinds(usize),
    Annotate(usize),
    PdbCloses,
    PdbOpens,
    SomebodyDeletes(usize),
    Drain(usize),
    NewIsReady,
    NewIsUsed,
    NewFails,
    NewVanishes,
}

impl World {
    pub(super) fn tick(&mut self) {
        self.time += 1;
        for node in &mut self.nodes {
            node.scheduler_knows = node.tainted;
        }
    }
}

impl Scenario {
    pub(super) fn start(&self) -> World {
        World {
            time: 0,
            nodes: vec![Node::default(); self.nodes],
            late: None,
            late_was_bound: false,
            pdb_closed: false,
            pdb_changes: 0,
            replacement: New::None,
            process: Process::Alive(Mind {
                plan: true,
                members: (0..self.nodes).collect(),
                seen: vec![Seen::default(); self.nodes],
                ..Mind::default()
            }),
            late_deletions: Vec::new(),
            late_order: false,
            blind: false,
            kept: false,
            crashes: 0,
            failures: 0,
            slow_reads: 0,
            excused: false,
            others_deleted: false,
            ended: None,
        }
    }

    pub(super) fn timing(&self) -> Timing {
        Timing {
            validation: SignedDuration::from_secs(1),
            settle: SignedDuration::from_secs(i64::from(self.mutation != Some(Mutation::DoesNotSettle))),
            fresh: SignedDuration::from_secs(1),
            timeout: SignedDuration::from_secs(self.timeout),
        }
    }

    pub(super) fn events(&self, world: &World) -> Vec<Event> {
        if world.ended.is_some() {
            return vec![Event::LateDeletion, Event::LateOrder, Event::Pass];
        }
        let mut events = vec![Event::Pass, Event::Restart, Event::LateDeletion, Event::LateOrder];
        if let Process::Alive(Mind { validated: false, .. }) = world.process {
            events.push(Event::PassRefused);
        }
        if world.crashes < self.crashes {
            events.push(Event::Crash);
        }
        if world.time < self.last_tick {
            events.push(Event::Tick);
        }
        for node in 0..world.nodes.len() {
            events.extend([Event::SchedulerBinds(node), Event::Drain(node)]);
        }
        // Nodes differ in nothing: it is enough that things happen to the first of them.
        events.push(Event::SomebodyDeletes(0));
        if self.annotations {
            events.push(Event::Annotate(0));
        }
        if self.pdb {
            events.extend([Event::PdbCloses, Event::PdbOpens]);
        }
        if self.faults {
            events.extend([Event::Guard(0), Event::NodeVanishes(0)]);
            // Of two nodes there are states enough without these.
            if self.nodes == 1 {
                events.extend([Event::PassSlow, Event::WriteFails]);
            }
        }
        events.extend([Event::NewIsReady, Event::NewIsUsed, Event::NewFails, Event::NewVanishes]);
        events
    }

    /// The world after the event; the same where it cannot happen.
    pub(super) fn after(&self, before: &World, event: Event) -> World {
        let mut world = before.clone();
        match event {
            Event::Pass => self.pass(&mut world, true),
            Event::PassRefused => self.pass(&mut world, false),
            Event::PassSlow => {
                if world.slow_reads < 1 {
                    self.slow_pass(&mut world);
                }
            }
            Event::WriteFails => {
                if world.failures < 1 && self.fail(&mut world) {
                    world.failures += 1;
                }
            }
            Event::Guard(i) => {
                world.nodes[i].guarded = true;
                world.excused = true;
            }
            Event::NodeVanishes(i) => {
                let node = &mut world.nodes[i];
                if !node.gone && !node.leaving {
                    (node.lost, node.tainted) = (true, false);
                    world.excused = true;
                }
            }
            Event::Crash => {
                if let Process::Alive(mind) = &world.process {
                    let sent = |write: &Write| match write {
                        Write::Delete(i, version) => Some((*i, *version)),
                        _ => None,
                    };
                    world.late_deletions.extend(mind.writes.iter().filter_map(sent));
                    world.late_order |= mind.writes.contains(&Write::Order);
                    world.process = Process::Dead;
                    world.crashes += 1;
                }
            }
            Event::LateDeletion => {
                if !world.late_deletions.is_empty() {
                    let (i, version) = world.late_deletions.remove(0);
                    self.delete(&mut world, i, version, true);
                }
            }
            Event::LateOrder => {
                let free = matches!(world.replacement, New::None | New::Gone);
                if std::mem::take(&mut world.late_order) && free {
                    world.replacement = New::Coming;
                    world.excused = true;
                }
            }
            Event::Restart => {
                if world.process == Process::Dead {
                    let noted = |i: &usize| world.nodes[*i].noted && !world.nodes[*i].gone;
                    let members: Vec<usize> = (0..self.nodes).filter(noted).collect();
                    world.blind |= members.len() < self.nodes;
                    world.process = Process::Alive(Mind {
                        members,
                        seen: vec![Seen::default(); self.nodes],
                        ..Mind::default()
                    });
                }
            }
            Event::Tick => world.tick(),
            Event::SchedulerBinds(i) => {
                let node = world.nodes[i];
                let open = !node.scheduler_knows && !node.leaving && !node.gone && !node.lost;
                if !world.late_was_bound && open {
                    world.late = Some(i);
                    world.late_was_bound = true;
                    world.excused = true;
                }
            }
            Event::Annotate(i) => {
                let node = &mut world.nodes[i];
                if !node.gone && self.has_own_pods() {
                    node.annotated = true;
                    node.changed_since_look = true;
                    world.excused = true;
                }
            }
            Event::PdbCloses => {
                if world.pdb_changes < 2 && !world.pdb_closed && self.has_own_pods() {
                    world.pdb_changes += 1;
                    world.pdb_closed = true;
                    world.nodes.iter_mut().for_each(|node| node.changed_since_look = true);
                }
            }
            Event::PdbOpens => world.pdb_closed = false,
            Event::SomebodyDeletes(i) => {
                if !world.others_deleted && !world.nodes[i].leaving {
                    world.others_deleted = true;
                    world.excused = true;
                    world.nodes[i].leaving = true;
                }
            }
            Event::Drain(i) => {
                let held = self.is_protected(&world, i) || self.waits_for_pdb(&world);
                if world.nodes[i].leaving && !world.nodes[i].gone && !held {
                    world.nodes[i] = Node { gone: true, leaving: true, ..Node::default() };
                    if world.late == Some(i) {
                        world.late = None;
                    }
                }
            }
            Event::NewIsReady => {
                if world.replacement == New::Coming {
                    world.replacement = New::Ready { since: world.time, used: false };
                }
            }
            Event::NewIsUsed => {
                if let New::Ready { used, .. } = &mut world.replacement {
                    *used = true;
                }
            }
            Event::NewFails => {
                if world.replacement == New::Coming {
                    world.replacement = New::Failing;
                    world.excused = true;
                }
            }
            Event::NewVanishes => {
                if world.replacement == New::Failing {
                    world.replacement = New::Gone;
                }
            }
        }
        world
    }

    /// Empty nodes have no pods of their own.
    pub(super) fn has_own_pods(&self) -> bool {
        self.method != Method::Emptiness
    }

    /// A pod on the node carries do-not-disrupt.
    pub(super) fn is_protected(&self, world: &World, i: usize) -> bool {
        let late = world.late == Some(i) && self.late_is_protected;
        late || (self.has_own_pods() && world.nodes[i].annotated)
    }

    /// No pod may be evicted at the moment.
    pub(super) fn waits_for_pdb(&self, world: &World) -> bool {
        self.has_own_pods() && world.pdb_closed
    }
}
