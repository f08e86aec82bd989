//! Our process in the small world: it sees what the objects say, asks [`next_step`], and writes one thing at a time. What must
//! hold at the irreversible step is asserted here.

use super::world::{End, Mind, New, Node, Process, Scenario, World, Write};
use super::*;

impl Scenario {
    pub(super) fn pass(&self, world: &mut World, valid: bool) {
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
            Step::Replace => {
                assert!(mind.plan, "{}: orders without knowing what: {world:?}", self.name);
                mind.writes.push(Write::Order);
            }
            Step::Delete(claims) => {
                let ready = match world.replacement {
                    New::Ready { since, .. } => since,
                    _ => 0,
                };
                let fresh = mind.looked.is_some_and(|looked| looked >= ready && world.time - looked <= 1);
                assert!(fresh, "{}: deletes without having looked right before: {world:?}", self.name);
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
    pub(super) fn delete(&self, world: &mut World, i: usize, version: u8, late: bool) {
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
            !late_here || self.has_own_pods(),
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
