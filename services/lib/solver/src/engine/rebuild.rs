//! Taking new nodes apart and putting them together again.

use model::catalog::CapacityType;
use smallvec::SmallVec;

use super::bin::Bin;
use super::choice::Choices;
use super::demand::DemandId;
use super::holds::Holds;
use super::state::State;
use crate::topology::counts::Place;
use crate::topology::groups::NO_DOMAIN;

impl<'w> State<'w> {
    /// The same decision about nodes that exist, and no new nodes: to be packed again by price.
    pub(crate) fn without_bins(&self) -> Self {
        let mut out = State::new(self.world, self.options, self.demands, &self.removed);
        out.cheapest_alternative = true;
        let mut nodes: Vec<u32> = self.touched.keys().copied().collect();
        nodes.sort_unstable();
        for node in nodes {
            for item in &self.touched[&node].items {
                out.put_on_node(item.demand, item.rung, node, item.count);
            }
        }
        out
    }

    /// Takes over a node of another decision as it is.
    pub(crate) fn adopt(&mut self, bin: Bin) {
        self.bins.push(bin);
        let index = self.bins.len() - 1;
        let world = self.world;
        for item in self.bins[index].items.clone() {
            let (class, variant) = (self.class_of(item.demand), self.variant(item.demand, item.rung));
            let by = i32::try_from(item.count).unwrap_or(i32::MAX);
            for &group in &class.selected {
                if world.groups.keys[world.topo_key_of(group)].host {
                    self.ledger.add_total(group, by);
                } else if let Some(domain) = self.bin_domain(index, group) {
                    self.ledger.add_in_domain(world, group, domain, by);
                }
            }
            for &group in &variant.stated_anti {
                let key = world.topo_key_of(group);
                let domain = self.bins[index].domains[key];
                if !world.groups.keys[key].host && domain != NO_DOMAIN {
                    self.ledger.add_stating(world, group, Place::Domain(domain), by);
                }
            }
        }
        self.charge(index);
    }

    /// As [`State::open_in`], without reservations.
    pub(crate) fn open_bought(
        &mut self,
        demand: DemandId,
        rung: u16,
        pool: usize,
        want: u32,
        choices: Option<&Choices>,
    ) -> Option<(usize, u32)> {
        let mut bin = self.empty_bin(pool)?;
        bin.reach.cells.remove(&self.world.cells.of_capacity_type(CapacityType::Reserved));
        let fit = self.fit_bin(demand, rung, &bin, want, choices, None)?;
        let count = fit.count;
        self.bins.push(bin);
        let index = self.bins.len() - 1;
        self.commit(demand, rung, index, fit);
        self.charge(index);
        Some((index, count))
    }

    /// Gives a node back every type that can hold its content, as far as its pool's limits have been charged for it.
    pub(crate) fn expand(&mut self, index: usize) {
        let world = self.world;
        let bin = &self.bins[index];
        let (pool, offer) = (bin.pool, world.offer(bin.pool));
        let mut reach = world.pools[pool].base.clone();
        reach.cells.keep(&bin.reach.cells);
        // Cells that the narrow row lacked are open again, but for what the pods asked.
        let mut cells = world.pools[pool].base.cells.clone();
        cells.remove(&world.cells.of_capacity_type(CapacityType::Reserved));
        for item in &bin.items {
            let variant = self.variant(item.demand, item.rung);
            let agreed = variant.asked.iter().find_map(|set| {
                world
                    .reach(*set, pool)
                    .filter(|own| bin.reach.rows.within(&own.rows) && bin.reach.cells.within(&own.cells))
            });
            let Some(own) = agreed else { return };
            reach.rows.keep(&own.rows);
            cells.keep(&own.cells);
            if !own.loose.is_empty() && !offer.merge_loose(&mut reach, &own.loose) {
                return;
            }
            if !self.class_of(item.demand).ports.is_empty() && !world.pools[pool].daemon_ports.is_empty() {
                return;
            }
        }
        reach.cells = cells;
        for loose in &bin.reach.loose {
            if !offer.merge_loose(&mut reach, std::slice::from_ref(loose)) {
                return;
            }
        }
        let mut held = Holds::new();
        for item in &bin.items {
            let Some(holds) = self.holds(bin, item.demand, item.rung) else { return };
            held.extend(holds.into_iter().filter(|hold| !held.contains(hold)).collect::<Holds>());
        }
        for hold in held {
            let allowed: SmallVec<[u32; 4]> = hold.allowed.iter().map(|d| d as u32).collect();
            match self.narrowed(pool, reach, hold.key, &allowed) {
                Some(narrow) => reach = narrow,
                None => return,
            }
        }
        for (limit, charged) in world.pools[pool].limits.iter().zip(&bin.charged) {
            for (row, amount) in limit.by_row.iter().enumerate() {
                if amount > charged {
                    reach.rows.unset(row);
                }
            }
        }
        let nothing = vec![0; world.dims.len()];
        let most_room = world.keep_fitting(pool, &mut reach, &bin.used, &nothing, 0);
        if let Some(most_room) = most_room
            && (bin.min_values_relaxed || self.has_min_values(pool, &reach))
        {
            let bin = &mut self.bins[index];
            bin.most_room = most_room;
            bin.reach = reach;
            self.forget_undecided(index);
        }
    }

    /// Domains that were decided only because the type was: open again, unless a pod needs them.
    fn forget_undecided(&mut self, index: usize) {
        let world = self.world;
        for (key, topo) in world.groups.keys.iter().enumerate() {
            let bin = &self.bins[index];
            if topo.host || bin.domains[key] == NO_DOMAIN {
                continue;
            }
            if world.offer(bin.pool).decided(&bin.reach, &topo.name).is_some() {
                continue;
            }
            let domain = bin.domains[key];
            for item in self.bins[index].items.clone() {
                let class = self.class_of(item.demand);
                let by = i32::try_from(item.count).unwrap_or(i32::MAX);
                for &group in class.selected.iter().filter(|g| world.topo_key_of(**g) == key) {
                    if self.counts_bin(&self.bins[index], group) {
                        self.ledger.add_in_domain(world, group, domain, -by);
                    }
                }
            }
            self.bins[index].domains[key] = NO_DOMAIN;
        }
    }
}
