//! New nodes: adding pods to one that is being filled, and opening another.

use model::catalog::CapacityType;
use packing::Bits;
use smallvec::SmallVec;

use super::bin::Bin;
use super::choice::Choices;
use super::demand::DemandId;
use super::existing::ports_conflict;
use super::hosts::HostMinima;
use super::state::State;
use crate::classes::ClassData;
use crate::options::MinValuesPolicy;
use crate::reach::Reach;
use crate::topology::groups::{DomainId, NO_DOMAIN};

/// A way to put pods on a new node.
pub(crate) struct Fit {
    pub(crate) reach: Reach,
    pub(crate) count: u32,
    pub(crate) min_values_relaxed: bool,
    /// As [`Bin::most_room`], with the pods there.
    pub(crate) most_room: SmallVec<[i64; 4]>,
}

impl State<'_> {
    /// How up to `want` pods would go onto a bin; `None` if not even one does. With `within`, only rows of that set count.
    pub(crate) fn fit_bin(
        &self,
        demand: DemandId,
        rung: u16,
        bin: &Bin,
        want: u32,
        choices: Option<&Choices>,
        within: Option<&Bits>,
    ) -> Option<Fit> {
        let (class, variant) = (self.class_of(demand), self.variant(demand, rung));
        if class.requests.iter().zip(&bin.most_room).any(|(want, have)| want > have) {
            return None;
        }
        let cap =
            self.host_room(class, variant, &HostMinima::default(), |group| bin.selected(group)).min(want);
        let cap = if class.ports.is_empty() { cap } else { cap.min(1) };
        if cap == 0
            || bin.states_any(&class.kept_from_host)
            || ports_conflict(&class.ports, &bin.ports)
            || !self.world.tolerates_pool(variant.tolerations, bin.pool)
        {
            return None;
        }
        let mut best: Option<(std::cmp::Reverse<u32>, i64, Fit)> = None;
        for &asked in &variant.asked {
            let Some(own) = self.world.reach(asked, bin.pool) else { continue };
            if !own.rows.meets(&bin.reach.rows) || !own.cells.meets(&bin.reach.cells) {
                continue;
            }
            let mut reach = Reach {
                rows: bin.reach.rows.and(&own.rows),
                cells: bin.reach.cells.and(&own.cells),
                loose: bin.reach.loose.clone(),
            };
            if let Some(within) = within {
                reach.rows.keep(within);
            }
            if !own.loose.is_empty() && !self.world.offer(bin.pool).merge_loose(&mut reach, &own.loose) {
                continue;
            }
            self.drop_daemon_conflicts(class, bin.pool, &mut reach);
            let found = self.settle(class, reach, choices.map_or(&[], |c| c), cap, bin);
            if variant.asked.len() == 1 || !self.cheapest_alternative {
                if found.is_some() {
                    return found;
                }
                continue;
            }
            // The alternative that takes the most, and of those the cheapest.
            let Some(found) = found else { continue };
            let price = self.launch(bin.pool, &found.reach).map_or(i64::MAX, |launch| launch.price);
            let rank = (std::cmp::Reverse(found.count), price);
            if best.as_ref().is_none_or(|known| rank < (known.0, known.1)) {
                best = Some((rank.0, rank.1, found));
            }
        }
        best.map(|(_, _, fit)| fit)
    }

    /// Decides domains one key after the other, best first, and keeps what has room.
    fn settle(
        &self,
        class: &ClassData,
        reach: Reach,
        choices: &[super::choice::Choice],
        cap: u32,
        bin: &Bin,
    ) -> Option<Fit> {
        let Some((choice, rest)) = choices.split_first() else {
            return self.fit_rows(class, bin, reach, cap);
        };
        let decided = bin.domains[choice.key];
        if decided != NO_DOMAIN {
            if !choice.allowed.has(decided as usize) {
                return None;
            }
            let cap = cap.min(choice.quota_of(decided));
            return self.settle(class, reach, rest, cap, bin);
        }
        if !choice.pin {
            let domains: SmallVec<[DomainId; 4]> = choice.order.clone();
            let reach = self.narrowed(bin.pool, reach, choice.key, &domains)?;
            return self.settle(class, reach, rest, cap, bin);
        }
        for (&domain, &quota) in choice.order.iter().zip(&choice.quota) {
            let Some(narrow) = self.narrowed(bin.pool, reach.clone(), choice.key, &[domain]) else {
                continue;
            };
            if let Some(fit) = self.settle(class, narrow, rest, cap.min(quota), bin) {
                return Some(fit);
            }
        }
        None
    }

    fn fit_rows(&self, class: &ClassData, bin: &Bin, mut reach: Reach, cap: u32) -> Option<Fit> {
        let (world, pool, used, opening) = (self.world, bin.pool, &bin.used, bin.pods == 0);
        let mut count = cap;
        if cap > 1 {
            count = cap.min(world.most_that_fit(pool, &reach, used, &class.requests));
            if count == 0 {
                return None;
            }
        }
        if world.pools[pool].min_values.is_empty() {
            let most_room = world.keep_fitting(pool, &mut reach, used, &class.requests, count)?;
            return Some(Fit { reach, count, min_values_relaxed: false, most_room });
        }
        // Fewer pods leave more rows: the most that still leaves enough different ones.
        let try_count = |count: u32| {
            let mut narrow = reach.clone();
            let most_room = world.keep_fitting(pool, &mut narrow, used, &class.requests, count)?;
            Some((narrow, most_room))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match try_count(middle) {
                Some((narrow, _)) if self.has_min_values(pool, &narrow) => low = middle,
                _ => high = middle - 1,
            }
        }
        if low > 0 {
            let (reach, most_room) = try_count(low)?;
            return Some(Fit { reach, count: low, min_values_relaxed: false, most_room });
        }
        if opening && self.options.min_values == MinValuesPolicy::BestEffort {
            let (reach, most_room) = try_count(1)?;
            return Some(Fit { reach, count: 1, min_values_relaxed: true, most_room });
        }
        None
    }

    fn drop_daemon_conflicts(&self, class: &ClassData, pool: usize, reach: &mut Reach) {
        let ports = &self.world.pools[pool].daemon_ports;
        if class.ports.is_empty() || ports.is_empty() {
            return;
        }
        for (row, taken) in ports.iter().enumerate() {
            if reach.rows.has(row) && ports_conflict(&class.ports, taken) {
                reach.rows.unset(row);
            }
        }
    }

    /// Puts pods onto an open bin as found by [`State::fit_bin`].
    pub(crate) fn commit(&mut self, demand: DemandId, rung: u16, bin: usize, fit: Fit) {
        let (class, variant) = (self.class_of(demand), self.variant(demand, rung));
        let world = self.world;
        let by = i32::try_from(fit.count).unwrap_or(i32::MAX);
        let target = &mut self.bins[bin];
        target.reach = fit.reach;
        for (used, amount) in target.used.iter_mut().zip(&class.requests) {
            *used = used.saturating_add(amount.saturating_mul(i64::from(fit.count)));
        }
        target.most_room = fit.most_room;
        target.ports.extend(class.ports.iter().copied());
        target.min_values_relaxed |= fit.min_values_relaxed;
        // Pods that were here before their domain was decided are counted now.
        self.decide_domains(bin);
        let target = &mut self.bins[bin];
        target.add_item(demand, rung, fit.count);
        for &group in &class.selected {
            if world.groups.keys[world.topo_key_of(group)].host {
                self.bins[bin].add_selected(group, by);
                self.ledger.add_total(group, by);
            } else if let Some(domain) = self.bin_domain(bin, group) {
                self.ledger.add_in_domain(world, group, domain, by);
            }
        }
        for &group in &variant.stated_anti {
            let key = world.topo_key_of(group);
            if world.groups.keys[key].host {
                self.bins[bin].add_stating(group, by);
            } else if self.bins[bin].domains[key] != NO_DOMAIN {
                let place = crate::topology::counts::Place::Domain(self.bins[bin].domains[key]);
                self.ledger.add_stating(world, group, place, by);
            }
        }
    }

    /// The domain in which a group counts the bin's pods, if that is decided and the group counts the bin.
    pub(crate) fn bin_domain(&self, bin: usize, group: u32) -> Option<DomainId> {
        let target = &self.bins[bin];
        let domain = target.domains[self.world.topo_key_of(group)];
        (domain != NO_DOMAIN && self.counts_bin(target, group)).then_some(domain)
    }

    pub(crate) fn counts_bin(&self, bin: &Bin, group: u32) -> bool {
        let Some((any_of, tolerations)) = &self.world.groups.get(group).filter else { return true };
        let meets = |set: &u32| {
            self.world
                .reach(*set, bin.pool)
                .is_some_and(|own| own.rows.meets(&bin.reach.rows) && own.cells.meets(&bin.reach.cells))
        };
        (any_of.is_empty() || any_of.iter().any(meets))
            && tolerations.is_none_or(|set| self.world.tolerates_pool(set, bin.pool))
    }

    pub(crate) fn decide_domains(&mut self, bin: usize) {
        let world = self.world;
        for (key, topo) in world.groups.keys.iter().enumerate() {
            if topo.host || self.bins[bin].domains[key] != NO_DOMAIN {
                continue;
            }
            let target = &self.bins[bin];
            let offer = world.offer(target.pool);
            let Some(domain) = offer.decided(&target.reach, &topo.name).and_then(|value| topo.domain(value))
            else {
                continue;
            };
            self.bins[bin].domains[key] = domain;
            let items = self.bins[bin].items.clone();
            for item in items {
                let class = self.class_of(item.demand);
                for &group in class.selected.iter().filter(|g| world.topo_key_of(**g) == key) {
                    if self.counts_bin(&self.bins[bin], group) {
                        let by = i32::try_from(item.count).unwrap_or(i32::MAX);
                        self.ledger.add_in_domain(world, group, domain, by);
                    }
                }
            }
        }
    }

    /// Opens a node for up to `want` pods in the first pool that takes any; `None` if no pool does. Returns the bin and how
    /// many it took.
    pub(crate) fn open(
        &mut self,
        demand: DemandId,
        rung: u16,
        want: u32,
        choices: Option<&Choices>,
    ) -> Option<(usize, u32)> {
        for pool in 0..self.world.pools.len() {
            if let Some(opened) = self.open_in(demand, rung, pool, want, choices) {
                return Some(opened);
            }
        }
        None
    }

    pub(crate) fn open_in(
        &mut self,
        demand: DemandId,
        rung: u16,
        pool: usize,
        want: u32,
        choices: Option<&Choices>,
    ) -> Option<(usize, u32)> {
        let empty = self.empty_bin(pool)?;
        let (bin, fit) = self.fit_new(demand, rung, empty, want, choices)?;
        let count = fit.count;
        self.bins.push(bin);
        let index = self.bins.len() - 1;
        self.commit(demand, rung, index, fit);
        self.charge(index);
        Some((index, count))
    }

    /// A node of the pool with nothing on it; `None` if its limits allow no more.
    pub(crate) fn empty_bin(&self, pool: usize) -> Option<Bin> {
        let world = self.world;
        let data = &world.pools[pool];
        let (left, nodes) = &self.limits[pool];
        if !data.usable || nodes.is_some_and(|n| n <= 0) {
            return None;
        }
        let mut reach = data.base.clone();
        if let Some(steer) = &self.steer[pool] {
            reach.rows.keep(steer);
        }
        data.keep_within_limits(left, &mut reach.rows);
        if reach.rows.is_empty() {
            return None;
        }
        Some(Bin::empty(pool, reach, world))
    }

    /// Reserved capacity first, where the pool and the pods allow it and some is left; otherwise bought capacity.
    fn fit_new(
        &self,
        demand: DemandId,
        rung: u16,
        mut bin: Bin,
        want: u32,
        choices: Option<&Choices>,
    ) -> Option<(Bin, Fit)> {
        let world = self.world;
        let reserved = world.cells.of_capacity_type(CapacityType::Reserved);
        if bin.reach.cells.meets(&reserved) {
            if self.options.use_reserved {
                let mut best: Option<(i64, std::cmp::Reverse<u32>, usize, Fit)> = None;
                for (id, _) in self.reservations.iter().enumerate().filter(|(_, left)| **left > 0) {
                    let mut own = bin.clone();
                    own.reach.cells.keep(&self.cells_of_reservation(id));
                    if own.reach.cells.is_empty() {
                        continue;
                    }
                    if let Some(fit) = self.fit_bin(demand, rung, &own, want, choices, None) {
                        let price = self.least_price(bin.pool, &fit.reach);
                        let rank = (price, std::cmp::Reverse(fit.count), id);
                        if best.as_ref().is_none_or(|b| rank < (b.0, b.1, b.2)) {
                            best = Some((rank.0, rank.1, rank.2, fit));
                        }
                    }
                }
                if let Some((_, _, id, fit)) = best {
                    bin.reach.cells.keep(&self.cells_of_reservation(id));
                    bin.reservation = Some(id);
                    return Some((bin, fit));
                }
            }
            bin.reach.cells.remove(&reserved);
            if bin.reach.cells.is_empty() {
                return None;
            }
        }
        let fit = self.fit_bin(demand, rung, &bin, want, choices, None)?;
        Some((bin, fit))
    }

    fn cells_of_reservation(&self, id: usize) -> Bits {
        let mut out = Bits::new(self.world.cells.len());
        for (cell, data) in self.world.cells.list.iter().enumerate() {
            if data.reservation == Some(id) {
                out.set(cell);
            }
        }
        out
    }

    /// Cheapest offering of the reach.
    pub(crate) fn least_price(&self, pool: usize, reach: &Reach) -> i64 {
        let table = self.world.table(pool);
        let rows = reach.rows.iter();
        rows.flat_map(|row| reach.cells.iter().map(move |cell| table.price(row, cell)))
            .min()
            .unwrap_or(i64::MAX)
    }
}

impl State<'_> {
    /// Decides the domain of a bin; false if it cannot be in that one.
    pub(crate) fn pin(
        &mut self,
        bin: usize,
        key: crate::topology::groups::TopoKeyId,
        domain: DomainId,
    ) -> bool {
        let target = &self.bins[bin];
        let Some(mut reach) = self.narrowed(target.pool, target.reach.clone(), key, &[domain]) else {
            return false;
        };
        let nothing: SmallVec<[i64; 8]> = SmallVec::from_elem(0, self.world.dims.len());
        if self.world.keep_fitting(target.pool, &mut reach, &target.used, &nothing, 1).is_none()
            || (!target.min_values_relaxed && !self.has_min_values(target.pool, &reach))
        {
            return false;
        }
        self.bins[bin].reach = reach;
        self.decide_domains(bin);
        true
    }
}
