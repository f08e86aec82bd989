//! Stand-ins for the other services and a scene around them, for tests of this crate. The cluster tests use the real ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud::memory::MemoryCloud;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use proto::pricingcache::v1::Unavailable;
use proto::provisioner::v1::{CreateReplacementsRequest, SimulateRequest, SimulateResponse};
use proto::termination::v1::{TerminateRequest, TerminateResponse};
use runtime::Readiness;
use runtime::watch::{Change, Index as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::actions::Actions;
use crate::claims::{self, Claims};
use crate::confirm::Confirmations;
use crate::decision::Policy;
use crate::events::Events;
use crate::handler::{Handler, Malformed};
use crate::handover::{self, Termination};
use crate::journal::{self, Journal};
use crate::metrics::Metrics;
use crate::queue::{Consumer, State};
use crate::replacements::{Planner, Replacements};
use crate::unavailable::{self, PricingCache};

/// Accepts every request unless a failure is set for it, and records it.
#[derive(Default)]
pub(crate) struct FakeTermination {
    pub(crate) taken: Mutex<Vec<TerminateRequest>>,
    /// Failures for the next calls, in order.
    pub(crate) failures: Mutex<VecDeque<Status>>,
    /// How long an answer takes.
    pub(crate) takes: Mutex<Duration>,
}

impl Termination for Arc<FakeTermination> {
    async fn terminate(&self, request: TerminateRequest) -> Result<TerminateResponse, Status> {
        let takes = *self.takes.lock().unwrap();
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if let Some(failure) = self.failures.lock().unwrap().pop_front() {
            return Err(failure);
        }
        let deadline = request.deadline;
        self.taken.lock().unwrap().push(request);
        Ok(TerminateResponse { already_deleting: false, deadline })
    }
}

#[derive(Default)]
pub(crate) struct FakePricingCache(pub(crate) Mutex<Vec<Unavailable>>);

impl PricingCache for Arc<FakePricingCache> {
    async fn report(&self, unavailable: Vec<Unavailable>) -> Result<(), Status> {
        self.0.lock().unwrap().extend(unavailable);
        Ok(())
    }
}

/// Answers every question with the same plan.
#[derive(Default)]
pub(crate) struct FakePlanner {
    pub(crate) plan: Mutex<SimulateResponse>,
    pub(crate) created: Mutex<Vec<CreateReplacementsRequest>>,
}

impl Planner for FakePlanner {
    fn simulate(&self, _: SimulateRequest) -> BoxFuture<'_, Result<SimulateResponse, Status>> {
        async { Ok(self.plan.lock().unwrap().clone()) }.boxed()
    }

    fn create(&self, request: CreateReplacementsRequest) -> BoxFuture<'_, Result<(), Status>> {
        async move {
            self.created.lock().unwrap().push(request);
            Ok(())
        }
        .boxed()
    }
}

pub(crate) const QUEUE: &str = "demo";
pub(crate) const REGION: &str = "us-west-2";

