//! Our process in the small world: it sees what the objects say, asks [`next_step`], and writes one thing at a time. What must
//! hold at the irreversible step is asserted here.

use super::world::{End, Mind, Mutation, New, Node, Process, Scenario, Seen, World, Write};
use super::*;
use crate::method::Class;

/// Failed writes to a node in a row after which the process gives it up.
const MOST_FAILURES: u8 = 2;

impl Scenario {
    pub(super) fn pass(&self, world: &mut World, valid: bool) {
        self.act(world, valid, false);
    }

    /// Pods that are read now are two ticks old when the answer comes.
    pub(super) fn slow_pass(&self, world: &mut World) {
        self.act(world, true, true);
    }

    fn act(&self, world: &mut World, valid: bool, slow: bool) {
        if world.ended.is_some() {
            return self.sweep(world);
        }
        let Process::Alive(mind) = &mut world.process else { return };
        if let Some(&write) = mind.writes.first() {
            if self.is_refused(world, write) {
                self.fail(world);
            } else {
                self.succeed(world);
            }
            return;
        }
        let mut mind = mind.clone();
        self.decide(world, &mut mind, valid, slow);
        world.process = Process::Alive(mind);
    }

    /// After the end: what came late.
    fn sweep(&self, world: &mut World) {
        if self.is_orphaned(world) && self.mutation != Some(Mutation::ForgetsLateOrders) {
            world.replacement = New::Failing;
        }
    }

    /// The replacement belongs to nobody, as far as the process that took the command back can know.
    pub(super) fn is_orphaned(&self, world: &World) -> bool {
        let Process::Alive(mind) = &world.process else { return false };
        world.ended == Some(End::RolledBack) && !world.kept && !orphans(&self.view(world, mind)).is_empty()
    }

    fn is_refused(&self, world: &World, write: Write) -> bool {
        match write {
            Write::Taint(i) => world.nodes[i].guarded || world.nodes[i].lost,
            Write::Untaint(i) => world.nodes[i].guarded && world.nodes[i].tainted,
            _ => false,
        }
    }

    fn succeed(&self, world: &mut World) {
        let Process::Alive(mind) = &mut world.process else { return };
        let write = mind.writes.remove(0);
        if let Write::Release(i) = write {
            mind.members.retain(|member| *member != i);
        }
        // Taking off is one write until its last part is done.
        match write {
            Write::Unmark(_) | Write::Untaint(_) => {}
            _ if write.takes_back() => write.node().into_iter().for_each(|i| mind.seen[i].not_undone = 0),
            _ => write.node().into_iter().for_each(|i| mind.seen[i].failures = 0),
        }
        self.write(world, write);
    }

    /// The first write that is under way fails, and with it the others to that node: they are decided anew.
    pub(super) fn fail(&self, world: &mut World) -> bool {
        let Process::Alive(mind) = &mut world.process else { return false };
        let Some(write) = mind.writes.first().copied() else { return false };
        let more = |failures: u8| (failures + 1).min(MOST_FAILURES);
        // A replacement is dropped only when all reasons are off.
        let dropping = mind.writes.contains(&Write::DropNew);
        match write.node() {
            _ if dropping => {
                mind.writes.clear();
                mind.undropped = more(mind.undropped);
            }
            None => {
                world.late_order |= write == Write::Order;
                mind.writes.remove(0);
            }
            Some(i) => {
                let releasing = mind.writes.contains(&Write::Release(i));
                mind.writes.retain(|other| other.node() != Some(i));
                let seen = &mut mind.seen[i];
                if write.takes_back() {
                    seen.not_undone = more(seen.not_undone);
                    if releasing && seen.not_undone == MOST_FAILURES {
                        mind.members.retain(|member| *member != i);
                    }
                } else {
                    seen.failures = more(seen.failures);
                }
                world.excused |= seen.failures == MOST_FAILURES;
            }
        }
        true
    }

