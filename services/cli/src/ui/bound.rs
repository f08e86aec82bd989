//! The lower bound of the cluster's cost: asked of the provisioner while a page is open, after the nodes or the waiting pods have
//! changed, and at most once a minute, because it takes the provisioner's time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use proto::provisioner::v1::PlanRequest;

use super::Sources;
use super::hub::Hub;
use super::picture::Event;
use super::question;
use super::shown::Bound;
use crate::connect::explain;

const AT_MOST_EVERY: Duration = Duration::from_secs(60);
/// Changes come in bursts: the bound is that of the cluster after them.
const BURST: Duration = Duration::from_secs(3);
const SOLVE_SECONDS: i64 = 5;

pub(super) async fn follow(sources: Sources, hub: Arc<Hub>) {
    let mut load = hub.load_changes();
    while load.changed().await.is_ok() {
        hub.until_watched().await;
        tokio::time::sleep(BURST).await;
        load.mark_unchanged();
        compute(&sources, &hub).await;
        tokio::time::sleep(AT_MOST_EVERY).await;
    }
}

pub(super) async fn compute(sources: &Sources, hub: &Hub) {
    let (amount, problem) = match ask(sources, hub.own_nodes()).await {
        Ok(amount) => (amount, String::new()),
        Err(error) => (None, format!("{error:#}")),
    };
    hub.take(Event::Bound(Bound { amount, problem, at: Timestamp::now().as_second() }));
}

/// As if every node of ours were bought anew for the pods of today.
async fn ask(sources: &Sources, nodes: Vec<String>) -> Result<Option<i64>> {
    let request = PlanRequest {
        remove_objects: nodes.iter().map(|node| format!("Node/{node}")).collect(),
        solve_limit: Some(prost_types::Duration { seconds: SOLVE_SECONDS, nanos: 0 }),
        ..PlanRequest::default()
    };
    let reply = question::client(sources).await?.plan(request).await.map_err(|status| explain(&status))?;
    Ok(reply.into_inner().lower_bound_micro_usd_per_hour)
}
