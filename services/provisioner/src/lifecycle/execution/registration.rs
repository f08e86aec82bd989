//! Registration and initialization: the claim's Node has joined, then it is ready.

use api::conditions::Finding;
use cloud::instance::id_of_provider;
use k8s_openapi::api::core::v1::Node;
use model::labels;
use runtime::events::Event;
use serde_json::json;
use tracing::{info, warn};

use super::super::decision::{
    CONSISTENT, INITIALIZED, REGISTERED, Registration, initialization_gate, provider_id,
};
use super::super::metrics::{Created, Pool};
use super::super::write::{WriteError, is_conflict, set_conditions};
use super::{Done, Executor, Job, Learned, Outcome, about, label, pool_of};
use crate::nodepool::Registered;

impl Executor {
    pub(super) async fn register(&self, job: &Job, registration: &Registration) -> Done {
        let name = registration.node.metadata.name.as_deref().unwrap_or_default();
        if registration.taint_missing {
            let message = format!(
                "Node {name} joined without taint {}:NoExecute; pods may have started on it before it was registered",
                labels::UNREGISTERED_TAINT
            );
            warn!(nodeclaim = &*job.name, node = name, "node joined without the taint of unregistered nodes");
            self.recorder.publish(Event::warning(about(&job.claim), "UnregisteredTaintMissing", message));
        }
        let node = match &registration.patch {
            None => registration.node.clone(),
            Some(patch) => match self.writer.node(name, patch).await {
                Ok(node) => node,
                // Kubelets write often. With the Node as it is now the decision is made again.
                Err(WriteError::Kube(error)) if is_conflict(&error) => {
                    return Ok(Outcome::default().node(self.writer.read_node(name).await?));
                }
                Err(error) => return Err(error),
            },
        };
        if registration.held_by.is_some() {
            return Ok(Outcome::default().node(node));
        }
        self.registered(job, node).await
    }

    async fn registered(&self, job: &Job, node: Node) -> Done {
        let name = node.metadata.name.clone().unwrap_or_default();
        // Saves writes: what would be noted next is known already.
        let mut findings = vec![(REGISTERED, Finding::holds()), (CONSISTENT, Finding::holds())];
        findings.extend(initialization_gate(&job.claim, &node).map(|finding| (INITIALIZED, finding)));
        let claim = self
            .writer
            .claim_status(&job.claim, |claim| {
                claim.status.get_or_insert_default().node_name = Some(name.clone());
                set_conditions(claim, &findings, job.now);
                true
            })
            .await?;
        let (nodepool, zone) = (pool_of(&claim).to_owned(), label(&claim, labels::ZONE).to_owned());
        info!(
            nodeclaim = &*job.name,
            nodepool,
            node = name,
            provider_id = provider_id(&claim),
            "registered nodeclaim"
        );
        if let Some(created) = &claim.metadata.creation_timestamp {
            let took = job.now.duration_since(created.0).as_secs_f64().max(0.0);
            self.metrics.registered.get_or_create(&Pool { nodepool: nodepool.clone() }).observe(took);
        }
        self.metrics.nodes_created.get_or_create(&Created { nodepool, zone }).inc();
        self.health.report(&claim, Registered::Yes);
        self.tags.wanted(&claim);
        Ok(Outcome::claim(claim).node(node).learned(Learned::Scanned))
    }

    pub(super) async fn initialize(&self, job: &Job, name: &str) -> Done {
        let patch = json!({"metadata": {"labels": {labels::INITIALIZED: labels::TRUE}}});
        let node = self.writer.node(name, &patch).await?;
        let outcome = self.note(job, &[(INITIALIZED, Finding::holds())]).await?;
        let allocatable =
            node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
        let told: Vec<_> = allocatable.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
        info!(
            nodeclaim = &*job.name,
            nodepool = pool_of(&job.claim),
            node = name,
            provider_id = provider_id(&job.claim),
            allocatable = told.join(", "),
            "initialized nodeclaim"
        );
        Ok(outcome.node(node))
    }

    /// EC2 puts an instance of a partition placement group where it likes, and says so a moment after the launch.
    pub(super) async fn find_partition(&self, job: &Job) -> Done {
        let id = provider_id(&job.claim).and_then(id_of_provider).unwrap_or_default().to_owned();
        let partition = match self.launcher.instances_by_id(vec![id]).await {
            Ok(instances) => instances.first().and_then(|instance| instance.partition),
            Err(error) => {
                warn!(nodeclaim = &*job.name, %error, "asking for the partition of the placement group failed");
                None
            }
        };
        let Some(number) = partition else {
            return Ok(Outcome::default().learned(Learned::PartitionUnknown));
        };
        let change = |meta: &mut kube::core::ObjectMeta| {
            let all = meta.labels.get_or_insert_default();
            all.insert(labels::PLACEMENT_GROUP_PARTITION.to_owned(), number.to_string());
        };
        Ok(Outcome::claim(self.writer.claim_meta(&job.claim, change).await?))
    }
}
