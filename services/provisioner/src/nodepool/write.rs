//! Writes to pools and, when hashes migrate, to their claims.

use std::time::Duration;

use anyhow::Context as _;
use api::{NodeClaim, NodePool, NodePoolStatus};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use model::labels;
use serde_json::json;

use super::hash::{self, Annotations, Rehash};
use crate::deps::FIELD_MANAGER;

/// A page of claims, each of them maybe tens of kilobytes.
const PAGE: u32 = 200;
const CALL: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(super) struct Writer {
    pools: Api<NodePool>,
    claims: Api<NodeClaim>,
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Self { pools: Api::all(client.clone()), claims: Api::all(client) }
    }

    /// `None`: somebody else was faster, and the watch will bring what they wrote.
    pub(super) async fn status(
        &self,
        pool: &NodePool,
        status: &NodePoolStatus,
    ) -> anyhow::Result<Option<NodePool>> {
        let body = json!({"metadata": {"resourceVersion": pool.metadata.resource_version}, "status": status});
        let (name, params, body) = (name(pool), params(), Patch::Merge(&body));
        let written = self.pools.patch_status(name, &params, &body);
        let written = tokio::time::timeout(CALL, written).await.context("no answer in time")?;
        unless_overtaken(written).with_context(|| format!("write the status of NodePool {name}"))
    }

    pub(super) async fn rehash(&self, pool: &NodePool, rehash: &Rehash) -> anyhow::Result<Option<NodePool>> {
        let name = name(pool);
        if rehash.migrate_claims {
            self.migrate(pool)
                .await
                .with_context(|| format!("bring the hashes of NodePool {name}'s claims up to date"))?;
        }
        let body = json!({"metadata": {
            "resourceVersion": pool.metadata.resource_version,
            "annotations": rehash.annotations,
        }});
        let written = self.pools.patch(name, &params(), &Patch::Merge(&body)).await;
        unless_overtaken(written).with_context(|| format!("write the hash of NodePool {name}"))
    }

    async fn migrate(&self, pool: &NodePool) -> anyhow::Result<()> {
        let mut page =
            ListParams::default().labels(&format!("{}={}", labels::NODEPOOL, name(pool))).limit(PAGE);
        loop {
            let claims = self.claims.list(&page).await.context("list claims")?;
            for claim in &claims.items {
                if let Some(annotations) = hash::of_claim(claim, pool) {
                    self.annotate(claim, &annotations).await?;
                }
            }
            match claims.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    async fn annotate(&self, claim: &NodeClaim, annotations: &Annotations) -> anyhow::Result<()> {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let body = json!({"metadata": {"annotations": annotations}});
        match self.claims.patch(name, &params(), &Patch::Merge(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("annotate NodeClaim {name}")),
        }
    }
}

fn name(pool: &NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn unless_overtaken(written: Result<NodePool, kube::Error>) -> Result<Option<NodePool>, kube::Error> {
    match written {
        Ok(pool) => Ok(Some(pool)),
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
