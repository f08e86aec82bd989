//! Nodes that exist: who fits where, and putting pods there.

use model::pod::HostPort;
use smallvec::SmallVec;

use super::bin::Item;
use super::choice::Choices;
use super::demand::{DemandId, Origin};
use super::hosts::HostMinima;
use super::state::{State, Touched};
use crate::classes::{ClassData, Variant};
use crate::dims::{CPU, MEMORY, PODS};
use crate::topology::groups::NO_DOMAIN;

pub(crate) fn ports_conflict(a: &[HostPort], b: &[HostPort]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.conflicts(y)))
}

/// Whether there is room for one pod. A node that is over-full in an ordinary resource takes nothing, even what does not use it.
pub(crate) fn takes_one(requests: &[i64], free: &[i64]) -> bool {
    let mut rows = requests.iter().zip(free).enumerate();
    rows.all(|(dim, (want, have))| want <= have || (*want == 0 && !matches!(dim, CPU | MEMORY | PODS)))
}

impl State<'_> {
    /// Puts up to `want` pods onto nodes in their order; with choices, onto the first node that takes any. Returns how many.
    pub(crate) fn fill_existing(
        &mut self,
        demand: DemandId,
        rung: u16,
        want: u32,
        choices: Option<&Choices>,
    ) -> u32 {
        if self.world.nodes.is_empty() {
            return 0;
        }
        let (origin, variant) = (self.demands[demand as usize].origin, self.variant(demand, rung));
        let mut minima = self.minima_for(origin, variant);
        let mut placed = 0;
        loop {
            let more = self.fill_once(demand, rung, want - placed, choices, &minima);
            placed += more;
            if more == 0 || placed == want || choices.is_some() {
                return placed;
            }
            // Where every node of a hostname spread has got a pod, each may have one more.
            let higher = self.minima_for(origin, variant);
            if higher == minima {
                return placed;
            }
            minima = higher;
        }
    }

    fn fill_once(
        &mut self,
        demand: DemandId,
        rung: u16,
        want: u32,
        choices: Option<&Choices>,
        minima: &HostMinima,
    ) -> u32 {
        let world = self.world;
        let (class, variant) = (self.class_of(demand), self.variant(demand, rung));
        let tolerated = world.tolerated(variant.tolerations);
        let dims = world.dims.len();
        let mut placed = 0;
        for block in 0..world.open.words().len() {
            let mut bits = world.open.words()[block] & tolerated.words()[block];
            if bits == 0 {
                continue;
            }
            let most = &world.block_most[block * dims..(block + 1) * dims];
            if class.requests.iter().zip(most).any(|(want, have)| *want > 0 && want > have) {
                continue;
            }
            let accepting =
                variant.asked.iter().fold(0, |all, set| all | world.accepting(*set).words()[block]);
            bits &= accepting;
            while bits != 0 {
                let node = (block * 64) as u32 + bits.trailing_zeros();
                bits &= bits - 1;
                let count = self.room_on(demand, class, variant, node, choices, minima).min(want - placed);
                if count == 0 {
                    continue;
                }
                self.put_on_node(demand, rung, node, count);
                placed += count;
                if placed == want || choices.is_some() {
                    return placed;
                }
            }
        }
        placed
    }

    /// How many pods of the class the node takes.
    pub(crate) fn room_on(
        &self,
        demand: DemandId,
        class: &ClassData,
        variant: &Variant,
        node: u32,
        choices: Option<&Choices>,
        minima: &HostMinima,
    ) -> u32 {
        let world = self.world;
        let free = world.free(node as usize);
        // Most nodes are refused here, before anything else is looked up.
        if !takes_one(&class.requests, free) {
            return 0;
        }
        let touched = self.touched.get(&node);
        let mut most = i64::from(u32::MAX);
        for (dim, (&want, &have)) in class.requests.iter().zip(free).enumerate() {
            let have = have - touched.map_or(0, |t| t.used[dim]);
            // A node that is over-full in an ordinary resource takes nothing, even what does not use it.
            if have < 0 && (want > 0 || matches!(dim, CPU | MEMORY | PODS)) {
                return 0;
            }
            if want > 0 {
                most = most.min(have / want);
            }
        }
        if most == 0 || self.removed.binary_search(&node).is_ok() {
            return 0;
        }
        let mut most = u32::try_from(most).unwrap_or(u32::MAX);
        let data = &world.nodes[node as usize];
        if self.options.protect_settling
            && data.settling
            && data.managed
            && self.demands[demand as usize].origin == Origin::Moved
        {
            return 0;
        }
        if !class.ports.is_empty() {
            let added = touched.map_or(&[][..], |t| &t.ports);
            if ports_conflict(&class.ports, &data.ports) || ports_conflict(&class.ports, added) {
                return 0;
            }
            most = 1;
        }
        if !class.attachments.is_empty() && !self.attaches(class, node) {
            return 0;
        }
        for choice in choices.into_iter().flatten() {
            let domain = world.node_domains[choice.key][node as usize];
            if domain == NO_DOMAIN {
                // Only rules that the pod states itself need the label.
                let states = variant.domain_groups.iter().any(|g| world.topo_key_of(*g) == choice.key);
                if states {
                    return 0;
                }
                continue;
            }
            if !choice.allowed.has(domain as usize) {
                return 0;
            }
            most = most.min(choice.quota_of(domain));
        }
        if class.kept_from_host.iter().any(|group| self.ledger.on_host(world, *group, node).1 > 0) {
            return 0;
        }
        most.min(self.host_room(class, variant, minima, |group| self.ledger.on_host(world, group, node).0))
    }

    fn attaches(&self, class: &ClassData, node: u32) -> bool {
        let data = &self.world.nodes[node as usize];
        let touched = self.touched.get(&node);
        data.csi_limits.iter().all(|(driver, limit)| {
            let mut claims: SmallVec<[&str; 8]> =
                class.attachments.iter().filter(|a| a.0 == *driver).map(|a| &*a.1).collect();
            if claims.is_empty() {
                return true;
            }
            let present = data.attachments.iter().filter(|a| a.0 == *driver).map(|a| &*a.1);
            claims.extend(present);
            for &other in touched.into_iter().flat_map(|t| &t.attached) {
                let other = &self.world.classes.get(other).attachments;
                claims.extend(other.iter().filter(|a| a.0 == *driver).map(|a| &*a.1));
            }
            claims.sort_unstable();
            claims.dedup();
            claims.len() <= *limit as usize
        })
    }

    pub(crate) fn put_on_node(&mut self, demand: DemandId, rung: u16, node: u32, count: u32) {
        let (class, variant) = (self.class_of(demand), self.variant(demand, rung));
        let class_id = self.demands[demand as usize].class;
        let dims = self.world.dims.len();
        let touched = self
            .touched
            .entry(node)
            .or_insert_with(|| Touched { used: SmallVec::from_elem(0, dims), ..Touched::default() });
        for (used, amount) in touched.used.iter_mut().zip(&class.requests) {
            *used = used.saturating_add(amount.saturating_mul(i64::from(count)));
        }
        touched.ports.extend(class.ports.iter().copied());
        if !class.attachments.is_empty() {
            touched.attached.push(class_id);
        }
        match touched.items.iter_mut().find(|i| i.demand == demand && i.rung == rung) {
            Some(item) => item.count += count,
            None => touched.items.push(Item { demand, rung, count }),
        }
        let by = i32::try_from(count).unwrap_or(i32::MAX);
        for &group in &class.selected {
            if let Some(place) = self.world.place_of(group, node) {
                self.ledger.add_selected(self.world, group, place, by);
            }
        }
        for &group in &variant.stated_anti {
            if let Some(place) = self.world.place_of(group, node) {
                self.ledger.add_stating(self.world, group, place, by);
            }
        }
    }
}
