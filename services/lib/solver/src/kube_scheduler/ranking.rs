//! The scores of nodes, and the nodes that exist in their order.

use std::cmp::Reverse;

use super::Scheduler;
use crate::classes::{ClassData, Variant};
use crate::dims::{CPU, MEMORY};
use crate::engine::demand::{Demand, DemandId};
use crate::engine::existing::takes_one;

/// Score and node. The highest score comes first, of equal scores the first node.
pub(super) type Ranked = (Reverse<i64>, u32);

impl<'s> Scheduler<'s> {
    /// The class of a demand, and its last rung, which has only what is required.
    pub(super) fn required(&self, demand: DemandId) -> Option<(&'s ClassData, &'s Variant, u16)> {
        let world = self.world;
        let class = world.classes.get(self.demands[demand as usize].class);
        let ladder = class.ladder(self.options.preferences);
        Some((class, ladder.last()?, ladder.len().checked_sub(1)? as u16))
    }

    pub(super) fn ranked(&self, demand: DemandId) -> &[Ranked] {
        self.ranked[demand as usize].get_or_init(|| self.rank(demand))
    }

    fn rank(&self, demand: DemandId) -> Vec<Ranked> {
        let Some((class, variant, _)) = self.required(demand) else { return Vec::new() };
        let world = self.world;
        let tolerated = world.tolerated(variant.tolerations);
        let dims = world.dims.len();
        let mut all: Vec<Ranked> = Vec::new();
        for block in 0..world.open.words().len() {
            let most = &world.block_most[block * dims..(block + 1) * dims];
            if class.requests.iter().zip(most).any(|(want, have)| *want > 0 && want > have) {
                continue;
            }
            let accepting =
                variant.asked.iter().fold(0, |all, set| all | world.accepting(*set).words()[block]);
            let mut bits = world.open.words()[block] & tolerated.words()[block] & accepting;
            while bits != 0 {
                let node = (block * 64) as u32 + bits.trailing_zeros();
                bits &= bits - 1;
                let free = world.free(node as usize);
                if !takes_one(&class.requests, free) || self.removed.binary_search(&node).is_ok() {
                    continue;
                }
                let allocatable = &world.nodes[node as usize].allocatable;
                let used = |dim: usize| allocatable[dim] - free[dim];
                all.push((Reverse(score(&class.requests, allocatable, used)), node));
            }
        }
        // Each pod that comes before takes one node out of this list at most.
        let pods: usize = self.demands.iter().map(|demand: &Demand<'_>| demand.pods.len()).sum();
        if only_resources_decide(class, variant) && all.len() > pods && pods > 0 {
            all.select_nth_unstable(pods - 1);
            all.truncate(pods);
        }
        all.sort_unstable();
        all
    }
}

/// A node that has the resources for the pod takes it, and one that has not will not have them later.
pub(super) fn only_resources_decide(class: &ClassData, variant: &Variant) -> bool {
    variant.domain_groups.is_empty()
        && variant.host_groups.is_empty()
        && class.kept_from_domain.is_empty()
        && class.kept_from_host.is_empty()
        && class.ports.is_empty()
        && class.attachments.is_empty()
}

/// Of 200, higher is better: what is left free on average, and how alike the shares of both resources are.
pub(super) fn score(requests: &[i64], allocatable: &[i64], used: impl Fn(usize) -> i64) -> i64 {
    let share = |dim: usize| {
        let all = allocatable[dim].max(1);
        let taken = (used(dim) + requests[dim]).clamp(0, all);
        match taken.checked_mul(10_000) {
            Some(scaled) => scaled / all,
            None => i64::try_from(i128::from(taken) * 10_000 / i128::from(all)).unwrap_or(10_000),
        }
    };
    let (cpu, memory) = (share(CPU), share(MEMORY));
    let least_allocated = ((10_000 - cpu) / 100 + (10_000 - memory) / 100) / 2;
    // The standard deviation of two shares is half their difference.
    let balanced = 100 - (cpu - memory).abs() / 200;
    least_allocated + balanced
}
