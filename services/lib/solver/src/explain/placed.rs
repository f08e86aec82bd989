//! Explanations on demand, for placed pods too.

use std::sync::Arc;

use super::{Explainer, Explanation, PoolMiss, Rule};
use crate::Snapshot;
use crate::engine::demand::{Origin, demands};
use crate::engine::state::State;
use crate::nodes::PodEntry;
use crate::options::Options;
use crate::plan::{NewNode, Plan};

/// Why a pod is where the plan puts it, or why it is left over. Without a plan: what each pool would say to it alone. `None`
/// if the snapshot has no such pod.
pub fn explain(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    plan: Option<&Plan>,
    options: &Options,
) -> Option<Explanation> {
    let world = &*snapshot.world;
    let is = |p: &&PodEntry| &*p.namespace == namespace && &*p.name == name;
    if let Some((_, why)) =
        world.rejected.iter().find(|(p, _)| &*p.namespace == namespace && &*p.name == name)
    {
        return Some(Explanation::rejected(why));
    }
    let all = world.pending.iter().chain(world.nodes.iter().flat_map(|n| &n.pods));
    let pod = all.into_iter().find(is)?;
    let demands = demands(world, Vec::new(), std::iter::once((pod, Origin::Pending)));
    let state = State::new(world, options, &demands, &[]);
    let explainer = Explainer::new(&state);
    let same = |p: &crate::plan::PodRef| &*p.namespace == namespace && &*p.name == name;
    if let Some(plan) = plan {
        if let Some(left) = plan.unschedulable.iter().find(|u| same(&u.pod)) {
            return Some((*left.why).clone());
        }
        if let Some(node) = plan.existing.iter().find(|n| n.pods.iter().any(same)) {
            let verdict = format!("goes onto node {}, which exists and has room", node.node);
            return Some(Explanation::plain(Rule::None, verdict));
        }
        if let Some((index, node)) = plan.new_nodes.iter().enumerate().find(|(_, n)| n.pods.iter().any(same))
        {
            return Some(placed_on_new(&explainer, index, node));
        }
    }
    let bound = world.nodes.iter().find(|n| n.pods.iter().any(|p| is(&p)));
    if let Some(node) = bound {
        return Some(Explanation::plain(Rule::None, format!("runs on node {}", node.name)));
    }
    let pools: Vec<PoolMiss> = (0..world.pools.len()).map(|pool| explainer.pool_miss(0, pool)).collect();
    Some(Explanation { pools, ..Explanation::plain(Rule::None, "is pending") })
}

fn placed_on_new(explainer: &Explainer<'_, '_>, index: usize, node: &NewNode) -> Explanation {
    let world = explainer.state.world;
    let own = world.pools.iter().position(|p| p.name == node.pool).unwrap_or(world.pools.len());
    let launch = &node.launch;
    let verdict = format!(
        "goes onto new-{index} of pool {}: {} in {}, {} at {} an hour, the cheapest of {} types that hold its {} pods",
        node.pool,
        launch.instance_type,
        launch.zone,
        launch.capacity_type,
        launch.price,
        node.instance_types.len(),
        node.pods.len(),
    );
    let pools = (0..world.pools.len())
        .filter(|pool| *pool != own)
        .map(|pool| match pool > own {
            true => PoolMiss {
                pool: Arc::clone(&world.pools[pool].name),
                rule: Rule::HigherWeight,
                miss: format!("comes after pool {} (weight {})", node.pool, world.pools[own].weight),
            },
            false => explainer.pool_miss(0, pool),
        })
        .collect();
    Explanation { pools, ..Explanation::plain(Rule::None, verdict) }
}
