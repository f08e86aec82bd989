//! From pending pods to ready nodes: it hosts the solver, creates NodeClaims, launches them and follows each until its Node is
//! initialised; it answers what-if questions from an immutable snapshot. It removes nothing: that is termination's.
//!
//! ```text
//!  watches ─► cluster ─┐                    ┌─► schedule ─► claims ─► NodeClaims
//!  pricing-cache ─► catalog ─► views ─► batch                          │
//!  EC2NodeClass ─► nodeclass (status)       grpc (what-if)   lifecycle + launch ─► instances, Nodes
//!  NodePool ─► nodepool (status)
//! ```

mod batch;
mod catalog;
mod claims;
mod cluster;
mod config;
mod deps;
mod grpc;
pub mod launch;
mod lifecycle;
mod metrics;
pub mod nodeclass;
mod nodepool;
mod nodes;
mod schedule;

use std::sync::Arc;

use anyhow::Context as _;
use kube::Api;
use tokio::sync::mpsc;

pub use config::Config;

/// Triggers between the cluster's state and the batcher, which takes them at once.
const TRIGGERS: usize = 1024;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    let settings = Arc::new(config.settings);
    let aws = cloud_aws::Aws::connect(cloud_aws::Options::default()).await.context("connect to AWS")?;
    let aws = Arc::new(aws);
    let metrics = metrics::Metrics::new(&shell.metrics);

    let catalog = catalog::spawn(shell, &settings)?;
    let (triggers, triggered) = mpsc::channel(TRIGGERS);
    let cluster = cluster::spawn(shell, &settings, &catalog, triggers, metrics.clone());
    let deps = deps::Deps {
        kube: shell.kube.clone(),
        recorder: shell.events(),
        leadership: shell.leadership(),
        settings: Arc::clone(&settings),
        metrics: shell.metrics.clone(),
        replica: Arc::from(shell.replica()),
        cluster,
        catalog,
        launcher: aws.clone(),
        classes: aws,
    };

    nodes::spawn(shell, &deps).await?;

    let (windows, closed) = mpsc::channel(1);
    let batcher = batch::Batcher {
        triggers: triggered,
        windows,
        idle: settings.batch_idle_duration,
        longest: settings.batch_max_duration,
    };
    let stop = shell.stop();
    shell.process.spawn("batch", batcher.run(stop));
    let creator = claims::Creator {
        claims: Api::all(deps.kube.clone()),
        cluster: deps.cluster.clone(),
        metrics: metrics.clone(),
    };
    let verdicts = schedule::spawn(shell, deps.clone(), metrics, creator.clone(), closed);

    shell.serve(grpc::server(deps, creator, verdicts)).await?;
    Ok(())
}
