//! The task that judges overlays anew whenever an overlay, a NodePool, a node class or the catalogue's types change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeOverlay, NodePool};
use cloud::catalog::Entry;
use cloud::derive::{self, Family, NodeClass, Region, Settings, SubnetZone};
use cloud::unavailable::Marks;
use kube::{Client, Resource, ResourceExt as _};
use model::catalog::InstanceType;
use model::labels;
use model::price::MicroDollars;
use model::requirement::Operator;
use runtime::Leadership;
use runtime::watch::Change;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::judge::{Judgement, Verdict, judge};
use super::status;
use crate::catalogue::Catalogue;
use crate::owner;

const MAILBOX: usize = 64;
/// Changes come in bursts: a `kubectl apply` of ten overlays is judged once.
const GATHER: Duration = Duration::from_millis(50);

pub(crate) enum Message {
    Overlay(Change<NodeOverlay>),
    Pool(Change<NodePool>),
    Class(Change<EC2NodeClass>),
}

impl From<Change<NodeOverlay>> for Message {
    fn from(change: Change<NodeOverlay>) -> Self {
        Self::Overlay(change)
    }
}

impl From<Change<NodePool>> for Message {
    fn from(change: Change<NodePool>) -> Self {
        Self::Pool(change)
    }
}

impl From<Change<EC2NodeClass>> for Message {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self::Class(change)
    }
}

/// Objects of one kind by name; `None` before the first list.
struct Objects<K>(Option<BTreeMap<String, Arc<K>>>);

impl<K: Resource> Objects<K> {
    fn change(&mut self, change: Change<K>) {
        let objects = self.0.get_or_insert_default();
        match change {
            Change::Applied(object) => drop(objects.insert(object.name_any(), object)),
            Change::Deleted(object) => drop(objects.remove(&object.name_any())),
            Change::Reset(all) => *objects = all.into_iter().map(|o| (o.name_any(), o)).collect(),
        }
    }
}

pub(crate) struct Evaluator {
    client: Client,
    settings: Settings,
    mailbox: mpsc::Receiver<Message>,
    /// The catalogue before overlays are known.
    drafts: watch::Receiver<Option<Arc<Catalogue>>>,
    owner: mpsc::Sender<owner::Message>,
    overlays: Objects<NodeOverlay>,
    pools: Objects<NodePool>,
    classes: Objects<EC2NodeClass>,
    /// What was last warned about.
    warned: BTreeMap<String, Verdict>,
    /// Every replica leads, unless Karpenter does: then no status is written.
    leadership: Leadership,
    /// There are verdicts that no status says.
    unwritten: bool,
}

