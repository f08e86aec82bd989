//! What EC2 offers, at what price, live: the catalogue every decision reads. It is read-only towards AWS and decides
//! nothing.
//!
//! ```text
//!  feeds ── types, zones, prices, reservations, shifts ─┐
//!  ConfigMaps ── last types, prices, marks, memory ─────┤
//!  overlays ── NodeOverlays that passed validation ─────┼─> owner (state) ─> published ─> WatchCatalog streams
//!  nodes ── memory that real nodes report ──────────────┤      │
//!  ReportUnavailable ───────────────────────────────────┘      └─> store: the same ConfigMaps, for the next start
//! ```

mod answers;
mod catalogue;
mod config;
mod facts;
mod feeds;
mod grpc;
mod memory;
mod metrics;
mod nodes;
mod overlays;
mod owner;
mod prices;
mod published;
mod state;
mod store;
mod streams;
mod unavailable_offerings;
mod wire;

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use anyhow::Context as _;
use api::{EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use cloud::CatalogSource;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use model::labels;
use runtime::Shell;
use runtime::watch::{Change, Index, Watch};
use tokio::sync::mpsc;

pub use config::{Config, Periods};

use crate::feeds::{Feed, FeedLoop};
use crate::metrics::{OfferingCollector, PricingMetrics};
use crate::nodes::Learner;
use crate::overlays::Evaluator;
use crate::owner::{CatalogueHandle, Message, Owner, Stores};
use crate::state::{Part, State};
use crate::store::{Save, Saver};

/// Wires the service against AWS.
pub async fn start(config: Config, shell: &mut Shell) -> anyhow::Result<()> {
    let options = cloud_aws::Options {
        read_only: shell.config.shadow_mode,
        limits: config.aws_rate_limits,
        ..cloud_aws::Options::default()
    };
    shell.metrics.register_collector(options.calls.clone());
    let aws = cloud_aws::Aws::connect(options).await.context("connect to AWS")?;
    start_with(config, Arc::new(aws), shell).await.map(drop)
}

/// Wires the service. Everything it needs from outside is in `config`, `source` and `shell`.
pub async fn start_with(
    config: Config,
    source: Arc<dyn CatalogSource>,
    shell: &mut Shell,
) -> anyhow::Result<runtime::Addresses> {
    let Config { settings, periods, .. } = config;
    let gates = settings.feature_gates;
    let feeds = feeds::wanted(
        source.region(),
        settings.isolated_vpc,
        gates.reserved_capacity,
        settings.enable_zonal_shift,
    );
    let mut awaited: BTreeSet<Part> = feeds.iter().copied().map(Part::Feed).collect();
    awaited.extend([Part::StoredTypes, Part::StoredPrices, Part::StoredMarks, Part::StoredMemory]);
    awaited.extend(gates.node_overlay.then_some(Part::Overlays));
    let state = State::new(source.region(), awaited);
    let metrics = PricingMetrics::new(&shell.metrics);
    let stores = Stores {
        types: saver(shell, "store-types", store::TYPES),
        prices: saver(shell, "store-prices", store::PRICES),
        marks: saver(shell, "store-marks", store::UNAVAILABLE),
        memory: saver(shell, "store-memory", store::MEMORY),
    };
    // Random, so that a version of an earlier life of this replica is never taken for one of this.
    let epoch = format!("{}-{:x}", shell.replica(), RandomState::new().hash_one(std::process::id()));
    let (owner, catalogue) = Owner::new(state, epoch, stores, metrics.clone(), shell.readiness.clone());
    shell.process.spawn("catalogue", owner.run(shell.stop()));
    let latest = catalogue.subscribe();
    shell
        .metrics
        .register_collector(OfferingCollector { latest, reserved_capacity: gates.reserved_capacity });

    watch_map(shell, "stored-types", store::TYPES, catalogue.mailbox(), Message::StoredTypes);
    watch_map(shell, "stored-prices", store::PRICES, catalogue.mailbox(), Message::StoredPrices);
    watch_map(shell, "stored-marks", store::UNAVAILABLE, catalogue.mailbox(), Message::StoredMarks);
    watch_map(shell, "stored-memory", store::MEMORY, catalogue.mailbox(), Message::StoredMemory);
    for feed in feeds {
        let period = match feed {
            Feed::InstanceTypes => periods.instance_types_refresh_interval,
            Feed::OnDemandPrices => periods.on_demand_refresh_interval,
            Feed::SpotPrices => periods.spot_refresh_interval,
            Feed::Reservations => periods.reservations_refresh_interval,
            Feed::ZonalShifts => periods.zonal_shift_refresh_interval,
        };
        let (source, mailbox) = (Arc::clone(&source), catalogue.mailbox());
        let feed_loop = FeedLoop { feed, source, period, cluster: settings.cluster_name.clone(), mailbox };
        shell.process.spawn(feed.as_str(), feed_loop.run(shell.stop()));
    }
    let derivation = cloud::derive::Settings {
        vm_memory_overhead_millionths: (settings.vm_memory_overhead_percent * 1e6).round() as u32,
        reserved_enis: settings.reserved_enis,
        reserved_capacity: gates.reserved_capacity,
    };
    learn_memory(shell, &catalogue);
    if gates.node_overlay {
        judge_overlays(shell, &catalogue, derivation.clone());
    }
    shell.serve(grpc::server(catalogue, metrics, derivation)).await
}

fn learn_memory(shell: &mut Shell, catalogue: &CatalogueHandle) {
    let (learner, mailbox) = Learner::new(catalogue.mailbox());
    let (kube, stop) = (shell.kube.clone(), shell.stop());
    shell.process.spawn("nodes", learner.run(stop));
    let registered = Watch::<Node>::all(kube.clone()).labels(&format!("{}=true", labels::REGISTERED));
    shell.watch("node", registered, mailbox.clone());
    shell.watch("nodeclaim", Watch::<NodeClaim>::all(kube.clone()), mailbox.clone());
    shell.watch("nodeclass", Watch::<EC2NodeClass>::all(kube), mailbox);
}

fn judge_overlays(shell: &mut Shell, catalogue: &CatalogueHandle, settings: cloud::derive::Settings) {
    let (kube, stop) = (shell.kube.clone(), shell.stop());
    let (evaluator, mailbox) =
        Evaluator::new(kube.clone(), settings, catalogue.drafts(), catalogue.mailbox(), shell.leadership());
    shell.process.spawn("overlays", evaluator.run(stop));
    shell.watch("nodeoverlay", Watch::<NodeOverlay>::all(kube.clone()), mailbox.clone());
    shell.watch("nodepool", Watch::<NodePool>::all(kube.clone()), mailbox.clone());
    shell.watch("overlay-nodeclass", Watch::<EC2NodeClass>::all(kube), mailbox);
}

fn saver(shell: &mut Shell, task: &'static str, name: &'static str) -> mpsc::Sender<Save> {
    let (saver, sender) = Saver::new(shell.kube.clone(), &shell.config.namespace, name);
    let stop = shell.stop();
    shell.process.spawn(task, saver.run(stop));
    sender
}

fn watch_map(
    shell: &mut Shell,
    task: &'static str,
    name: &str,
    mailbox: mpsc::Sender<Message>,
    wrap: fn(Change<ConfigMap>) -> Message,
) {
    let watch = Watch::<ConfigMap>::namespaced(shell.kube.clone(), &shell.config.namespace).named(name);
    shell.watch(task, watch, Into { mailbox, wrap });
}

/// Feeds the owner's mailbox with the changes of one watch.
struct Into<K> {
    mailbox: mpsc::Sender<Message>,
    wrap: fn(Change<K>) -> Message,
}

impl<K: Send + Sync + 'static> Index<K> for Into<K> {
    async fn change(&mut self, change: Change<K>) {
        let _ = self.mailbox.send((self.wrap)(change)).await;
    }
}
