//! One pod after the other. Nodes that no pod was put on keep their rank, so that only the others are scored again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::ranking::{only_resources_decide, score};
use super::{Scheduler, Target};
use crate::NodeId;
use crate::classes::{ClassData, Variant};
use crate::engine::bin::Bin;
use crate::engine::choice::{Choice, Choices};
use crate::engine::demand::DemandId;
use crate::engine::existing::ports_conflict;
use crate::engine::hosts::HostMinima;
use crate::engine::place::Fit;
use crate::engine::state::State;
use crate::topology::groups::NO_DOMAIN;

/// A node that exists by its index, and new ones after these.
type Place = u32;

pub(super) struct Placing<'r> {
    scheduler: &'r Scheduler<'r>,
    state: State<'r>,
    /// Row of its type, and number, of each new node.
    launches: Vec<(usize, usize)>,
    /// Places whose scores changed, one entry for each change, and how often each has.
    changes: Vec<(Place, u32)>,
    versions: FxHashMap<Place, u32>,
    queues: Vec<Queue>,
}

/// What a demand knows of the places.
#[derive(Default)]
struct Queue {
    /// Ranked nodes before this one have changed.
    next_ranked: usize,
    /// Changes that are among the places.
    seen: usize,
    /// Changed places by score, then the first; those whose version has passed come again later on.
    changed: BinaryHeap<(i64, Reverse<Place>, u32)>,
    /// No place has the resources, and none will.
    is_over: bool,
}

/// A pod that asks for a place.
struct Arrival<'r> {
    demand: DemandId,
    class: &'r ClassData,
    variant: &'r Variant,
    choices: Option<Choices>,
    minima: HostMinima,
}

impl<'r> Placing<'r> {
    pub(super) fn new(scheduler: &'r Scheduler<'r>) -> Self {
        let state = State::new(scheduler.world, &scheduler.options, &scheduler.demands, &scheduler.removed);
        Self {
            scheduler,
            state,
            launches: Vec::new(),
            changes: Vec::new(),
            versions: FxHashMap::default(),
            queues: scheduler.demands.iter().map(|_| Queue::default()).collect(),
        }
    }

    pub(super) fn launch(&mut self, bin: Bin, row: usize, number: usize) {
        self.state.bins.push(bin);
        self.state.decide_domains(self.state.bins.len() - 1);
        self.launches.push((row, number));
        self.changed(self.place_of_bin(self.launches.len() - 1));
    }

    /// Onto the node with the highest score; of equal ones the first, existing nodes before new ones.
    pub(super) fn place(&mut self, demand: DemandId) -> Option<Target> {
        let (class, variant, rung) = self.scheduler.required(demand)?;
        let choices = match variant.domain_groups.is_empty() && class.kept_from_domain.is_empty() {
            true => None,
            false => Some(self.state.choices(class, variant, 1)?),
        };
        let minima = self.state.host_minima(variant);
        let arrival = Arrival { demand, class, variant, choices, minima };
        let mut queue = std::mem::take(&mut self.queues[demand as usize]);
        let found = if queue.is_over { None } else { self.best(&mut queue, &arrival) };
        self.queues[demand as usize] = queue;
        let place = found?;
        match self.bin_of(place) {
            None => {
                self.state.put_on_node(demand, rung, place, 1);
                self.changed(place);
                Some(Target::Existing(NodeId(place)))
            }
            Some(index) => {
                let reach = self.state.bins[index].reach.clone();
                let most_room = SmallVec::from_elem(i64::MAX, self.state.world.dims.len());
                let fit = Fit { reach, count: 1, min_values_relaxed: false, most_room };
                self.state.commit(demand, rung, index, fit);
                self.changed(place);
                Some(Target::New(self.launches[index].1))
            }
        }
    }

