//! Which nodes may go, and when: empty, underutilised, drifted, expired, unhealthy. It removes nothing itself: it taints,
//! orders replacements from the provisioner and deletes NodeClaims, which termination then drains.
//!
//! ```text
//! cluster     nodes, claims, pods and budgets, from watches and from the answers to our writes
//! candidates  from the cluster state to the questions of `policy`;  drift: the same for drift
//! actor       decides with `policy`, carries commands out, takes them back
//! simulation  drives the search of `consolidation` for nodes to remove;  probe: what-ifs, asked of all provisioners
//! command_annotation, command_writes   a command as it is written on its claims and nodes, and removed again
//! writes      every write to the Kubernetes API;  grpc, events, metrics: what others see
//! ```

mod actor;
mod candidates;
mod cluster;
mod command;
mod command_annotation;
mod command_writes;
mod config;
mod drift;
mod events;
mod grpc;
mod metrics;
mod probe;
mod simulation;
#[cfg(test)]
mod testing;
mod writes;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use runtime::watch::Watch;
use runtime::{Service, Shell, kube_client};

pub use config::Config;

use crate::actor::{Actor, Options, Parts};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::probe::Probes;
use crate::writes::Writes;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(config: Config, shell: &mut Shell) -> anyhow::Result<()> {
    let metrics = Metrics::register(&shell.metrics);
    let provisioners = shell.peers(Service::Provisioner)?;
    let leadership = shell.leadership();
    let parts = Parts {
        writes: Writes::new(writer(&config).await?),
        events: Events::new(shell.events()),
        probes: Probes::new(provisioners, metrics.clone()),
        leadership: leadership.clone(),
        metrics,
    };
    let (actor, disruptions, intake) = Actor::new(Options::of(&config), parts);
    let client = shell.kube.clone();
    shell.watch_streamed("pods", Watch::<Pod>::all(client.clone()), intake.clone());
    shell.watch("nodes", Watch::<Node>::all(client.clone()), intake.clone());
    shell.watch("nodeclaims", Watch::<api::NodeClaim>::all(client.clone()), intake.clone());
    shell.watch("nodepools", Watch::<api::NodePool>::all(client.clone()), intake.clone());
    shell.watch("ec2nodeclasses", Watch::<api::EC2NodeClass>::all(client.clone()), intake.clone());
    shell.watch("poddisruptionbudgets", Watch::<PodDisruptionBudget>::all(client), intake);
    let stop = shell.stop();
    shell.process.spawn("disruption", actor.run(stop));
    shell.serve(grpc::server(disruptions, leadership)).await?;
    Ok(())
}

/// A client for writes alone, with a rate of its own: a flood of taints must not hold up watches and leases, nor the
/// reverse.
async fn writer(config: &Config) -> anyhow::Result<kube::Client> {
    let rate = config.disruption.writes_per_second;
    let own =
        runtime::ProcessConfig { kube_client_qps: rate, kube_client_burst: rate, ..config.process.clone() };
    kube_client::connect(Service::Disruption, &own).await
}
