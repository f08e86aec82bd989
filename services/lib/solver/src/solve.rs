//! The two questions: where do all pods go, and where would they go if some nodes went away.

use std::sync::Arc;

use model::pod::Pod;

use crate::NodeId;
use crate::bound::{self, Question};
use crate::deadline::Deadline;
use crate::engine::demand::{Demand, DemandId, Origin, demands};
use crate::engine::state::State;
use crate::explain::Explanation;
use crate::finish;
use crate::nodes::PodEntry;
use crate::options::{Effort, Options};
use crate::pack::by_price as pack;
use crate::pack::greedy::{self, Leftover};
use crate::pack::realize::cheapest_single;
use crate::plan::{Plan, PodRef, Unschedulable};
use crate::snapshot::Snapshot;
use crate::update::NeedsRebuild;
use crate::world::World;

/// Places every pod that has no node, or whose node is being deleted.
///
/// `keep_going` is asked between steps; once it says no, the best valid plan so far is returned.
pub fn solve(snapshot: &Snapshot, options: &Options, keep_going: &(dyn Fn() -> bool + Sync)) -> Plan {
    simulate(snapshot, &[], &[], options, keep_going)
}

/// First fit, decreasing, and nothing else: what plans are measured against, and never dearer than.
pub fn first_fit(snapshot: &Snapshot, options: &Options) -> Plan {
    let world = &*snapshot.world;
    let demands = demands(world, pending(world, options), pods_to_place(world, &[]));
    let (state, leftover) = place_all(world, options, &demands, &[], &|| true);
    let mut plan = finish::plan(&state, &leftover, None, &|| true);
    plan.unschedulable.extend(rejected(world));
    plan
}

/// As [`solve`], in a cluster without the nodes of `remove` and with `added` pods. Pods of removed nodes that can be moved
/// need new places; the work is proportional to what changes.
pub fn simulate(
    snapshot: &Snapshot,
    remove: &[NodeId],
    added: &[Pod],
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Plan {
    if !added.is_empty() {
        return match snapshot.with_pending(added) {
            Ok(wider) => simulate(&wider, remove, &[], options, keep_going),
            Err(NeedsRebuild) => unknown_to(snapshot, remove, added, options, keep_going),
        };
    }
    let world = &*snapshot.world;
    let removed: Vec<u32> = remove.iter().map(|node| node.0).collect();
    let demands = demands(world, pending(world, options), pods_to_place(world, &removed));
    let deadline = Deadline::new(keep_going);
    let mut plan = decide(world, options, &demands, &removed, &|| deadline.keep_going());
    plan.timed_out = deadline.passed();
    if options.report_pending {
        plan.unschedulable.extend(rejected(world));
    }
    plan
}

fn rejected(world: &World) -> impl Iterator<Item = Unschedulable> {
    let told = |(pod, why): &(PodRef, String)| Unschedulable {
        pod: pod.clone(),
        why: Arc::new(Explanation::rejected(why)),
    };
    world.rejected.iter().map(told)
}

/// Pods that the snapshot was not compiled for cannot be judged; everything else can.
fn unknown_to(
    snapshot: &Snapshot,
    remove: &[NodeId],
    added: &[Pod],
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Plan {
    let mut plan = simulate(snapshot, remove, &[], options, keep_going);
    let text =
        "asks for a resource, or states a selector, that this snapshot was not built with: build a new one";
    let why = Arc::new(Explanation::rejected(text));
    plan.unschedulable.extend(added.iter().map(|pod| Unschedulable {
        pod: PodRef { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) },
        why: Arc::clone(&why),
    }));
    plan
}

/// Pods that have no node: all of them, or only those that could have one where nobody asks about the others.
pub(crate) fn pending<'w>(world: &'w World, options: &Options) -> Vec<Demand<'w>> {
    let demands = world.backlog().demands(world, options.preferences);
    demands.filter(|demand| demand.placeable || options.report_pending).collect()
}

/// Pods that have a node now and need another.
pub(crate) fn pods_to_place<'w>(
    world: &'w World,
    removed: &[u32],
) -> impl Iterator<Item = (&'w PodEntry, Origin)> {
    let of_node = |node: &'w crate::nodes::NodeData| node.pods.iter().filter(|p| p.reschedulable);
    let deleting = world
        .deleting
        .iter()
        .filter(|n| !removed.contains(n))
        .flat_map(move |n| of_node(&world.nodes[*n as usize]).map(|p| (p, Origin::Deleting)));
    let moved =
        removed.iter().flat_map(move |n| of_node(&world.nodes[*n as usize]).map(|p| (p, Origin::Moved)));
    deleting.chain(moved)
}