impl Evaluator {
    pub(crate) fn new(
        client: Client,
        settings: Settings,
        drafts: watch::Receiver<Option<Arc<Catalogue>>>,
        owner: mpsc::Sender<owner::Message>,
        leadership: Leadership,
    ) -> (Self, mpsc::Sender<Message>) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let evaluator = Self {
            client,
            settings,
            mailbox,
            drafts,
            owner,
            overlays: Objects(None),
            pools: Objects(None),
            classes: Objects(None),
            warned: BTreeMap::new(),
            leadership,
            unwritten: false,
        };
        (evaluator, sender)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut judged_types: Option<Arc<Catalogue>> = None;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(message) = self.mailbox.recv() => {
                    self.take(message);
                    tokio::time::sleep(GATHER).await;
                    while let Ok(message) = self.mailbox.try_recv() {
                        self.take(message);
                    }
                }
                Ok(()) = self.drafts.changed() => {
                    let draft = self.drafts.borrow_and_update().clone();
                    let same = |a: &Catalogue, b: &Catalogue| {
                        Arc::ptr_eq(&a.entries, &b.entries) && Arc::ptr_eq(&a.reservations, &b.reservations)
                    };
                    // Prices and marks come and go; which overlays meet depends on neither.
                    let unchanged = matches!((&draft, &judged_types), (Some(a), Some(b)) if same(a, b));
                    if unchanged {
                        continue;
                    }
                }
                _ = self.leadership.term(), if self.unwritten => {}
                else => {
                    stop.cancelled().await;
                    return Ok(());
                }
            }
            let Some(catalogue) = self.drafts.borrow().clone() else { continue };
            if let Some(judgement) = self.judge(&catalogue).await {
                judged_types = Some(catalogue);
                self.tell(judgement).await;
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Overlay(change) => self.overlays.change(change),
            Message::Pool(change) => self.pools.change(change),
            Message::Class(change) => self.classes.change(change),
        }
    }

    /// `None` before all objects were listed.
    async fn judge(&self, catalogue: &Arc<Catalogue>) -> Option<Judgement> {
        let overlays: Vec<Arc<NodeOverlay>> = self.overlays.0.as_ref()?.values().cloned().collect();
        let pools: Vec<Arc<NodePool>> = self.pools.0.as_ref()?.values().cloned().collect();
        let classes = self.classes.0.clone()?;
        if overlays.is_empty() {
            return Some(Judgement::default());
        }
        let (catalogue, settings) = (Arc::clone(catalogue), self.settings.clone());
        let work = move || {
            let pools = pools_with_types(&pools, &classes, &overlays, &catalogue, &settings);
            judge(&overlays, pools)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(judgement) => Some(judgement),
            Err(error) => {
                warn!(%error, "could not evaluate NodeOverlays");
                None
            }
        }
    }

    async fn tell(&mut self, Judgement { accepted, verdicts }: Judgement) {
        let names: Vec<&str> = accepted.iter().map(|o| o.name.as_str()).collect();
        if self.warned != verdicts {
            for (name, verdict) in verdicts.iter().filter(|(name, v)| self.warned.get(*name) != Some(v)) {
                match verdict {
                    Verdict::Valid => {}
                    Verdict::Conflict(why) | Verdict::Invalid(why) => {
                        warn!(nodeoverlay = name, why, "NodeOverlay is not applied");
                    }
                }
            }
            info!(accepted = ?names, "evaluated NodeOverlays");
        }
        // First what is streamed: an overlay whose status says Ready is in force.
        let (published, is_published) = oneshot::channel();
        if self.owner.send(owner::Message::Overlays { accepted, published }).await.is_ok() {
            let _ = is_published.await;
        }
        let objects = self.overlays.0.clone().unwrap_or_default();
        self.unwritten = false;
        for (name, verdict) in &verdicts {
            let Some(object) = objects.get(name) else { continue };
            let Some(term) = self.leadership.held() else {
                self.unwritten = true;
                continue;
            };
            tokio::select! {
                biased;
                () = term.lost().cancelled_owned() => self.unwritten = true,
                () = status::write(&self.client, object, verdict) => {}
            }
        }
        self.warned = verdicts;
    }
}

/// Every NodePool with all types of its class as if nothing were unavailable, so that a verdict does not change with every
/// shortage. Pools that cannot be read are left out; their own status says why.
fn pools_with_types(
    pools: &[Arc<NodePool>],
    classes: &BTreeMap<String, Arc<EC2NodeClass>>,
    overlays: &[Arc<NodeOverlay>],
    catalogue: &Catalogue,
    settings: &Settings,
) -> Vec<model::pool::NodePool> {
    let overlay_prices = fixed_prices(overlays);
    let entries: Vec<Entry> = catalogue.entries.iter().map(|entry| (**entry).clone()).collect();
    let (marks, learned_memory) = (Marks::default(), BTreeMap::new());
    let mut zones = catalogue.zones.as_ref().clone();
    zones.iter_mut().for_each(|zone| zone.shifted = false);
    let region = Region {
        name: &catalogue.region,
        zones: &zones,
        marks: &marks,
        overlay_prices: &overlay_prices,
        learned_memory: &learned_memory,
        now: jiff::Timestamp::now(),
    };
    let mut made: BTreeMap<String, Arc<Vec<InstanceType>>> = BTreeMap::new();
    let mut all = Vec::new();
    for pool in pools {
        let class = pool.spec.template.spec.node_class_ref.name.clone();
        let types = made.entry(class).or_insert_with_key(|name| {
            let class = class_of(classes.get(name).map(Arc::as_ref), catalogue);
            Arc::new(derive::instance_types(&entries, &class, &region, settings))
        });
        match api::convert::node_pool(pool, Arc::clone(types)) {
            Ok(pool) => all.push(pool),
            Err(error) => {
                warn!(nodepool = pool.name_any(), %error, "NodePool cannot be read and is ignored")
            }
        }
    }
    all
}

