//! Topology counts of one decision: the world's counts plus what was placed or taken away. Only what is touched is copied.

use packing::Bits;
use rustc_hash::FxHashMap;

use crate::topology::counts::Place;
use crate::topology::group::GroupId;
use crate::topology::groups::DomainId;
use crate::world::World;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    domains: FxHashMap<GroupId, DomainCounts>,
    hosts: FxHashMap<(GroupId, u32), (i32, i32)>,
    totals: FxHashMap<GroupId, i32>,
}

#[derive(Clone, Debug)]
struct DomainCounts {
    selected: Vec<i32>,
    stating: Vec<i32>,
}

impl Ledger {
    pub(crate) fn selected<'a>(&'a self, world: &'a World, group: GroupId) -> &'a [i32] {
        self.domains.get(&group).map_or(&world.counts[group as usize].selected[..], |c| &c.selected[..])
    }

    pub(crate) fn stating<'a>(&'a self, world: &'a World, group: GroupId) -> &'a [i32] {
        self.domains.get(&group).map_or(&world.counts[group as usize].stating[..], |c| &c.stating[..])
    }

    /// Selected and stating pods on a node that exists.
    pub(crate) fn on_host(&self, world: &World, group: GroupId, node: u32) -> (i32, i32) {
        let base = world.counts[group as usize].hosts.get(&node).copied().unwrap_or_default();
        let more = self.hosts.get(&(group, node)).copied().unwrap_or_default();
        (base.0 + more.0, base.1 + more.1)
    }

    /// Selected pods anywhere, new nodes included.
    pub(crate) fn total(&self, world: &World, group: GroupId) -> i32 {
        world.counts[group as usize].total + self.totals.get(&group).copied().unwrap_or(0)
    }

    pub(crate) fn on_nodes<'a>(&self, world: &'a World, group: GroupId) -> &'a Bits {
        &world.counts[group as usize].on_nodes
    }

    pub(crate) fn eligible<'a>(&self, world: &'a World, group: GroupId) -> &'a Bits {
        &world.counts[group as usize].eligible
    }

    pub(crate) fn add_total(&mut self, group: GroupId, by: i32) {
        *self.totals.entry(group).or_insert(0) += by;
    }

    pub(crate) fn add_selected(&mut self, world: &World, group: GroupId, place: Place, by: i32) {
        self.add_total(group, by);
        match place {
            Place::Host(node) => self.hosts.entry((group, node)).or_default().0 += by,
            Place::Domain(domain) => self.of_domain(world, group).selected[domain as usize] += by,
        }
    }

    pub(crate) fn add_stating(&mut self, world: &World, group: GroupId, place: Place, by: i32) {
        match place {
            Place::Host(node) => self.hosts.entry((group, node)).or_default().1 += by,
            Place::Domain(domain) => self.of_domain(world, group).stating[domain as usize] += by,
        }
    }

    /// For new nodes, whose own counts are kept with them.
    pub(crate) fn add_in_domain(&mut self, world: &World, group: GroupId, domain: DomainId, by: i32) {
        self.add_selected(world, group, Place::Domain(domain), by);
    }

    fn of_domain(&mut self, world: &World, group: GroupId) -> &mut DomainCounts {
        self.domains.entry(group).or_insert_with(|| {
            let base = &world.counts[group as usize];
            DomainCounts { selected: base.selected.clone(), stating: base.stating.clone() }
        })
    }
}
