//! Tells the owners of pools that AWS shifts traffic away from a zone that they use, and when that is over.

use std::collections::BTreeMap;

use api::NodePool;
use api::convert;
use kube::Resource as _;
use model::labels;
use model::requirement::Requirement;
use runtime::Shell;
use runtime::events::Event;
use tokio_util::sync::CancellationToken;

use crate::deps::Deps;

pub(crate) fn spawn(shell: &mut Shell, deps: &Deps) {
    let stop = shell.stop();
    shell.process.spawn("zonal-shifts", run(deps.clone(), stop));
}

async fn run(deps: Deps, stop: CancellationToken) -> anyhow::Result<()> {
    let mut offers = deps.catalog.subscribe();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = offers.changed() => if changed.is_err() {
                stop.cancelled().await;
                return Ok(());
            },
        }
        let now = offers.borrow_and_update().shifted.clone();
        if *now == known {
            continue;
        }
        if deps.leadership.is_leader() {
            let pools = deps.cluster.latest();
            for pool in pools.pool_objects.values() {
                tell(&deps, pool, &known, &now);
            }
        }
        known = (*now).clone();
    }
}

fn tell(deps: &Deps, pool: &NodePool, before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    let new = |(zone, _): &(&String, &String)| !before.contains_key(*zone);
    for (zone, id) in now.iter().filter(new).filter(|(zone, id)| admits(pool, zone, id)) {
        let text =
            format!("Zonal shift is active in zone {zone} ({id}): no nodes are launched there until it ends");
        deps.recorder
            .publish(Event::warning(pool.object_ref(&()), "ZonalShiftActive", text).distinct([id.clone()]));
    }
    let over = |(zone, _): &(&String, &String)| !now.contains_key(*zone);
    for (zone, id) in before.iter().filter(over).filter(|(zone, id)| admits(pool, zone, id)) {
        let text = format!("Zonal shift in zone {zone} ({id}) is over: nodes may be launched there again");
        deps.recorder
            .publish(Event::normal(pool.object_ref(&()), "ZonalShiftCleared", text).distinct([id.clone()]));
    }
}

/// Whether the pool's requirements leave the zone open.
fn admits(pool: &NodePool, zone: &str, id: &str) -> bool {
    let Ok(read) = convert::node_pool(pool, Default::default()) else { return false };
    let allows =
        |key: &str, value: &str| read.requirements.get(key).is_none_or(|r: &Requirement| r.contains(value));
    allows(labels::ZONE, zone) && allows(labels::ZONE_ID, id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_is_concerned_by_a_zone_that_its_requirements_leave_open() {
        let pool = |requirements: serde_json::Value| -> NodePool {
            serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
                "spec": {"template": {"spec": {
                    "requirements": requirements,
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                }}},
            }))
            .unwrap()
        };
        let only = |key: &str, value: &str| json!([{"key": key, "operator": "In", "values": [value]}]);
        assert!(admits(&pool(json!([])), "us-west-2a", "usw2-az1"));
        assert!(admits(&pool(only(labels::ZONE, "us-west-2a")), "us-west-2a", "usw2-az1"));
        assert!(!admits(&pool(only(labels::ZONE, "us-west-2b")), "us-west-2a", "usw2-az1"));
        assert!(!admits(&pool(only(labels::ZONE_ID, "usw2-az2")), "us-west-2a", "usw2-az1"));
    }
}
