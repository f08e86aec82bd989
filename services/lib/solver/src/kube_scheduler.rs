//! Where kube-scheduler would put the pods of removed nodes: a plan says where pods can go, the scheduler decides where they do.
//!
//! Filters are the engine's own rules (resources, taints, node affinity, pod affinity, spread, ports, volumes; preferences relaxed).
//! Scores are the scheduler's defaults NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation over processor time and
//! memory. One pod after the other, each onto the node with the highest score, in a given order: pods come back in the order in which
//! drains evict them, more or less.

use smallvec::SmallVec;

use crate::NodeId;
use crate::dims::{CPU, MEMORY};
use crate::engine::bin::Bin;
use crate::engine::choice::Choices;
use crate::engine::demand::{Demand, DemandId, Origin, demands};
use crate::engine::existing::ports_conflict;
use crate::engine::hosts::HostMinima;
use crate::engine::place::Fit;
use crate::engine::state::State;
use crate::options::Options;
use crate::plan::{NewNode, PodRef};
use crate::snapshot::Snapshot;
use crate::solve::pods_to_place;
use crate::world::World;
use packing::Bits;

/// The order in which pods arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As drains evict: by processor time, then memory.
    LargestFirst,
    /// Shuffled, equally for an equal seed.
    Shuffled(u64),
}

/// Where the pods went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    pub placed: Vec<(PodRef, Target)>,
    /// Pods that no node had room for when their turn came.
    pub left: Vec<PodRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Existing(NodeId),
    /// By its place in the list of new nodes.
    New(usize),
}

/// Places the pods of removed nodes, with the new nodes launched as planned and everything else as it is.
pub fn schedule(
    snapshot: &Snapshot,
    remove: &[NodeId],
    new_nodes: &[NewNode],
    order: Order,
    options: &Options,
) -> Scheduled {
    let world = &*snapshot.world;
    let removed: Vec<u32> = remove.iter().map(|node| node.0).collect();
    let moved = pods_to_place(world, &removed).filter(|(_, origin)| *origin == Origin::Moved);
    let demands = demands(world, Vec::new(), moved);
    // kube-scheduler knows no consolidateAfter window.
    let options = Options { protect_settling: false, ..options.clone() };
    let mut state = State::new(world, &options, &demands, &removed);
    let mut launches = Vec::with_capacity(new_nodes.len());
    for (number, node) in new_nodes.iter().enumerate() {
        let Some((bin, row)) = launched(world, node) else { continue };
        state.bins.push(bin);
        state.decide_domains(state.bins.len() - 1);
        launches.push((row, number));
    }
    let mut scheduled = Scheduled::default();
    for (demand, pod) in in_order(world, &demands, order) {
        let key = demands[demand as usize].pods[pod].key();
        match place(&mut state, demand, &launches) {
            Some(target) => scheduled.placed.push((key, target)),
            None => scheduled.left.push(key),
        }
    }
    scheduled
}

