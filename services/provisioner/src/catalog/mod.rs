//! What can be bought: follows pricing-cache's catalogue and combines it with every EC2NodeClass into instance types as nodes
//! of that class would be. Decides nothing; prices and marks are pricing-cache's.

mod class;
mod facts;
mod follow;
mod offer;
mod overlays;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::convert::overlay::Overlay;
use api::{EC2NodeClass, NodePool};
use cloud::nodeclass::PlacementGroup;
use cloud::unavailable::Scope;
use jiff::Timestamp;
use model::catalog::InstanceType;
use proto::pricingcache::v1::ReportUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use runtime::grpc::Peers;
use runtime::{Service, Settings, Shell};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::warn;

pub(crate) use offer::{ClassFacts, Message};

const MAILBOX: usize = 256;
const REPORT_DEADLINE: Duration = Duration::from_secs(5);
/// A derivation takes milliseconds; a decision does not wait for ever for one that does not.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// Instance types by EC2NodeClass.
pub(crate) type Types = BTreeMap<Arc<str>, Arc<Vec<InstanceType>>>;

/// One version of everything that can be bought.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    /// Of this replica: grows with each change of facts, marks or classes. 0: nothing has arrived yet.
    pub(crate) version: u64,
    /// As pricing-cache counts.
    pub(crate) catalog_version: u64,
    /// What it was derived from.
    pub(crate) facts: Arc<facts::Facts>,
    /// By name of the EC2NodeClass.
    pub(crate) types: Arc<Types>,
    /// Zones that AWS shifts traffic away from now, id by name.
    pub(crate) shifted: Arc<BTreeMap<String, String>>,
    pub(crate) overlays: Arc<Vec<Overlay>>,
    /// Types by NodePool, where NodeOverlays change those of its class.
    pub(crate) overlaid: Arc<overlays::Overlaid>,
}

impl Offer {
    /// Types as nodes of this class and NodePool would be, NodeOverlays applied. A claim without a NodePool has none of them.
    pub(crate) fn types_for(&self, node_class: &str, pool: &str) -> Option<&Arc<Vec<InstanceType>>> {
        let overlaid = self.overlaid.get(pool).filter(|(class, _)| **class == *node_class);
        overlaid.map(|(_, types)| types).or_else(|| self.types.get(node_class))
    }

    /// The same with other NodeOverlays and NodePools.
    pub(crate) fn with_overlays(
        self,
        overlays: Vec<Overlay>,
        pools: &BTreeMap<String, Arc<NodePool>>,
    ) -> Self {
        let overlaid = overlays::by_pool(pools, &self.types, &overlays, &self.overlaid);
        Self { overlays: Arc::new(overlays), overlaid: Arc::new(overlaid), ..self }
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct CatalogHandle {
    latest: watch::Receiver<Offer>,
    inbox: mpsc::Sender<Message>,
    settings: cloud::derive::Settings,
    /// `None` in tests.
    peers: Option<Peers>,
}

/// Feeds the actor: EC2NodeClasses must be watched.
pub(crate) type Inbox = mpsc::Sender<Message>;

/// Starts following pricing-cache.
pub(crate) fn spawn(shell: &mut Shell, settings: &Settings) -> anyhow::Result<(CatalogHandle, Inbox)> {
    let peers = shell.peers(Service::PricingCache)?;
    let (inbox, messages) = mpsc::channel(MAILBOX);
    let (sender, latest) = watch::channel(Offer::default());
    let settings = derive_settings(settings);
    let actor = offer::Actor {
        inbox: messages,
        latest: sender,
        settings: settings.clone(),
        ready: shell.readiness.check("catalog", "first catalogue from pricing-cache"),
        state: offer::State::default(),
    };
    let stop = shell.stop();
    shell.process.spawn("catalog", actor.run(stop.clone()));
    shell.process.spawn("catalog-stream", follow::follow(peers.any(), inbox.clone(), stop));
    Ok((CatalogHandle { latest, inbox: inbox.clone(), settings, peers: Some(peers) }, inbox))
}

fn derive_settings(settings: &Settings) -> cloud::derive::Settings {
    cloud::derive::Settings {
        vm_memory_overhead_millionths: (settings.vm_memory_overhead_percent * 1e6).round() as u32,
        reserved_enis: settings.reserved_enis,
        reserved_capacity: settings.feature_gates.reserved_capacity,
    }
}

impl CatalogHandle {
    /// Types as nodes of this class and NodePool would be, NodeOverlays applied; `None` before the catalogue has arrived, or
    /// where there is no such class.
    pub(crate) fn instance_types(&self, node_class: &str, pool: &str) -> Option<Arc<Vec<InstanceType>>> {
        self.latest.borrow().types_for(node_class, pool).cloned()
    }

    /// Types that this class can use, whether or not EC2 has any now; `None` before the catalogue has arrived.
    pub(crate) fn usable_types(
        &self,
        class: &EC2NodeClass,
        group: Option<&PlacementGroup>,
    ) -> Option<Vec<InstanceType>> {
        let facts = Arc::clone(&self.latest.borrow().facts);
        let known = !facts.epoch.is_empty();
        known.then(|| offer::usable_types(&facts, class, group, &self.settings, Timestamp::now()))
    }

    pub(crate) fn latest(&self) -> Offer {
        self.latest.borrow().clone()
    }

    /// Waits until every catalogue version and EC2NodeClass that has arrived is part of the offer: a decision made before would
    /// buy by the prices and overlays of before.
    pub(crate) async fn settled(&self) {
        let (done, settled) = oneshot::channel();
        let ask = async {
            if self.inbox.send(Message::Settle(done)).await.is_ok() {
                let _ = settled.await;
            }
        };
        if tokio::time::timeout(SETTLE_LIMIT, ask).await.is_err() {
            warn!(
                "the newest catalogue is not worked in after {SETTLE_LIMIT:?}; going on with the one before"
            );
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Offer> {
        self.latest.clone()
    }

    /// EC2 had none to give. In force here when this returns; pricing-cache, and with it every other replica, has been told
    /// too unless it is away. `reason` is EC2's error code.
    pub(crate) async fn report_unavailable(&self, scopes: Vec<Scope>, reason: &str) {
        let marks = scopes.iter().map(|scope| facts::reported(scope, reason)).collect();
        let (done, applied) = oneshot::channel();
        let message = Message::Unavailable { scopes, reason: reason.to_owned(), done };
        if self.inbox.send(message).await.is_ok() {
            let _ = applied.await;
        }
        let Some(peers) = &self.peers else { return };
        let mut client = PricingCacheClient::new(peers.any().deadline(REPORT_DEADLINE));
        let request = ReportUnavailableRequest { unavailable: marks, hold: None };
        if let Err(error) = client.report_unavailable(request).await {
            warn!(%error, reason, "pricing-cache was not told that capacity is unavailable; this replica knows for 3 minutes");
        }
    }

    /// What this replica found out about a class: types that its placement group does not support are not offered, and
    /// reservations have no more room than EC2 says. `None`: the class is gone.
    pub(crate) async fn set_resolved(&self, class: &str, found: Option<ClassFacts>) {
        // When the actor is gone the process is ending.
        let _ = self.inbox.send(Message::Resolved { class: class.to_owned(), found }).await;
    }
}