    fn decide(&self, world: &mut World, mind: &mut Mind, valid: bool, slow: bool) {
        // What was seen of a node matters no more once it goes back: fewer states to walk.
        for (i, seen) in mind.seen.iter_mut().enumerate() {
            if mind.giving_up || !mind.members.contains(&i) {
                *seen = Seen { not_undone: seen.not_undone, ..Seen::default() };
            }
        }
        let view = self.view(world, mind);
        let traces = |node: &Node| node.noted || node.tainted || node.marked;
        if view.members.is_empty() && !mind.plan {
            // Nothing to take over; what an interrupted roll-back left is swept, and what was released is taken over anew.
            // What could not be written is left for later.
            let given_up: Vec<bool> = mind.seen.iter().map(|seen| self.is_stuck(seen.not_undone)).collect();
            let noted = |i: &usize| world.nodes[*i].noted && !world.nodes[*i].gone && !given_up[*i];
            mind.members = (0..self.nodes).filter(noted).collect();
            if !mind.members.is_empty() {
                return;
            }
            let all: Vec<Member> = (0..self.nodes).map(|i| self.member(world, mind, i)).collect();
            let stray = strays(&all);
            let named = |i: &usize| stray.contains(&all[*i].claim) && !given_up[*i];
            mind.writes =
                (0..self.nodes).filter(named).flat_map(|i| [Write::Unmark(i), Write::Untaint(i)]).collect();
            if mind.writes.is_empty() {
                let removed = world.nodes.iter().all(|node| node.leaving);
                world.ended = Some(if removed { End::Done } else { End::RolledBack });
            }
            return;
        }
        if view.members.iter().all(|m| m.leaving || m.lost || m.tainted) && mind.tainted.is_none() {
            mind.tainted = view.members.iter().any(|m| m.tainted).then_some(world.time);
        }
        let view = self.view(world, mind);
        let initialized = view.replacements.iter().filter(|r| r.initialized.is_some()).count();
        let is_ready = view.members.iter().all(|m| m.leaving || m.marked) && initialized >= self.needs;
        if is_ready && mind.ready.is_none() {
            (mind.ready, mind.stale_reads) = (Some(world.time), 0);
        }
        let view = self.view(world, mind);
        let index = |claim: &Arc<str>| claim.parse::<usize>().unwrap();
        match self.mutated(next_step(&view, &self.timing(), at(world.time)), &view) {
            Step::Wait { .. } => {}
            Step::Validate if valid => mind.validated = true,
            Step::Validate => mind.giving_up = true,
            Step::Take(claims) => {
                for i in claims.iter().map(index) {
                    let node = world.nodes[i];
                    mind.writes.extend((!node.noted).then_some(Write::Note(i)));
                    mind.writes.extend((!node.tainted).then_some(Write::Taint(i)));
                }
            }
            Step::Mark(claims) => mind.writes.extend(claims.iter().map(index).map(Write::Mark)),
            Step::Look(claims) => {
                mind.stale_reads = if slow { mind.stale_reads + 1 } else { 0 };
                for i in claims.iter().map(index) {
                    let here = world.late == Some(i);
                    mind.seen[i] = Seen {
                        looked: Some(world.time),
                        protected: self.is_protected(world, i) || (here && !self.has_own_pods()),
                        pdb_closed: self.waits_for_pdb(world) && self.method.class() == Class::Graceful,
                        landed: here && mind.plan,
                        ..mind.seen[i]
                    };
                    world.nodes[i].changed_since_look = false;
                }
                if slow {
                    world.slow_reads += 1;
                    world.excused |= mind.stale_reads >= 5;
                    world.tick();
                    world.tick();
                }
            }
            Step::Replace => {
                assert!(mind.plan, "{}: orders without knowing what: {world:?}", self.name);
                mind.writes.push(Write::Order);
            }
            Step::Delete(claims) => {
                let ready = match world.replacement {
                    New::Ready { since, .. } => since,
                    _ => 0,
                };
                for i in claims.iter().map(index) {
                    // Whoever skips the look is found by what it does.
                    let skips = self.mutation == Some(Mutation::DeletesWithoutLooking);
                    let fresh = skips
                        || mind.seen[i]
                            .looked
                            .is_some_and(|looked| looked >= ready && world.time - looked <= 1);
                    assert!(fresh, "{}: deletes without having looked right before: {world:?}", self.name);
                    mind.writes.push(Write::Delete(i, world.nodes[i].version));
                }
            }
            Step::Drop { .. } => {
                let late = world.time > self.timeout;
                assert!(
                    world.excused || late,
                    "{}: a replacement is dropped for no lasting reason: {world:?}",
                    self.name
                );
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
            Step::Release { claims, .. } => {
                for i in claims.iter().map(index) {
                    let back = [Write::Unmark(i), Write::Untaint(i), Write::Unnote(i), Write::Release(i)];
                    mind.writes.extend(back);
                }
            }
            Step::Done => world.ended = Some(End::Done),
            Step::RolledBack(_) => {
                let left = world.nodes.iter().any(|node| !node.leaving && !node.guarded && traces(node));
                assert!(!left, "{}: rolled back with traces left: {world:?}", self.name);
                world.ended = Some(End::RolledBack);
                world.kept = matches!(world.replacement, New::Coming | New::Ready { .. });
            }
        }
    }

    fn is_stuck(&self, failures: u8) -> bool {
        failures == MOST_FAILURES && self.mutation != Some(Mutation::NeverGivesUp)
    }

    fn mutated(&self, step: Step, view: &View) -> Step {
        match (self.mutation, step) {
            (Some(Mutation::DeletesWithoutLooking), Step::Look(claims))
                if view.replacements.len() >= view.needs =>
            {
                Step::Delete(claims)
            }
            (Some(Mutation::KeepsUnusedReplacements), Step::Drop { why, .. }) => {
                let traced = view.members.iter().filter(|member| member.has_traces());
                let claims: Vec<Arc<str>> = traced.map(|member| Arc::clone(&member.claim)).collect();
                if claims.is_empty() { Step::RolledBack(why) } else { Step::Undo { claims, why } }
            }
            (_, step) => step,
        }
    }

    fn write(&self, world: &mut World, write: Write) {
        match write {
            Write::Note(i) => self.on(world, i, |node| node.noted = true),
            Write::Taint(i) => self.on(world, i, |node| node.tainted = !node.lost),
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
            Write::Release(_) => {}
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
    pub(super) fn delete(&self, world: &mut World, i: usize, version: u8, late: bool) {
        if world.nodes[i].version == version || self.mutation == Some(Mutation::DeletesAnyVersion) {
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
        assert!(
            node.noted && (node.tainted || node.lost),
            "{name}: deleted without note and taint: {world:?}"
        );
        let late_here = world.late == Some(i);
        assert!(
            !(late_here && self.late_is_protected),
            "{name}: a protected pod that had landed is on a node that we delete: {world:?}"
        );
        // Since the look of a process that is gone, anything may have come to hold the node; draining waits for that.
        let graceful = self.method.class() == Class::Graceful;
        let held = self.is_protected(world, i) || (graceful && self.waits_for_pdb(world));
        assert!(
            late || !held || node.changed_since_look,
            "{name}: deleted although the last look had seen what holds it: {world:?}"
        );
        assert!(
            !late_here || self.has_own_pods(),
            "{name}: a node that is not empty any more is deleted as empty: {world:?}"
        );
        let ready = matches!(world.replacement, New::Ready { .. });
        assert!(self.needs == 0 || ready, "{name}: deleted before the replacement is ready: {world:?}");
    }

    fn member(&self, world: &World, mind: &Mind, i: usize) -> Member {
        let node = world.nodes[i];
        let seen = mind.seen[i];
        let block = match self.mutation {
            Some(Mutation::GivesUpOnSpentBudgets) => PdbBlock::Several(vec!["default/all".to_owned()]),
            _ => PdbBlock::Spent { budget: "default/all".to_owned(), healthy: 1, desired: 1 },
        };
        let spent = Blocked::Pdb { pod: "default/own".to_owned(), block };
        let protected = seen.protected.then_some(Blocked::NodeAnnotation);
        Member {
            leaving: node.leaving,
            noted: node.noted,
            tainted: node.tainted,
            marked: node.marked,
            lost: node.lost,
            refused: (seen.failures == MOST_FAILURES).then(|| "forbidden".to_owned()),
            stuck: self.is_stuck(seen.not_undone),
            looked: seen.looked.map(at),
            obstacle: protected.or_else(|| seen.pdb_closed.then_some(spent)),
            newcomers: if seen.landed { vec!["default/late".to_owned()] } else { Vec::new() },
            ..member(&i.to_string())
        }
    }

    /// As the service would build it: from the proposal, or from the notes alone.
    fn view(&self, world: &World, mind: &Mind) -> View {
        let new = |initialized: Option<i64>, used, leaving| Replacement {
            used,
            leaving,
            stuck: self.is_stuck(mind.undropped),
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
            members: mind
                .members
                .iter()
                .filter(|i| !world.nodes[**i].gone)
                .map(|&i| self.member(world, mind, i))
                .collect(),
            replacements,
            memory: Memory {
                plan: mind.plan,
                validated: mind.validated,
                tainted: mind.tainted.map(at),
                ready: mind.ready.map(at),
                stale_reads: u32::from(mind.stale_reads),
                giving_up: mind.giving_up.then_some(Why::Abandoned),
            },
        }
    }
}

impl Write {
    fn takes_back(self) -> bool {
        matches!(self, Self::Unmark(_) | Self::Untaint(_) | Self::Unnote(_) | Self::Release(_))
    }

    /// The member it is about.
    fn node(self) -> Option<usize> {
        match self {
            Self::Order | Self::DropNew => None,
            Self::Note(i)
            | Self::Taint(i)
            | Self::Mark(i)
            | Self::Delete(i, _)
            | Self::Unmark(i)
            | Self::Untaint(i)
            | Self::Unnote(i)
            | Self::Release(i) => Some(i),
        }
    }
}