/// Each pod as its demand and its place in that.
fn in_order(world: &World, demands: &[Demand<'_>], order: Order) -> Vec<(DemandId, usize)> {
    let pods = |(id, demand): (usize, &Demand<'_>)| {
        let id = id as DemandId;
        (0..demand.pods.len()).map(move |pod| (id, pod))
    };
    // Demands are sorted by size already.
    let mut all: Vec<(DemandId, usize)> = demands
        .iter()
        .enumerate()
        .filter(|(_, d)| !world.classes.get(d.class).buffer)
        .flat_map(pods)
        .collect();
    if let Order::Shuffled(seed) = order {
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        for index in (1..all.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            all.swap(index, ((state >> 33) % (index as u64 + 1)) as usize);
        }
    }
    all
}

/// An empty node of exactly the launch that is planned, and its row in the table of types.
fn launched(world: &World, node: &NewNode) -> Option<(Bin, usize)> {
    let pool = world.pools.iter().position(|pool| pool.name == node.pool)?;
    let table = world.table(pool);
    let mut cells = Bits::new(world.cells.len());
    for (index, cell) in world.cells.list.iter().enumerate() {
        if cell.zone == node.launch.zone && cell.capacity_type == node.launch.capacity_type {
            cells.set(index);
        }
    }
    let of_type = |row: &usize| {
        let row = &table.rows[*row];
        row.name == node.launch.instance_type && row.cells.meets(&cells)
    };
    let row = (0..table.len()).find(of_type)?;
    let mut reach = world.pools[pool].base.clone();
    let mut rows = Bits::new(table.len());
    rows.set(row);
    reach.rows = rows;
    reach.cells.keep(&cells);
    Some((Bin::empty(pool, reach, world), row))
}

/// Onto the node with the highest score; of equal ones the first, existing nodes before new ones. `launches`: row and number of each
/// new node.
fn place(state: &mut State<'_>, demand: DemandId, launches: &[(usize, usize)]) -> Option<Target> {
    let world = state.world;
    let class = state.class_of(demand);
    // The last rung has only what is required.
    let rung = class.ladder(state.options.preferences).len().checked_sub(1)? as u16;
    let variant = state.variant(demand, rung);
    let choices = match variant.domain_groups.is_empty() && class.kept_from_domain.is_empty() {
        true => None,
        false => Some(state.choices(class, variant, 1)?),
    };
    let choices = choices.as_ref();
    let minima = state.host_minima(variant);
    let tolerated = world.tolerated(variant.tolerations);
    let dims = world.dims.len();
    let mut best: Option<(i64, Target)> = None;
    let mut offer = |score: i64, target: Target| {
        if best.is_none_or(|(known, _)| score > known) {
            best = Some((score, target));
        }
    };
    for block in 0..world.open.words().len() {
        let most = &world.block_most[block * dims..(block + 1) * dims];
        if class.requests.iter().zip(most).any(|(want, have)| *want > 0 && want > have) {
            continue;
        }
        let accepting = variant.asked.iter().fold(0, |all, set| all | world.accepting(*set).words()[block]);
        let mut bits = world.open.words()[block] & tolerated.words()[block] & accepting;
        while bits != 0 {
            let node = (block * 64) as u32 + bits.trailing_zeros();
            bits &= bits - 1;
            if state.room_on(demand, class, variant, node, choices, &minima) == 0 {
                continue;
            }
            let allocatable = &world.nodes[node as usize].allocatable;
            let free = world.free(node as usize);
            let touched = state.touched.get(&node);
            let used = |dim: usize| allocatable[dim] - free[dim] + touched.map_or(0, |t| t.used[dim]);
            offer(score(&class.requests, allocatable, used), Target::Existing(NodeId(node)));
        }
    }
    for (index, (bin, (row, _))) in state.bins.iter().zip(launches).enumerate() {
        if fits_new(state, demand, rung, bin, *row, choices, &minima) {
            let allocatable = &world.table(bin.pool).allocatable[row * dims..(row + 1) * dims];
            let room = world.pools[bin.pool].room(*row, dims);
            let used = |dim: usize| allocatable[dim] - room[dim] + bin.used[dim];
            offer(score(&class.requests, allocatable, used), Target::New(index));
        }
    }
    let (_, target) = best?;
    Some(match target {
        Target::Existing(node) => {
            state.put_on_node(demand, rung, node.0, 1);
            target
        }
        Target::New(index) => {
            let reach = state.bins[index].reach.clone();
            let most_room = SmallVec::from_elem(i64::MAX, dims);
            state.commit(demand, rung, index, Fit { reach, count: 1, min_values_relaxed: false, most_room });
            Target::New(launches[index].1)
        }
    })
}

fn fits_new(
    state: &State<'_>,
    demand: DemandId,
    rung: u16,
    bin: &Bin,
    row: usize,
    choices: Option<&Choices>,
    minima: &HostMinima,
) -> bool {
    let world = state.world;
    let (class, variant) = (state.class_of(demand), state.variant(demand, rung));
    let room = world.pools[bin.pool].room(row, world.dims.len());
    let has_room =
        class.requests.iter().zip(room).zip(&bin.used).all(|((want, room), used)| *want <= room - used);
    let accepts = |asked: &u32| {
        world
            .reach(*asked, bin.pool)
            .is_some_and(|own| own.rows.meets(&bin.reach.rows) && own.cells.meets(&bin.reach.cells))
    };
    let allowed = |choice: &crate::engine::choice::Choice| {
        let domain = bin.domains[choice.key];
        domain == crate::topology::groups::NO_DOMAIN || choice.allowed.has(domain as usize)
    };
    has_room
        && world.tolerates_pool(variant.tolerations, bin.pool)
        && variant.asked.iter().any(accepts)
        && state.host_room(class, variant, minima, |group| bin.selected(group)) > 0
        && !bin.states_any(&class.kept_from_host)
        && !ports_conflict(&class.ports, &bin.ports)
        && choices.is_none_or(|choices| choices.iter().all(allowed))
}

/// Of 200, higher is better: what is left free on average, and how alike the shares of both resources are.
fn score(requests: &[i64], allocatable: &[i64], used: impl Fn(usize) -> i64) -> i64 {
    let share = |dim: usize| {
        let all = allocatable[dim].max(1);
        let taken = (used(dim) + requests[dim]).clamp(0, all);
        i64::try_from(i128::from(taken) * 10_000 / i128::from(all)).unwrap_or(10_000)
    };
    let (cpu, memory) = (share(CPU), share(MEMORY));
    let least_allocated = ((10_000 - cpu) / 100 + (10_000 - memory) / 100) / 2;
    // The standard deviation of two shares is half their difference.
    let balanced = 100 - (cpu - memory).abs() / 200;
    least_allocated + balanced
}
