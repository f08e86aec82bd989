//! Which instances the claims of a batch have, so that none is handed out twice: read from the API server itself, and so that
//! no write of a process that was killed can change it afterwards.

use std::collections::BTreeSet;

use api::NodeClaim;
use cloud::instance::id_of_provider;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use model::labels;
use serde_json::json;

use super::decision::provider_id;
use super::write::is_conflict;
use crate::deps::FIELD_MANAGER;
use crate::launch::Records;

const PAGE: u32 = 500;
const WRITES_AT_ONCE: usize = 16;

pub(crate) struct Claims(Api<NodeClaim>);

impl Claims {
    pub(crate) fn new(client: Client) -> Self {
        Self(Api::all(client))
    }

    async fn of_pool(&self, pool: &str) -> Result<Vec<NodeClaim>, kube::Error> {
        let mut params = ListParams::default().labels(&format!("{}={pool}", labels::NODEPOOL)).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.0.list(&params).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// A write that was made for an older version of the claim fails from now on.
    async fn fence(&self, claim: &NodeClaim, now: Timestamp) -> Result<(), String> {
        let name = claim.name_any();
        let patch = json!({"metadata": {
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {labels::LAUNCH_RECOVERED: now.to_string()},
        }});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.0.patch(&name, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            // One that is gone names no instance any more.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) if is_conflict(&error) => {
                Err(format!("NodeClaim {name} changed while it was looked at; trying again"))
            }
            Err(error) => Err(format!("write NodeClaim {name}: {error}")),
        }
    }
}

impl Records for Claims {
    fn instances_named<'a>(
        &'a self,
        pool: &'a str,
        batch: &'a str,
    ) -> BoxFuture<'a, Result<BTreeSet<String>, String>> {
        Box::pin(async move {
            let all =
                self.of_pool(pool).await.map_err(|error| format!("list NodeClaims of {pool}: {error}"))?;
            let now = Timestamp::now();
            let waiting = all.iter().filter(|claim| {
                provider_id(claim).is_none()
                    && claim.annotations().get(labels::LAUNCH_BATCH).is_some_and(|id| id == batch)
            });
            let fences: Vec<_> = waiting.map(|claim| self.fence(claim, now)).collect();
            let fenced = futures::stream::iter(fences).buffer_unordered(WRITES_AT_ONCE);
            fenced.try_collect::<Vec<()>>().await?;
            Ok(all
                .iter()
                .filter_map(|claim| provider_id(claim).and_then(id_of_provider))
                .map(str::to_owned)
                .collect())
        })
    }
}
