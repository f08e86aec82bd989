//! Owner of the finalizers and of everything that removes: taint, eviction within PDBs, volume detach, TerminateInstances,
//! garbage collection both ways. It never decides that a node should go.
//!
//! ```text
//! cluster    nodes, claims, pods, volumes and budgets, from watches and from the answers to our writes
//! removal    the actor: one look at a time at each object that leaves, decided by policy::drain
//! instances  what EC2 says about instances that are to end; asks in batches, insists until they are gone
//! garbage    instances without claim, claims without instance
//! shifts     zones that EC2 is not believed about, with settings.enableZonalShift
//! writes     every write to the Kubernetes API;  grpc, events, metrics: what others see of it
//! ```

mod cluster;
mod config;
mod events;
mod garbage;
mod grpc;
mod instances;
mod metrics;
mod removal;
mod shifts;
mod writes;

use std::sync::Arc;

use anyhow::Context as _;
use cloud::{CatalogSource as _, Terminator};
use runtime::watch::Watch;
use runtime::{Service, Shell, kube_client};
use tokio::sync::watch;

pub use config::Config;

use crate::events::Events;
use crate::garbage::Collector;
use crate::grpc::Handler;
use crate::instances::InstancesActor;
use crate::metrics::Metrics;
use crate::removal::{Actor, Options, Parts};
use crate::shifts::Cautious;
use crate::writes::Writes;

/// Wires the service with AWS behind it.
pub async fn start(config: Config, shell: &mut Shell) -> anyhow::Result<()> {
    let options = cloud_aws::Options {
        read_only: shell.config.shadow_mode,
        limits: config.aws_rate_limits,
        ..cloud_aws::Options::default()
    };
    shell.metrics.register_collector(options.calls.clone());
    let aws = cloud_aws::Aws::connect(options).await.context("connect to AWS")?;
    let region = aws.region().to_owned();
    start_with(config, Arc::new(aws), region, shell).await
}

/// The same with any cloud.
pub async fn start_with(
    config: Config,
    cloud: Arc<dyn Terminator>,
    region: String,
    shell: &mut Shell,
) -> anyhow::Result<()> {
    let cluster = config.settings.cluster_name.clone();
    let cloud = if config.settings.enable_zonal_shift { cautious(cloud, shell)? } else { cloud };
    let at_once = usize::try_from(config.removal.evictions_at_once).unwrap_or(100);
    let writes = Writes::new(writer(&config).await?, at_once);
    let events = Events::new(shell.events());
    let metrics = Metrics::register(&shell.metrics);
    let leadership = shell.leadership();
    let (instances_actor, instances, news) =
        InstancesActor::new(Arc::clone(&cloud), cluster.clone(), metrics.instance_refusals.clone());
    let options = Options { region, evictions_at_once: at_once };
    let parts = Parts {
        writes: writes.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
        instances,
        news,
        leadership: leadership.clone(),
    };
    let (actor, removals, intake) = Actor::new(options, parts);
    let client = shell.kube.clone();
    shell.watch("pods", Watch::<cluster::BoundPod>::all(client.clone()), intake.0.clone());
    shell.watch("nodes", Watch::<k8s_openapi::api::core::v1::Node>::all(client.clone()), intake.0.clone());
    shell.watch("nodeclaims", Watch::<api::NodeClaim>::all(client.clone()), intake.0.clone());
    shell.watch(
        "poddisruptionbudgets",
        Watch::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::all(client.clone()),
        intake.0.clone(),
    );
    shell.watch(
        "volumeattachments",
        Watch::<k8s_openapi::api::storage::v1::VolumeAttachment>::all(client.clone()),
        intake.0.clone(),
    );
    shell.watch(
        "persistentvolumes",
        Watch::<k8s_openapi::api::core::v1::PersistentVolume>::all(client.clone()),
        intake.0,
    );
    let collector = Collector {
        cloud,
        cluster,
        client,
        writes: writes.clone(),
        removals: removals.clone(),
        events,
        metrics,
        rarely: config.removal.garbage_collection_interval,
    };
    let stop = shell.stop();
    shell.process.spawn("instances", instances_actor.run(stop.clone()));
    shell.process.spawn("removal", actor.run(stop.clone()));
    let collecting = leadership.clone().lead(stop, move |lost| collector.clone().run(lost));
    shell.process.spawn("garbage", collecting);
    shell.serve(grpc::server(Handler { removals, writes, leadership })).await?;
    Ok(())
}

/// The same cloud, believed only where no zonal shift is under way.
fn cautious(cloud: Arc<dyn Terminator>, shell: &mut Shell) -> anyhow::Result<Arc<dyn Terminator>> {
    let zones = watch::Sender::new(shifts::Zones::new());
    let cautious = Cautious::new(cloud, zones.subscribe());
    let (pricing, stop) = (shell.peers(Service::PricingCache)?, shell.stop());
    shell.process.spawn("shifts", shifts::follow(pricing, zones, stop));
    Ok(Arc::new(cautious))
}

/// A client for writes alone, with a rate of its own: a flood of evictions must not hold up watches and leases, nor the
/// reverse.
async fn writer(config: &Config) -> anyhow::Result<kube::Client> {
    let rate = config.removal.writes_per_second;
    let own =
        runtime::ProcessConfig { kube_client_qps: rate, kube_client_burst: rate, ..config.process.clone() };
    kube_client::connect(Service::Termination, &own).await
}
