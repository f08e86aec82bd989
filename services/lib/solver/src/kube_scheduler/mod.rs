//! Where kube-scheduler would put the pods of removed nodes: a plan says where pods can go, the scheduler decides where they do.
//!
//! Filters are the engine's own rules (resources, taints, node affinity, pod affinity, spread, ports, volumes; preferences relaxed).
//! Scores are the scheduler's defaults NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation over processor time and
//! memory. One pod after the other, each onto the node with the highest score. Pods that wait already and pods of nodes that are being
//! deleted compete for the same room. The scheduler takes pods of a higher priority first; within one priority they come in a given
//! order: that in which drains evict them, more or less.

mod placing;
mod ranking;

use std::cell::OnceCell;
use std::cmp::Reverse;

use crate::NodeId;
use crate::engine::bin::Bin;
use crate::engine::demand::{Demand, DemandId, Origin, demands};
use crate::options::Options;
use crate::plan::{NewNode, PodRef};
use crate::snapshot::Snapshot;
use crate::solve::{pending, pods_to_place};
use crate::world::World;
use packing::Bits;
use placing::Placing;
use ranking::Ranked;

/// The order in which pods of one priority arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those that wait already, then the others as drains evict them: by processor time, then memory.
    LargestFirst,
    /// Shuffled, equally for an equal seed.
    Shuffled(u64),
}

/// Where the pods went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    pub placed: Vec<(PodRef, Target)>,
    /// Pods that have a node now, and that no node had room for when their turn came.
    pub left: Vec<PodRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Existing(NodeId),
    /// By its place in the list of new nodes.
    New(usize),
}

/// A cluster in which some nodes are removed. It can be asked about several orders and new nodes.
pub struct Scheduler<'s> {
    world: &'s World,
    options: Options,
    demands: Vec<Demand<'s>>,
    removed: Vec<u32>,
    /// By demand: nodes with room for such a pod before any was placed, the best first.
    ranked: Vec<OnceCell<Vec<Ranked>>>,
}

impl<'s> Scheduler<'s> {
    pub fn new(snapshot: &'s Snapshot, remove: &[NodeId], options: &Options) -> Self {
        let world = &*snapshot.world;
        let mut removed: Vec<u32> = remove.iter().map(|node| node.0).collect();
        removed.sort_unstable();
        let could_run = |demand: &Demand<'_>| demand.placeable && !world.classes.get(demand.class).buffer;
        let waiting = pending(world, options).into_iter().filter(could_run).collect();
        let demands = demands(world, waiting, pods_to_place(world, &removed));
        // kube-scheduler knows no consolidateAfter window.
        let options = Options { protect_settling: false, ..options.clone() };
        let ranked = demands.iter().map(|_| OnceCell::new()).collect();
        Self { world, options, demands, removed, ranked }
    }

    /// Places the pods, with the new nodes launched as planned and everything else as it is.
    pub fn schedule(&self, new_nodes: &[NewNode], order: Order) -> Scheduled {
        let mut placing = Placing::new(self);
        for (number, node) in new_nodes.iter().enumerate() {
            if let Some((bin, row)) = launched(self.world, node) {
                placing.launch(bin, row, number);
            }
        }
        let mut scheduled = Scheduled::default();
        for (id, pod) in self.arrivals(order) {
            let demand = &self.demands[id as usize];
            match placing.place(id) {
                Some(target) => scheduled.placed.push((demand.pods[pod].key(), target)),
                None if demand.origin == Origin::Pending => {}
                None => scheduled.left.push(demand.pods[pod].key()),
            }
        }
        scheduled
    }

    /// Each pod as its demand and its place in that.
    fn arrivals(&self, order: Order) -> Vec<(DemandId, usize)> {
        let pods = |(id, demand): (usize, &Demand<'_>)| {
            let id = id as DemandId;
            (0..demand.pods.len()).map(move |pod| (id, pod))
        };
        let class = |demand: &Demand<'_>| self.world.classes.get(demand.class);
        // Demands are sorted by size already.
        let demands = self.demands.iter().enumerate().filter(|(_, demand)| !class(demand).buffer);
        let mut all: Vec<(DemandId, usize)> = demands.flat_map(pods).collect();
        if let Order::Shuffled(seed) = order {
            shuffle(&mut all, seed);
        }
        all.sort_by_key(|(id, _)| {
            let demand = &self.demands[*id as usize];
            let evicted = order == Order::LargestFirst && demand.origin != Origin::Pending;
            (Reverse(class(demand).spec.priority), evicted)
        });
        all
    }
}

fn shuffle<T>(all: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    for index in (1..all.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        all.swap(index, ((state >> 33) % (index as u64 + 1)) as usize);
    }
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
