//! Pods that have no node, grouped once for every snapshot: what-ifs by the thousand ask about other pods.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::classes::{ClassData, ClassId, Variant};
use crate::dims::fits;
use crate::engine::demand::{Demand, Origin, in_order};
use crate::nodes::PodEntry;
use crate::options::PreferencePolicy;
use crate::world::World;

#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    /// Class, and its pods as indices into the list of pending ones, in placing order.
    groups: Vec<(ClassId, Vec<u32>)>,
    /// By policy, then group: whether any node could hold such a pod.
    placeable: [OnceLock<Vec<bool>>; 2],
}

impl Backlog {
    pub(crate) fn of(pending: &[PodEntry]) -> Self {
        let mut index: FxHashMap<ClassId, usize> = FxHashMap::default();
        let mut groups: Vec<(ClassId, Vec<u32>)> = Vec::new();
        for (number, pod) in pending.iter().enumerate() {
            let slot = *index.entry(pod.class).or_insert_with(|| {
                groups.push((pod.class, Vec::new()));
                groups.len() - 1
            });
            groups[slot].1.push(number as u32);
        }
        for (_, pods) in &mut groups {
            pods.sort_by(|a, b| in_order(&pending[*a as usize], &pending[*b as usize]));
        }
        Self { groups, placeable: Default::default() }
    }

    /// Every group, and whether anything in the cluster could hold its pods, whatever nodes are removed from it.
    pub(crate) fn demands<'w>(
        &self,
        world: &'w World,
        policy: PreferencePolicy,
    ) -> impl Iterator<Item = Demand<'w>> {
        let known = self.placeable[usize::from(policy == PreferencePolicy::Ignore)].get_or_init(|| {
            let could = |class: &ClassData| {
                !class.spec.uses_resource_claims
                    && class.ladder(policy).iter().any(|variant| could_go(world, class, variant))
            };
            self.groups.iter().map(|(class, _)| could(world.classes.get(*class))).collect()
        });
        let demand = |((class, pods), placeable): (&(ClassId, Vec<u32>), &bool)| {
            let pods = pods.iter().map(|pod| &world.pending[*pod as usize]).collect();
            Demand { class: *class, origin: Origin::Pending, placeable: *placeable, pods }
        };
        self.groups.iter().zip(known).map(demand)
    }
}

/// Whether a new node of some pool, or some node that exists, could hold one pod if it were empty. Limits, topology and other
/// pods are forgotten: removing nodes may change what they say, and nothing else.
fn could_go(world: &World, class: &ClassData, variant: &Variant) -> bool {
    let dims = world.dims.len();
    let in_pool = |pool: usize| {
        let data = &world.pools[pool];
        let holds = |row: usize| fits(&class.requests, data.room(row, dims));
        data.usable
            && world.tolerates_pool(variant.tolerations, pool)
            && variant
                .asked
                .iter()
                .filter_map(|set| world.reach(*set, pool))
                .any(|r| r.rows.iter().any(holds))
    };
    let tolerated = world.tolerated(variant.tolerations);
    let on_node = |node: usize| {
        let free = class.requests.iter().zip(world.free(node)).all(|(want, have)| *want == 0 || want <= have);
        free && tolerated.has(node) && variant.asked.iter().any(|set| world.accepting(*set).has(node))
    };
    (0..world.pools.len()).any(in_pool) || world.open.iter().any(on_node)
}
