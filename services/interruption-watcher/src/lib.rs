//! AWS's warnings, turned into drains before the instance goes. It drains nothing itself: it hands NodeClaims to termination with a
//! deadline and reports to pricing-cache what EC2 is short of. The provisioner sees the deletion and plans for the node's pods at
//! once, so that a replacement launches while the node drains.
//!
//! ```text
//! queue    SQS, every replica ─► handler: message (pure) ─► decision (pure) ─► actions ─┬─► handover ─► termination
//! health   DescribeInstanceStatus, the leader ─────────────────────────────► actions ─┼─► unavailable ─► pricing-cache
//! rules    EventBridge: checked by every replica, written by the leader (setting)      └─► replacements ─► provisioner
//! claims   NodeClaims by instance;  journal: what was done, for ListEvents and WatchEvents
//! ```

mod actions;
mod claims;
mod config;
mod confirm;
mod decision;
mod events;
mod grpc;
mod handler;
mod handover;
mod health;
mod journal;
mod message;
mod metrics;
mod queue;
mod replacements;
mod rules;
#[cfg(test)]
mod testing;
mod unavailable;

use std::sync::Arc;

use anyhow::Context as _;
use cloud::{CatalogSource as _, HealthSource, Queue, Rules};
use runtime::grpc::Watchers;
use runtime::watch::Watch;
use runtime::{Service, Shell};
use tokio::sync::watch;

pub use config::Config;

use crate::actions::Actions;
use crate::claims::ClaimObject;
use crate::confirm::Confirmations;
use crate::decision::Policy;
use crate::events::Events;
use crate::handler::{Handler, Malformed};
use crate::health::Poller;
use crate::metrics::Metrics;
use crate::queue::{Consumer, State};
use crate::replacements::Replacements;
use crate::rules::Keeper;

/// What it may do in the cloud.
pub trait Cloud: Queue + Rules + HealthSource + 'static {}
impl<T: Queue + Rules + HealthSource + 'static> Cloud for T {}

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
pub async fn start_with<C: Cloud>(
    config: Config,
    cloud: Arc<C>,
    region: String,
    shell: &mut Shell,
) -> anyhow::Result<()> {
    let Config { settings, interruption, .. } = config;
    let metrics = Metrics::register(&shell.metrics);
    let (journal_actor, journal) = journal::Actor::new();
    let (claims_actor, claims) = claims::Actor::new();
    let termination = shell.peers(Service::Termination)?;
    let (handover_actor, handover) = handover::Actor::new(termination.leader());
    let pricing = shell.peers(Service::PricingCache)?;
    let (unavailable_actor, unavailable) = unavailable::Actor::new(pricing.any(), metrics.clone());
    let planner = Arc::new(shell.peers(Service::Provisioner)?);
    let replacements = Replacements { claims: claims.clone(), planner };
    let events = Events::new(shell.events());
    let actions = Actions { handover, unavailable, replacements, events, metrics: metrics.clone() };
    let handler = Handler {
        claims: claims.clone(),
        actions: actions.clone(),
        journal: journal.clone(),
        metrics: metrics.clone(),
        policy: Policy { drain_on_rebalance: interruption.drain_on_rebalance },
        confirmations: Confirmations(Arc::clone(&cloud) as Arc<dyn HealthSource>),
        malformed: Malformed::default(),
    };
    let (queue_state, rule_state) = (watch::Sender::new(State::default()), watch::Sender::new(Vec::new()));
    let service = grpc::Service {
        handler: handler.clone(),
        journal: journal.clone(),
        metrics: metrics.clone(),
        region: region.clone(),
        event_accounts: interruption.event_accounts.clone(),
        queue: queue_state.subscribe(),
        rules: rule_state.subscribe(),
        watchers: Watchers::new(grpc::MOST_WATCHERS),
    };

    let stop = shell.stop();
    shell.process.spawn("journal", journal_actor.run(stop.clone()));
    shell.process.spawn("claims", claims_actor.run(stop.clone()));
    shell.process.spawn("handover", handover_actor.run(stop.clone()));
    shell.process.spawn("unavailable offerings", unavailable_actor.run(stop.clone()));
    let watching = Watch::<ClaimObject>::all(shell.kube.clone());
    shell.watch("nodeclaims", watching, claims.intake());

    let leadership = shell.leadership();
    let poller = Poller {
        source: Arc::clone(&cloud) as Arc<dyn HealthSource>,
        claims: claims.clone(),
        actions,
        journal,
        metrics: metrics.clone(),
        every: interruption.instance_status_interval,
        note: shell.readiness.note("instance-status"),
    };
    let polling = leadership.clone().lead(stop.clone(), move |lost| poller.clone().run(lost));
    let ready = shell.readiness.clone();
    shell.process.spawn("health", after(ready.clone(), stop.clone(), polling));

    // A message that is read is hidden from whoever acts on it: a shadow reads none.
    if settings.interruption_queue.is_empty() || shell.config.shadow_mode {
        tracing::info!("no interruption queue is set: only instance status is watched");
    } else {
        let keeper = Keeper {
            rules: Arc::clone(&cloud) as Arc<dyn Rules>,
            cluster: settings.cluster_name,
            manage: interruption.manage_rules,
            leadership,
            queue: queue_state.subscribe(),
            state: rule_state,
            note: shell.readiness.note("rules"),
            metrics: metrics.clone(),
        };
        let consumer = Consumer {
            queue: cloud,
            name: settings.interruption_queue,
            region,
            event_accounts: interruption.event_accounts,
            handler,
            metrics,
            most_receivers: usize::from(interruption.queue_receivers),
            most_deliveries: interruption.queue_max_deliveries,
            state: queue_state,
            note: shell.readiness.note("queue"),
        };
        shell.process.spawn("rules", keeper.run(stop.clone()));
        shell.process.spawn("queue", after(ready, stop.clone(), consumer.run(stop)));
    }
    shell.serve(grpc::server(service)).await?;
    Ok(())
}

/// No message is taken before every claim is known: an instance that is not found then is really not ours.
async fn after(
    ready: runtime::Readiness,
    stop: tokio_util::sync::CancellationToken,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        () = ready.ready() => {}
    }
    work.await
}