/// The parts of a class that decide which offerings its nodes can be: a class without subnets (yet) counts as one with a
/// subnet in every zone.
fn class_of(class: Option<&EC2NodeClass>, catalogue: &Catalogue) -> NodeClass {
    let family = class.and_then(|class| class.spec.resolved_ami_family());
    let status = class.and_then(|class| class.status.as_ref());
    let own = status.and_then(|s| s.subnets.as_deref()).unwrap_or_default();
    let mut subnets: Vec<SubnetZone> = own
        .iter()
        .map(|s| SubnetZone { id: s.id.clone(), zone: s.zone.clone(), zone_id: s.zone_id.clone() })
        .collect();
    if subnets.is_empty() {
        let everywhere = catalogue.zones.iter();
        subnets = everywhere
            .map(|z| SubnetZone { id: String::new(), zone: z.name.clone(), zone_id: Some(z.id.clone()) })
            .collect();
    }
    let held = status.and_then(|s| s.capacity_reservations.as_deref()).unwrap_or_default();
    let reservations = catalogue.reservations.iter().map(|(reservation, _)| reservation);
    NodeClass {
        subnets,
        reservations: reservations.filter(|r| held.iter().any(|h| h.id == r.id)).cloned().collect(),
        ..NodeClass::new(Family::parse(family.as_ref().map_or("AL2023", |f| f.as_str())))
    }
}

/// Absolute prices of overlays that name nothing but instance types: types without a public price exist through them.
fn fixed_prices(overlays: &[Arc<NodeOverlay>]) -> BTreeMap<String, MicroDollars> {
    let mut prices = BTreeMap::new();
    for overlay in overlays {
        let [only] = overlay.spec.requirements.as_slice() else { continue };
        let price = overlay.spec.price.as_deref().and_then(|text| text.parse::<MicroDollars>().ok());
        let (Some(price), Ok(entry)) = (price, only.to_entry()) else { continue };
        if entry.key == labels::INSTANCE_TYPE && entry.operator == Operator::In {
            prices.extend(entry.values.into_iter().map(|name| (name, price)));
        }
    }
    prices
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use kube::client::Body;
    use runtime::lease::{Timing, Unelected};
    use serde_json::{Value, json};

    use super::*;

    /// An API server with Karpenter's Lease, where there is one; it keeps the paths of what is written.
    #[derive(Clone, Default)]
    struct Server {
        karpenter: Arc<Mutex<Option<Value>>>,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl Server {
        fn client(&self) -> Client {
            let server = self.clone();
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let (code, body) = server.answer(&request);
                let answer =
                    http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                std::future::ready(Ok::<_, Infallible>(answer.unwrap()))
            });
            Client::new(service, "kube-system")
        }

        fn answer(&self, request: &http::Request<Body>) -> (u16, Value) {
            if request.method() == http::Method::PATCH {
                self.written.lock().unwrap().push(request.uri().path().to_owned());
                return (200, serde_json::to_value(overlay()).unwrap());
            }
            let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "none",
                "reason": "NotFound", "code": 404});
            self.karpenter.lock().unwrap().clone().map_or((404, missing), |lease| (200, lease))
        }
    }

    fn overlay() -> NodeOverlay {
        let mut overlay = NodeOverlay::default();
        overlay.metadata.name = Some("one".into());
        overlay
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
    async fn no_status_is_written_while_karpenter_leads_and_it_is_caught_up_with_when_karpenter_is_gone() {
        let server = Server::default();
        let renewed = format!("{:.6}", jiff::Timestamp::now());
        *server.karpenter.lock().unwrap() = Some(json!({
            "metadata": {"name": "karpenter-leader-election", "resourceVersion": "1"},
            "spec": {"holderIdentity": "karpenter-1", "leaseDurationSeconds": 3000, "renewTime": renewed},
        }));
        let (readiness, stop) = (runtime::Readiness::default(), CancellationToken::new());
        let (guard, leadership) =
            Unelected::new(server.client(), "kube-system", Timing::default(), readiness.note("karpenter"));
        let guarding = tokio::spawn(guard.run(stop.clone()));
        let (owner, _) = mpsc::channel(1);
        let drafts = watch::Sender::new(None);
        let (mut evaluator, _mailbox) =
            Evaluator::new(server.client(), Settings::default(), drafts.subscribe(), owner, leadership);
        evaluator.overlays.change(Change::Applied(Arc::new(overlay())));
        let judgement = || Judgement {
            accepted: Vec::new(),
            verdicts: BTreeMap::from([("one".to_owned(), Verdict::Valid)]),
        };
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        evaluator.tell(judgement()).await;
        assert!(server.written.lock().unwrap().is_empty() && evaluator.unwritten);

        *server.karpenter.lock().unwrap() = None;
        drop(evaluator.leadership.term().await);
        evaluator.tell(judgement()).await;
        assert_eq!(*server.written.lock().unwrap(), ["/apis/karpenter.sh/v1alpha1/nodeoverlays/one/status"]);
        assert!(!evaluator.unwritten);
        stop.cancel();
        guarding.await.unwrap().unwrap();
    }
}