fn decide(
    world: &World,
    options: &Options,
    demands: &[Demand<'_>],
    removed: &[u32],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Plan {
    let (state, leftover) = place_all(world, options, demands, removed, keep_going);
    if let (Effort::Quick, Some(cheaper)) = (options.effort, cheapest_single(&state)) {
        return finish::plan(&cheaper, &leftover, None, keep_going);
    }
    let full = options.effort == Effort::Full && !leftover.timed_out;
    let parts = pack::parts(&state, options.effort, keep_going);
    // Where packing is the whole problem, it proves its own bound.
    let whole =
        full && parts.as_ref().is_some_and(|parts| bound::is_whole(&state, parts, &leftover, keep_going));
    let question = if full && !whole { Question::of(&state, &leftover, keep_going) } else { None };
    let mut beside = None;
    let (better, proven) = rayon::in_place_scope(|scope| {
        if let Some(question) = question.as_ref().filter(|question| question.is_long()) {
            scope.spawn(|_| beside = question.answer(keep_going));
        }
        parts.map_or((None, None), |parts| pack::by_price(&state, &parts, options.effort, whole, keep_going))
    });
    let last = || question.filter(|question| !question.is_long())?.answer(keep_going);
    let bound = proven.or(beside).or_else(last);
    finish::plan(better.as_ref().unwrap_or(&state), &leftover, bound, keep_going)
}

/// Every pod that can be placed, first fit; the important ones first where not all can.
fn place_all<'w>(
    world: &'w World,
    options: &'w Options,
    demands: &'w [Demand<'w>],
    removed: &[u32],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> (State<'w>, Leftover) {
    let order: Vec<DemandId> = (0..demands.len() as DemandId).collect();
    let mut state = State::new(world, options, demands, removed);
    let mut leftover = greedy::run(&mut state, &order, keep_going);
    if let Some(order) = by_priority(world, demands, &leftover) {
        let mut other = State::new(world, options, demands, removed);
        let other_left = greedy::run(&mut other, &order, keep_going);
        if missed(world, demands, &other_left) < missed(world, demands, &leftover) {
            (state, leftover) = (other, other_left);
        }
    }
    (state, leftover)
}

/// An order that serves the important pods first, where not all can be served and they differ in importance.
fn by_priority(world: &World, demands: &[Demand<'_>], leftover: &Leftover) -> Option<Vec<DemandId>> {
    let priority = |d: DemandId| {
        let class = world.classes.get(demands[d as usize].class);
        (class.buffer, -i64::from(class.spec.priority))
    };
    let mut order: Vec<DemandId> = (0..demands.len() as DemandId).collect();
    let differ = order.windows(2).any(|w| priority(w[0]) != priority(w[1]));
    let some_left = demands.iter().zip(&leftover.counts).any(|(demand, left)| demand.placeable && *left > 0);
    (some_left && !leftover.timed_out && differ).then(|| {
        order.sort_by_key(|d| priority(*d));
        order
    })
}

/// Pods without a place, by importance, the most important first.
fn missed(world: &World, demands: &[Demand<'_>], leftover: &Leftover) -> Vec<(bool, i64, u32)> {
    let mut by_priority: std::collections::BTreeMap<(bool, i64), u32> = std::collections::BTreeMap::new();
    for (demand, count) in demands.iter().zip(&leftover.counts) {
        let class = world.classes.get(demand.class);
        *by_priority.entry((class.buffer, -i64::from(class.spec.priority))).or_default() += count;
    }
    by_priority.into_iter().map(|((buffer, priority), count)| (buffer, priority, count)).collect()
}

/// Many what-if questions against one snapshot, on all cores; answers in the order of the questions.
pub fn simulate_many(
    snapshot: &Snapshot,
    removals: &[Vec<NodeId>],
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Vec<Plan> {
    use rayon::prelude::*;
    removals.par_iter().map(|remove| simulate(snapshot, remove, &[], options, keep_going)).collect()
}
