//! A cluster small enough to look at all of it: up to two nodes that go, a replacement, a pod that the scheduler may still bind,
//! somebody who deletes, and our process, which may die between any two writes, or lose the lead with deletions under way.
//!
//! One tick is a second. The scheduler acts on a view that is at most one tick old, which is what the settle time assumes. What
//! holds every node (the budget) and what holds one (an annotation) each come once; more of the same adds no new order.

use super::*;

pub(super) const TICKS_TO_GIVE_UP: i64 = 4;

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
    pub(super) crashes: u8,
    /// Exploration stops advancing the clock here.
    pub(super) last_tick: i64,
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
    pub(super) crashes: u8,
    pub(super) others_deleted: bool,
    pub(super) ended: Option<End>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) gone: bool,
    pub(super) leaving: bool,
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
    plan: bool,
    validated: bool,
    tainted: Option<i64>,
    giving_up: bool,
    looked: Option<i64>,
    /// Per node, at that look: held, and landed.
    seen: Vec<(bool, bool)>,
    pub(super) writes: Vec<Write>,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Our process decides, or carries out the next of the writes it decided on.
    Pass,
    /// The same, with a second look that finds something else.
    PassRefused,
    Crash,
    Restart,
    LateDeletion,
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
            process: Process::Alive(Mind { plan: true, ..Mind::default() }),
            late_deletions: Vec::new(),
            crashes: 0,
            others_deleted: false,
            ended: None,
        }
    }

    fn timing() -> Timing {
        Timing {
            validation: SignedDuration::from_secs(1),
            settle: SignedDuration::from_secs(1),
            fresh: SignedDuration::from_secs(1),
            timeout: SignedDuration::from_secs(TICKS_TO_GIVE_UP),
        }
    }

    pub(super) fn events(&self, world: &World) -> Vec<Event> {
        if world.ended.is_some() {
            return vec![Event::LateDeletion];
        }
        let mut events = vec![Event::Pass, Event::Restart, Event::LateDeletion];
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
        events.extend([Event::NewIsReady, Event::NewIsUsed, Event::NewFails, Event::NewVanishes]);
        events
    }

    /// The world after the event; the same where it cannot happen.
    pub(super) fn after(&self, before: &World, event: Event) -> World {
        let mut world = before.clone();
        match event {
            Event::Pass => self.pass(&mut world, true),
            Event::PassRefused => self.pass(&mut world, false),
            Event::Crash => {
                if let Process::Alive(mind) = &world.process {
                    let sent = |write: &Write| match write {
                        Write::Delete(i, version) => Some((*i, *version)),
                        _ => None,
                    };
                    world.late_deletions.extend(mind.writes.iter().filter_map(sent));
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
            Event::Restart => {
                if world.process == Process::Dead {
                    world.process = Process::Alive(Mind::default());
                }
            }
            Event::Tick => {
                world.time += 1;
                for node in &mut world.nodes {
                    node.scheduler_knows = node.tainted;
                }
            }
            Event::SchedulerBinds(i) => {
                let node = world.nodes[i];
                if !world.late_was_bound && !node.scheduler_knows && !node.leaving && !node.gone {
                    world.late = Some(i);
                    world.late_was_bound = true;
                }
            }
            Event::Annotate(i) => {
                let node = &mut world.nodes[i];
                if !node.gone && self.has_own_pods() {
                    node.annotated = true;
                    node.changed_since_look = true;
                }
            }
            Event::PdbCloses => {
                if world.pdb_changes < 1 && self.has_own_pods() {
                    world.pdb_changes += 1;
                    world.pdb_closed = true;
                    world.nodes.iter_mut().for_each(|node| node.changed_since_look = true);
                }
            }
            Event::PdbOpens => world.pdb_closed = false,
            Event::SomebodyDeletes(i) => {
                if !world.others_deleted && !world.nodes[i].leaving {
                    world.others_deleted = true;
                    world.nodes[i].leaving = true;
                }
            }
            Event::Drain(i) => {
                if world.nodes[i].leaving && !world.nodes[i].gone && !self.is_held(&world, i) {
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
    fn has_own_pods(&self) -> bool {
        self.method != Method::Emptiness
    }

    /// A pod on the node may not be evicted now.
    pub(super) fn is_held(&self, world: &World, i: usize) -> bool {
        let late = world.late == Some(i) && self.late_is_protected;
        late || (self.has_own_pods() && (world.nodes[i].annotated || world.pdb_closed))
    }

    fn pass(&self, world: &mut World, valid: bool) {
        if world.ended.is_some() {
            return;
        }
        let Process::Alive(mind) = &mut world.process else { return };
        if !mind.writes.is_empty() {
            let write = mind.writes.remove(0);
            self.write(world, write);
            return;
        }
        let mut mind = mind.clone();
        self.decide(world, &mut mind, valid);
        world.process = Process::Alive(mind);
    }

    fn decide(&self, world: &mut World, mind: &mut Mind, valid: bool) {
        let view = self.view(world, mind);
        let traces = |node: &Node| node.noted || node.tainted || node.marked;
        if view.members.is_empty() && mind.looked.is_none() && !mind.plan {
            // Nothing to take over; what an interrupted roll-back left is swept.
            let all: Vec<Member> = (0..self.nodes).map(|i| self.member(world, mind, i)).collect();
            let stray = strays(&all);
            let named = |i: &usize| stray.contains(&all[*i].claim);
            mind.writes =
                (0..self.nodes).filter(named).flat_map(|i| [Write::Unmark(i), Write::Untaint(i)]).collect();
            if mind.writes.is_empty() {
                let removed = world.nodes.iter().all(|node| node.leaving);
                world.ended = Some(if removed { End::Done } else { End::RolledBack });
            }
            return;
        }
        if view.members.iter().all(|m| m.leaving || (m.noted && m.tainted)) && mind.tainted.is_none() {
            mind.tainted = view.members.iter().any(|m| m.tainted).then_some(world.time);
        }
        let view = self.view(world, mind);
        let index = |claim: &Arc<str>| claim.parse::<usize>().unwrap();
        match next_step(&view, &Self::timing(), at(world.time)) {
            Step::Wait { .. } => {}
            Step::Validate if valid => mind.validated = true,
            Step::Validate => mind.giving_up = true,
            Step::Take(claims) => {
                for i in claims.iter().map(index) {
                    let node = world.nodes[i];
                    mind.writes.extend((!node.noted).then_some(Write::Note(i)));
                    mind.writes.extend((!node.tainted).then_some(Write::Taint(i)));
                    mind.writes.extend((!node.marked).then_some(Write::Mark(i)));
                }
            }
            Step::Look => {
                mind.looked = Some(world.time);
                mind.seen = (0..self.nodes)
                    .map(|i| {
                        let here = world.late == Some(i);
                        (self.is_held(world, i) || (here && !self.has_own_pods()), here && mind.plan)
                    })
                    .collect();
                world.nodes.iter_mut().for_each(|node| node.changed_since_look = false);
            }
            Step::Replace => mind.writes.push(Write::Order),
            Step::Delete(claims) => {
                for i in claims.iter().map(index) {
                    mind.writes.push(Write::Delete(i, world.nodes[i].version));
                }
            }
            Step::Drop(_) => {
                let marked = |i: &usize| world.nodes[*i].marked && !world.nodes[*i].leaving;
                mind.writes.extend((0..self.nodes).filter(marked).map(Write::Unmark));
                mind.writes.push(Write::DropNew);
            }
            Step::Undo { claims, .. } => {
                for i in claims.iter().map(index) {
                    mind.writes.extend([Write::Unmark(i), Write::Untaint(i), Write::Unnote(i)]);
                }
                mind.giving_up = true;
            }
            Step::Done => world.ended = Some(End::Done),
            Step::RolledBack(_) => {
                let left = world.nodes.iter().any(|node| !node.leaving && traces(node));
                assert!(!left, "{}: rolled back with traces left: {world:?}", self.name);
                world.ended = Some(End::RolledBack);
            }
        }
    }

    fn write(&self, world: &mut World, write: Write) {
        match write {
            Write::Note(i) => self.on(world, i, |node| node.noted = true),
            Write::Taint(i) => self.on(world, i, |node| node.tainted = true),
            Write::Mark(i) => self.on(world, i, |node| node.marked = true),
            Write::Unmark(i) => self.on(world, i, |node| node.marked = false),
            Write::Untaint(i) => self.on(world, i, |node| {
                node.tainted = node.leaving;
            }),
            Write::Unnote(i) => self.on(world, i, |node| node.noted = false),
            Write::Order => {
                assert!(self.needs > 0);
                if world.replacement == New::None {
                    world.replacement = New::Coming;
                }
            }
            Write::DropNew => {
                if matches!(world.replacement, New::Coming | New::Ready { used: false, .. }) {
                    world.replacement = New::Failing;
                }
            }
            Write::Delete(i, version) => self.delete(world, i, version, false),
        }
    }

    /// Writes to what is gone do nothing. A write that changes the claim makes a new version of it.
    fn on(&self, world: &mut World, i: usize, change: impl FnOnce(&mut Node)) {
        let node = &mut world.nodes[i];
        if !node.gone {
            let before = (node.noted, node.marked);
            change(node);
            node.version += u8::from(before != (node.noted, node.marked));
        }
    }

    /// Refused when the claim is another than the one that was decided about.
    fn delete(&self, world: &mut World, i: usize, version: u8, late: bool) {
        if world.nodes[i].version == version {
            self.check_delete(world, i, late);
            self.on(world, i, |node| node.leaving = true);
        }
    }

    /// What must hold at the irreversible step.
    fn check_delete(&self, world: &World, i: usize, late: bool) {
        let node = world.nodes[i];
        if node.gone || node.leaving {
            return;
        }
        let name = self.name;
        assert!(node.noted && node.tainted, "{name}: deleted without note and taint: {world:?}");
        let late_here = world.late == Some(i);
        assert!(
            !(late_here && self.late_is_protected),
            "{name}: a protected pod that had landed is on a node that we delete: {world:?}"
        );
        // Since the look of a process that is gone, anything may have come to hold the node; draining waits for that.
        assert!(
            late || !self.is_held(world, i) || node.changed_since_look,
            "{name}: deleted although the last look had seen what holds it: {world:?}"
        );
        assert!(
            !(late_here && !self.has_own_pods()),
            "{name}: a node that is not empty any more is deleted as empty: {world:?}"
        );
        let ready = matches!(world.replacement, New::Ready { .. });
        assert!(self.needs == 0 || ready, "{name}: deleted before the replacement is ready: {world:?}");
    }

    fn member(&self, world: &World, mind: &Mind, i: usize) -> Member {
        let node = world.nodes[i];
        let (held, landed) = mind.seen.get(i).copied().unwrap_or_default();
        Member {
            leaving: node.leaving,
            noted: node.noted,
            tainted: node.tainted,
            marked: node.marked,
            obstacle: held.then_some(Blocked::NodeAnnotation),
            newcomers: if landed { vec!["default/late".to_owned()] } else { Vec::new() },
            ..member(&i.to_string())
        }
    }

    /// As the service would build it: from the proposal, or from the notes alone.
    fn view(&self, world: &World, mind: &Mind) -> View {
        let belongs = |i: &usize| {
            let node = world.nodes[*i];
            !node.gone && (node.noted || (mind.plan && !mind.giving_up))
        };
        let new = |initialized: Option<i64>, used, leaving| Replacement {
            used,
            leaving,
            ..replacement(initialized)
        };
        let replacements = match world.replacement {
            New::None | New::Gone => Vec::new(),
            New::Coming => vec![new(None, false, false)],
            New::Ready { since, used } => vec![new(Some(since), used, false)],
            New::Failing => vec![new(None, false, true)],
        };
        View {
            method: self.method,
            removes: self.nodes,
            needs: self.needs,
            proposed: at(0),
            members: (0..self.nodes).filter(belongs).map(|i| self.member(world, mind, i)).collect(),
            replacements,
            looked: mind.looked.map(at),
            memory: Memory {
                plan: mind.plan,
                validated: mind.validated,
                tainted: mind.tainted.map(at),
                giving_up: mind.giving_up.then_some(Why::Abandoned),
            },
        }
    }
}
