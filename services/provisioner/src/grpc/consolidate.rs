//! What could be taken away after a plan, on the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::consolidation::{Command, Consolidated, Rest};
use api::NodePool;
use proto::provisioner::v1 as pb;

use super::wire::{self, Uids};
use crate::cluster::{ClusterView, RemovalFacts};

pub(super) fn rest(
    pools: BTreeMap<String, Arc<NodePool>>,
    holding: RemovalFacts,
    spot_to_spot: bool,
) -> Rest {
    Rest {
        facts: holding.facts,
        pools: pools.into_iter().map(|(name, pool)| (Arc::from(name), pool)).collect(),
        held_nodes: holding.nodes,
        spot_to_spot,
    }
}

pub(super) fn wire(found: &Consolidated, view: &ClusterView) -> pb::Consolidation {
    let removed = found.commands.iter().flat_map(|command| &command.remove);
    let uids = Uids::of(view, removed.map(|name| &**name));
    let staying =
        found.blocked.iter().map(|b| pb::StayingNode { node: b.node.clone(), reason: b.reason.clone() });
    pb::Consolidation {
        commands: found.commands.iter().map(|one| command(one, &uids)).collect(),
        staying: staying.collect(),
        before_micro_usd_per_hour: found.before.get(),
        after_micro_usd_per_hour: found.after.get(),
        timed_out: found.timed_out,
    }
}

fn command(found: &Command, uids: &Uids) -> pb::PlannedCommand {
    let numbered = found.nodes.iter().zip(found.first..);
    let moves = found.moves.iter().map(|one| pb::PlannedMove {
        pod: Some(uids.pod(&one.pod)),
        from: one.from.clone(),
        to: one.to.clone(),
    });
    pb::PlannedCommand {
        reason: found.method.reason().as_str().to_owned(),
        method: found.method.consolidation_type().to_owned(),
        remove_nodes: found.remove.iter().map(ToString::to_string).collect(),
        new_nodes: numbered.map(|(node, number)| wire::planned(node, number, uids)).collect(),
        moves: moves.collect(),
        saving_micro_usd_per_hour: found.savings.get(),
    }
}
