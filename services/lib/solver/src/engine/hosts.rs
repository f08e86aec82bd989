//! How many pods hostname rules let onto one node.

use smallvec::SmallVec;

use super::demand::Origin;
use super::state::State;
use crate::classes::{ClassData, Variant};
use crate::topology::group::{GroupId, Kind};

/// By hostname spread of a pod: the fewest pods that any node has which is a domain of it. Zero for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostMinima(SmallVec<[(GroupId, i32); 2]>);

impl HostMinima {
    fn of(&self, group: GroupId) -> i32 {
        self.0.iter().find(|(known, _)| *known == group).map_or(0, |(_, least)| *least)
    }
}

impl State<'_> {
    /// What counts as the minimum when a pod looks for room on nodes that exist. Pending pods go where kube-scheduler lets them.
    /// Pods that must move stay as far apart as if an empty node were there, which can always be made (Karpenter: hostname
    /// spread): consolidation never gathers replicas on fewer nodes than their skew asks for.
    pub(crate) fn minima_for(&self, origin: Origin, variant: &Variant) -> HostMinima {
        match origin {
            Origin::Pending => self.host_minima(variant),
            Origin::Deleting | Origin::Moved => HostMinima::default(),
        }
    }

    /// kube-scheduler: PodTopologySpread, the global minimum of each hostname constraint.
    pub(crate) fn host_minima(&self, variant: &Variant) -> HostMinima {
        let of = |group: &GroupId| match self.world.groups.get(*group).rule.kind {
            Kind::Spread { min_domains, .. } => Some((*group, self.host_minimum(*group, min_domains))),
            Kind::Affinity | Kind::AntiAffinity { .. } => None,
        };
        let minima = variant.host_groups.iter().filter_map(of);
        HostMinima(minima.filter(|(_, least)| *least > 0).collect())
    }

    fn host_minimum(&self, group: GroupId, min_domains: Option<u32>) -> i32 {
        let world = self.world;
        let as_it_stands = world.host_levels(group);
        if as_it_stands.empty() > self.removed.len() + self.touched.len() {
            return 0;
        }
        let mut levels = as_it_stands.clone();
        let before = |node: u32| world.counts[group as usize].hosts.get(&node).map_or(0, |host| host.0);
        for &node in self.removed.iter().filter(|node| world.is_host_domain(group, **node)) {
            levels.take(before(node));
            if world.nodes[node as usize].registered {
                levels.take_registered();
            }
        }
        for &node in self.touched.keys().filter(|node| world.is_host_domain(group, **node)) {
            levels.take(before(node));
            levels.add(self.ledger.on_host(world, group, node).0);
        }
        for bin in self.bins.iter().filter(|bin| self.counts_bin(bin, group)) {
            levels.add(bin.selected(group));
        }
        // A node that starts is no domain to begin with.
        if levels.registered() < min_domains.unwrap_or(1) { 0 } else { levels.least() }
    }

    /// What the pod's own hostname rules allow on a host with the given counts of selected pods.
    pub(crate) fn host_room(
        &self,
        class: &ClassData,
        variant: &Variant,
        minima: &HostMinima,
        here: impl Fn(GroupId) -> i32,
    ) -> u32 {
        let mut most = u32::MAX;
        for &group in &variant.host_groups {
            let own = class.selected.binary_search(&group).is_ok();
            let kind = self.world.groups.get(group).rule.kind;
            let elsewhere = match kind {
                Kind::Spread { .. } => minima.of(group),
                Kind::Affinity => self.ledger.total(self.world, group),
                Kind::AntiAffinity { .. } => 0,
            };
            most = most.min(host_cap(kind, own, here(group), elsewhere));
            if most == 0 {
                return 0;
            }
        }
        most
    }
}

/// How many pods a hostname rule lets onto a host that has so many already. `elsewhere`: for a spread the minimum, for an
/// affinity the pods anywhere.
pub(crate) fn host_cap(kind: Kind, own: bool, here: i32, elsewhere: i32) -> u32 {
    match kind {
        Kind::Spread { max_skew, .. } => {
            let room = i64::from(max_skew) + i64::from(elsewhere) - i64::from(here);
            match (own, room) {
                (true, room) => u32::try_from(room).unwrap_or(0),
                (false, 0..) => u32::MAX,
                (false, _) => 0,
            }
        }
        Kind::Affinity if here > 0 || (own && elsewhere == 0) => u32::MAX,
        Kind::Affinity => 0,
        Kind::AntiAffinity { .. } if here > 0 => 0,
        Kind::AntiAffinity { .. } if own => 1,
        Kind::AntiAffinity { .. } => u32::MAX,
    }
}
