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
mod buffers;
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
mod observe;
mod reserved;
mod schedule;
mod static_capacity;
mod watches;

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
    let options = cloud_aws::Options {
        read_only: shell.config.shadow_mode,
        limits: config.aws_rate_limits,
        ..cloud_aws::Options::default()
    };
    shell.metrics.register_collector(options.calls.clone());
    let calls = options.calls.clone();
    let aws = cloud_aws::Aws::connect(options).await.context("connect to AWS")?;
    let aws = Arc::new(aws);
    let metrics = metrics::Metrics::new(&shell.metrics);

    let (catalog, catalog_inbox) = catalog::spawn(shell, &settings)?;
    let (triggers, triggered) = mpsc::channel(TRIGGERS);
    let (cluster, cluster_inbox) = cluster::spawn(
        shell,
        &settings,
        &catalog,
        triggers,
        metrics.clone(),
        observe::PodMetrics::registered(&shell.metrics),
    );
    let deps = deps::Deps {
        kube: shell.kube.clone(),
        recorder: shell.events(),
        leadership: shell.leadership(),
        settings: Arc::clone(&settings),
        metrics: shell.metrics.clone(),
        calls,
        replica: Arc::from(shell.replica()),
        cluster,
        catalog,
        launcher: aws.clone(),
        classes: aws,
    };

    let inboxes = nodes::spawn(shell, &deps).await?;

    let (batcher, batches) =
        batch::Batcher::new(triggered, settings.batch_idle_duration, settings.batch_max_duration);
    let stop = shell.stop();
    shell.process.spawn("batch", batcher.run(stop));
    let creator = claims::Creator {
        claims: Api::all(deps.kube.clone()),
        cluster: deps.cluster.clone(),
        metrics: metrics.clone(),
        launches: inboxes.claims.clone(),
    };
    let stop = shell.stop();
    shell.process.spawn("claim-lookup", creator.clone().look_up_overdue(stop));
    if settings.feature_gates.static_capacity {
        static_capacity::spawn(shell, &deps, creator.clone());
    }
    let buffers = if settings.feature_gates.capacity_buffer {
        buffers::spawn(shell, &deps)
    } else {
        buffers::BuffersHandle::none()
    };
    let verdicts = schedule::spawn(shell, deps.clone(), metrics, creator.clone(), batches, buffers);

    let observed = observe::spawn(shell, &deps);
    watches::spawn(
        shell,
        watches::Told {
            cluster: cluster_inbox,
            catalog: catalog_inbox,
            classes: inboxes.classes,
            claims: inboxes.claims,
            pools: inboxes.pools,
            observed,
        },
    );

    shell.serve(grpc::server(deps, creator, verdicts)).await?;
    Ok(())
}