/// Everything but the queue's consumer, which a test starts when it wants.
pub(crate) struct Scene {
    pub(crate) cloud: Arc<MemoryCloud>,
    pub(crate) termination: Arc<FakeTermination>,
    pub(crate) pricing_cache: Arc<FakePricingCache>,
    pub(crate) planner: Arc<FakePlanner>,
    pub(crate) claims: Claims,
    pub(crate) handler: Handler,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) state: watch::Sender<State>,
    pub(crate) stop: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Scene {
    pub(crate) fn new(policy: Policy) -> Self {
        let registry = runtime::Metrics::new(runtime::Service::InterruptionWatcher);
        let metrics = Metrics::register(&registry);
        let stop = CancellationToken::new();
        let cloud = Arc::new(MemoryCloud::new(REGION));
        cloud.create_queue(QUEUE);
        let (termination, pricing_cache) =
            (Arc::new(FakeTermination::default()), Arc::new(FakePricingCache::default()));
        let planner = Arc::new(FakePlanner::default());
        let (journal_actor, journal) = journal::Actor::new();
        let (claims_actor, claims) = claims::Actor::new();
        let (handover_actor, handover) = handover::Actor::new(Arc::clone(&termination));
        let (unavailable_actor, unavailable) =
            unavailable::Actor::new(Arc::clone(&pricing_cache), metrics.clone());
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no API server here"))
        });
        let client = kube::Client::new(nobody, "default");
        let (events_writer, recorder) = runtime::events::Recorder::new(client, "t-1", registry);
        let actions = Actions {
            handover,
            unavailable,
            replacements: Replacements {
                claims: claims.clone(),
                planner: Arc::clone(&planner) as Arc<dyn Planner>,
            },
            events: Events::new(recorder),
            metrics: metrics.clone(),
        };
        let handler = Handler {
            claims: claims.clone(),
            actions,
            journal: journal.clone(),
            metrics: metrics.clone(),
            policy,
            confirmations: Confirmations(Arc::clone(&cloud) as Arc<dyn cloud::HealthSource>),
            malformed: Malformed::default(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(journal_actor.run(stop.clone()));
        tasks.spawn(claims_actor.run(stop.clone()));
        tasks.spawn(handover_actor.run(stop.clone()));
        tasks.spawn(unavailable_actor.run(stop.clone()));
        tasks.spawn(events_writer.run(stop.clone()));
        Self {
            cloud,
            termination,
            pricing_cache,
            planner,
            claims,
            handler,
            journal,
            metrics,
            readiness: Readiness::default(),
            state: watch::Sender::new(State::default()),
            stop,
            tasks,
        }
    }

    pub(crate) fn consume(&mut self, most_receivers: usize) {
        let consumer = Consumer {
            queue: Arc::clone(&self.cloud) as Arc<dyn cloud::Queue>,
            name: QUEUE.to_owned(),
            region: REGION.to_owned(),
            event_accounts: Vec::new(),
            handler: self.handler.clone(),
            metrics: self.metrics.clone(),
            most_receivers,
            most_deliveries: 3,
            state: self.state.clone(),
            note: self.readiness.note("queue"),
        };
        self.tasks.spawn(consumer.run(self.stop.clone()));
    }

    /// The claim of an instance; `more` is merged into its metadata.
    pub(crate) async fn claim(&self, name: &str, instance: &str, more: Value) {
        let mut object = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {
                "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
            }},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///us-west-2a/{instance}"), "nodeName": name,
                       "conditions": [{"type": "Initialized", "status": "True"}]},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        let object = Arc::new(serde_json::from_value(object).unwrap());
        self.claims.intake().change(Change::Applied(object)).await;
    }

    pub(crate) fn left_in_queue(&self) -> usize {
        self.cloud.state().queues[QUEUE].len()
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        let taken = self.termination.taken.lock().unwrap();
        let mut names: Vec<String> =
            taken.iter().map(|request| request.node_claim.clone().unwrap_or_default().name).collect();
        names.sort();
        names
    }

    /// Waits, in the test's own time, until the condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..100_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("waited in vain for {what}");
    }
}

pub(crate) fn spot_warning(instance: &str) -> String {
    message(
        "EC2 Spot Instance Interruption Warning",
        json!({"instance-id": instance, "instance-action": "terminate"}),
    )
}

pub(crate) fn rebalance(instance: &str) -> String {
    message("EC2 Instance Rebalance Recommendation", json!({"instance-id": instance}))
}

pub(crate) fn message(detail_type: &str, detail: Value) -> String {
    json!({
        "version": "0", "id": "e-1", "source": "aws.ec2", "detail-type": detail_type, "account": "123456789012",
        "region": REGION, "time": "2026-02-16T08:00:00Z", "resources": [], "detail": detail,
    })
    .to_string()
}
