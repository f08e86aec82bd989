//! What is written on a class beside its status: finalizer and drift hash, and the hash version on its claims.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::{EC2NodeClass, NodeClaim};
use kube::Api;
use kube::api::{ListParams, Patch};
use model::labels;
use serde_json::json;

use super::hash;
use super::reconcile::Visit;
use super::write::{is_gone, params};

impl Visit {
    /// Finalizer and hash annotations. Says whether it wrote.
    pub(super) async fn mark(&self, class: &EC2NodeClass) -> anyhow::Result<bool> {
        let wanted = hash::wanted(class, self.cluster.ca_bundle.as_deref().unwrap_or_default());
        let own = class.metadata.annotations.clone().unwrap_or_default();
        let stamped = wanted.iter().all(|(key, value)| own.get(key) == Some(value));
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        let held = finalizers.iter().any(|f| f == labels::EC2NODECLASS_FINALIZER);
        if stamped && held {
            return Ok(false);
        }
        if hash::version_changed(class) {
            self.restamp(class, &wanted).await?;
        }
        if !held {
            finalizers.push(labels::EC2NODECLASS_FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": class.metadata.resource_version,
            "finalizers": finalizers,
            "annotations": wanted,
        }});
        self.patch(class, &patch).await.context("write finalizer and hash")?;
        Ok(true)
    }

    async fn restamp(&self, class: &EC2NodeClass, wanted: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let api: Api<NodeClaim> = Api::all(self.kube.clone());
        for claim in self.claims_of(class).await? {
            let (Some(name), Some(stamps)) = (&claim.metadata.name, hash::restamped(&claim, wanted)) else {
                continue;
            };
            let patch = json!({"metadata": {"annotations": stamps}});
            let written = api.patch_metadata(name, &params(), &Patch::Merge(&patch)).await;
            if let Err(error) = written
                && !is_gone(&error)
            {
                return Err(error).with_context(|| format!("write the hash version of NodeClaim {name}"));
            }
        }
        Ok(())
    }

    pub(super) async fn claims_of(&self, class: &EC2NodeClass) -> anyhow::Result<Vec<NodeClaim>> {
        let api: Api<NodeClaim> = Api::all(self.kube.clone());
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(500);
        loop {
            let listed = api.list(&page).await.context("list NodeClaims")?;
            let own = |claim: &NodeClaim| {
                let reference = &claim.spec.node_class_ref;
                reference.kind == api::ec2nodeclass::KIND
                    && Some(&reference.name) == class.metadata.name.as_ref()
            };
            all.extend(listed.items.into_iter().filter(own));
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}
