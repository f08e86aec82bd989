//! Nodes in capacity reservations, looked at once a minute: one whose reservation ended goes on as on-demand and says so; one
//! whose reservation is about to be reclaimed is deleted while there is time to drain it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::{EC2NodeClass, NodeClaim};
use cloud::Launcher;
use cloud::instance::{Instance, Lifecycle, id_of_provider};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use model::labels;
use runtime::Shell;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::deps::{Deps, FIELD_MANAGER};

const EVERY: Duration = Duration::from_mins(1);
/// Labels that only a node in a reservation has.
const OWN: [&str; 3] = [
    labels::CAPACITY_RESERVATION_ID,
    labels::CAPACITY_RESERVATION_TYPE,
    labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
];

struct Watcher {
    claims: Api<NodeClaim>,
    nodes: Api<Node>,
    classes: Api<EC2NodeClass>,
    launcher: Arc<dyn Launcher>,
}

pub(crate) fn spawn(shell: &mut Shell, deps: &Deps) {
    let watcher = Arc::new(Watcher {
        claims: Api::all(deps.kube.clone()),
        nodes: Api::all(deps.kube.clone()),
        classes: Api::all(deps.kube.clone()),
        launcher: deps.launcher.clone(),
    });
    let leadership = deps.leadership.clone();
    let stop = shell.stop();
    let work = leadership.lead(stop, move |lost| {
        let watcher = Arc::clone(&watcher);
        async move { watcher.run(lost).await }
    });
    shell.process.spawn("reserved-nodes", work);
}

impl Watcher {
    async fn run(&self, lost: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                () = lost.cancelled() => return Ok(()),
                _ = tick.tick() => {}
            }
            if let Err(error) = self.look().await {
                warn!(error = format!("{error:#}"), "nodes in reservations are looked at again in a minute");
            }
        }
    }

    async fn look(&self) -> anyhow::Result<()> {
        let selector = format!("{}={}", labels::CAPACITY_TYPE, labels::RESERVED);
        let listed =
            self.claims.list(&ListParams::default().labels(&selector)).await.context("list NodeClaims")?;
        let claims: Vec<NodeClaim> = listed.items.into_iter().filter(is_kept).collect();
        if claims.is_empty() {
            return Ok(());
        }
        let expiring = self.expiring().await?;
        let ids: Vec<String> = claims.iter().filter_map(instance_id).collect();
        let found = self.launcher.instances_by_id(ids).await.context("describe instances")?;
        let by_id: BTreeMap<&str, &Instance> = found.iter().map(|i| (i.id.as_str(), i)).collect();
        for claim in &claims {
            let name = claim.name_any();
            if claim.labels().get(labels::CAPACITY_RESERVATION_ID).is_some_and(|id| expiring.contains(id)) {
                info!(
                    nodeclaim = name,
                    "deleting nodeclaim, its capacity reservation is about to be reclaimed"
                );
                let preconditions = Some(Preconditions { uid: claim.uid(), resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                ignore_gone(self.claims.delete(&name, &params).await.map(drop))
                    .context("delete NodeClaim")?;
                continue;
            }
            let instance = instance_id(claim).and_then(|id| by_id.get(id.as_str()).copied());
            if instance.is_some_and(left_its_reservation) {
                self.relabel(claim).await?;
            }
        }
        Ok(())
    }

    /// Never the other way round: an on-demand instance that a reservation covers later stays what it was bought as.
    async fn relabel(&self, claim: &NodeClaim) -> anyhow::Result<()> {
        let name = claim.name_any();
        info!(nodeclaim = name, "capacity reservation has ended, the node goes on as on-demand");
        let patch = on_demand();
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        if let Some(node) = claim.status.as_ref().and_then(|s| s.node_name.as_deref()) {
            let written = self.nodes.patch_metadata(node, &params, &Patch::Merge(&patch)).await.map(drop);
            ignore_gone(written).with_context(|| format!("relabel Node {node}"))?;
        }
        let written = self.claims.patch_metadata(&name, &params, &Patch::Merge(&patch)).await.map(drop);
        ignore_gone(written).with_context(|| format!("relabel NodeClaim {name}"))
    }

    /// Reservations that EC2 takes back soon.
    async fn expiring(&self) -> anyhow::Result<BTreeSet<String>> {
        let classes = self.classes.list(&ListParams::default()).await.context("list EC2NodeClasses")?;
        let listed = classes.items.iter().filter_map(|c| c.status.as_ref()?.capacity_reservations.as_ref());
        let expiring = listed.flatten().filter(|r| r.state.as_str() == "expiring");
        Ok(expiring.map(|r| r.id.clone()).collect())
    }
}

fn is_kept(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none() && claim.spec.node_class_ref.is_supported()
}

fn instance_id(claim: &NodeClaim) -> Option<String> {
    let provider = claim.status.as_ref()?.provider_id.as_deref()?;
    id_of_provider(provider).map(str::to_owned)
}

fn left_its_reservation(instance: &Instance) -> bool {
    instance.lifecycle == Lifecycle::OnDemand && instance.reservation_id.is_none()
}

fn on_demand() -> Value {
    let mut own = serde_json::Map::from_iter([(labels::CAPACITY_TYPE.to_owned(), json!(labels::ON_DEMAND))]);
    own.extend(OWN.map(|key| (key.to_owned(), Value::Null)));
    json!({"metadata": {"labels": own}})
}

fn ignore_gone(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}
