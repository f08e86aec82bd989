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
use cloud::unavailable::Scope;
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

/// Instance types by EC2NodeClass.
pub(crate) type Types = BTreeMap<Arc<str>, Arc<Vec<InstanceType>>>;

/// One version of everything that can be bought.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    /// Of this replica: grows with each change of facts, marks or classes. 0: nothing has arrived yet.
    pub(crate) version: u64,
    /// As pricing-cache counts.
    pub(crate) catalog_version: u64,
    /// By name of the EC2NodeClass.
    pub(crate) types: Arc<Types>,
    /// Zones that AWS shifts traffic away from now, id by name.
    pub(crate) shifted: Arc<BTreeMap<String, String>>,
    /// NodeOverlays, which change types by NodePool.
    pub(crate) overlays: Arc<Vec<Overlay>>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct CatalogHandle {
    latest: watch::Receiver<Offer>,
    inbox: mpsc::Sender<Message>,
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
    let actor = offer::Actor {
        inbox: messages,
        latest: sender,
        settings: derive_settings(settings),
        ready: shell.readiness.check("catalog", "first catalogue from pricing-cache"),
        state: offer::State::default(),
    };
    let stop = shell.stop();
    shell.process.spawn("catalog", actor.run(stop.clone()));
    shell.process.spawn("catalog-stream", follow::follow(peers.any(), inbox.clone(), stop));
    Ok((CatalogHandle { latest, inbox: inbox.clone(), peers: Some(peers) }, inbox))
}

fn derive_settings(settings: &Settings) -> cloud::derive::Settings {
    cloud::derive::Settings {
        vm_memory_overhead_millionths: (settings.vm_memory_overhead_percent * 1e6).round() as u32,
        reserved_enis: settings.reserved_enis,
        reserved_capacity: settings.feature_gates.reserved_capacity,
    }
}

impl CatalogHandle {
    /// Types as nodes of this class would be; `None` before the catalogue has arrived, or where there is no such class.
    pub(crate) fn instance_types(&self, node_class: &str) -> Option<Arc<Vec<InstanceType>>> {
        self.latest.borrow().types.get(node_class).cloned()
    }

    pub(crate) fn latest(&self) -> Offer {
        self.latest.borrow().clone()
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