    fn best(&self, queue: &mut Queue, arrival: &Arrival<'_>) -> Option<Place> {
        let only_resources = only_resources_decide(arrival.class, arrival.variant);
        for &(place, version) in &self.changes[queue.seen..] {
            if self.versions[&place] == version {
                queue.changed.push((self.score(place, arrival.class), Reverse(place), version));
            }
        }
        queue.seen = self.changes.len();
        let mut best = self.best_unchanged(queue, arrival);
        let mut passed = Vec::new();
        while let Some(&(score, Reverse(place), version)) = queue.changed.peek() {
            if best.is_some_and(|(known, node)| (Reverse(known), node) < (Reverse(score), place)) {
                break;
            }
            queue.changed.pop();
            if self.versions[&place] != version {
                continue;
            }
            if self.accepts(place, arrival) {
                // It changes now, and comes again with its new score.
                best = Some((score, place));
                break;
            }
            if !only_resources {
                passed.push((score, Reverse(place), version));
            }
        }
        queue.changed.extend(passed);
        queue.is_over = best.is_none() && only_resources;
        best.map(|(_, place)| place)
    }

    fn best_unchanged(&self, queue: &mut Queue, arrival: &Arrival<'_>) -> Option<(i64, Place)> {
        let ranked = self.scheduler.ranked(arrival.demand);
        let has_changed = |node: u32| self.state.touched.contains_key(&node);
        while ranked.get(queue.next_ranked).is_some_and(|(_, node)| has_changed(*node)) {
            queue.next_ranked += 1;
        }
        let mut rest = ranked[queue.next_ranked..].iter().filter(|(_, node)| !has_changed(*node));
        let found = rest.find(|(_, node)| self.accepts(*node, arrival));
        found.map(|(Reverse(score), node)| (*score, *node))
    }

    fn changed(&mut self, place: Place) {
        let version = self.versions.entry(place).or_default();
        *version += 1;
        self.changes.push((place, *version));
    }

    fn place_of_bin(&self, index: usize) -> Place {
        (self.state.world.nodes.len() + index) as Place
    }

    fn bin_of(&self, place: Place) -> Option<usize> {
        (place as usize).checked_sub(self.state.world.nodes.len())
    }

    fn score(&self, place: Place, class: &ClassData) -> i64 {
        let world = self.state.world;
        let dims = world.dims.len();
        match self.bin_of(place) {
            None => {
                let allocatable = &world.nodes[place as usize].allocatable;
                let free = world.free(place as usize);
                let touched = self.state.touched.get(&place);
                let used = |dim: usize| allocatable[dim] - free[dim] + touched.map_or(0, |t| t.used[dim]);
                score(&class.requests, allocatable, used)
            }
            Some(index) => {
                let (bin, row) = (&self.state.bins[index], self.launches[index].0);
                let allocatable = &world.table(bin.pool).allocatable[row * dims..(row + 1) * dims];
                let room = world.pools[bin.pool].room(row, dims);
                score(&class.requests, allocatable, |dim| allocatable[dim] - room[dim] + bin.used[dim])
            }
        }
    }

    fn accepts(&self, place: Place, arrival: &Arrival<'_>) -> bool {
        let Arrival { demand, class, variant, ref choices, ref minima } = *arrival;
        match self.bin_of(place) {
            None => self.state.room_on(demand, class, variant, place, choices.as_ref(), minima) > 0,
            Some(index) => self.accepts_new(index, arrival),
        }
    }

    fn accepts_new(&self, index: usize, arrival: &Arrival<'_>) -> bool {
        let Arrival { class, variant, ref choices, ref minima, .. } = *arrival;
        let world = self.state.world;
        let (bin, row) = (&self.state.bins[index], self.launches[index].0);
        let room = world.pools[bin.pool].room(row, world.dims.len());
        let has_room =
            class.requests.iter().zip(room).zip(&bin.used).all(|((want, room), used)| *want <= room - used);
        let reaches = |asked: &u32| {
            world
                .reach(*asked, bin.pool)
                .is_some_and(|own| own.rows.meets(&bin.reach.rows) && own.cells.meets(&bin.reach.cells))
        };
        let allowed = |choice: &Choice| {
            let domain = bin.domains[choice.key];
            domain == NO_DOMAIN || choice.allowed.has(domain as usize)
        };
        has_room
            && world.tolerates_pool(variant.tolerations, bin.pool)
            && variant.asked.iter().any(reaches)
            && self.state.host_room(class, variant, minima, |group| bin.selected(group)) > 0
            && !bin.states_any(&class.kept_from_host)
            && !ports_conflict(&class.ports, &bin.ports)
            && choices.as_ref().is_none_or(|choices| choices.iter().all(allowed))
    }
}
