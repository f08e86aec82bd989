//! A reader in the provisioner's place, and what tests of pricing-cache do to AWS and to its memory.

use anyhow::{Context, Result};
use futures::StreamExt as _;
use integration::kubernetes::{api_of, documents};
use integration::rpc::Impersonation;
use integration::{Service, Stack, aws};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use proto::pricingcache::v1::catalog_update::Update;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{
    CatalogDelta, CatalogSnapshot, CatalogUpdate, GetPricesRequest, GetPricesResponse, Unavailable,
    WatchCatalogRequest,
};
use proto::types::v1::CapacityType;
use runtime::grpc::Caller;
use serde_json::{Value, json};
use tonic::Streaming;

pub(crate) const NAME: &str = "pricing-cache";
const MAPS: [&str; 4] = [
    "karpenter-instance-types",
    "karpenter-prices",
    "karpenter-unavailable-offerings",
    "karpenter-memory-capacity",
];

/// One caller in the provisioner's place.
pub(crate) struct Reader {
    caller: Impersonation,
}

impl Reader {
    pub(crate) async fn new(stack: &Stack) -> Result<Self> {
        let (from, to) = (runtime::Service::Provisioner, runtime::Service::PricingCache);
        Ok(Self { caller: Impersonation::new(stack, from, to).await? })
    }

    pub(crate) fn client(&self) -> PricingCacheClient<Caller> {
        PricingCacheClient::new(self.caller.peers.any())
    }

    pub(crate) fn client_of(&self, replica: &Service) -> PricingCacheClient<Caller> {
        PricingCacheClient::new(self.caller.peers.replica(&replica.identity()))
    }

    pub(crate) async fn prices(&self, types: &[&str]) -> Result<GetPricesResponse> {
        let instance_types = types.iter().map(|name| (*name).to_owned()).collect();
        let request = GetPricesRequest { instance_types, ..GetPricesRequest::default() };
        Ok(self.client().get_prices(request).await?.into_inner())
    }

    pub(crate) async fn snapshot(&self) -> Result<CatalogSnapshot> {
        let mut stream = watch(&mut self.client()).await?;
        first(&mut stream).await.map(|(_, snapshot)| snapshot)
    }
}

pub(crate) async fn watch(client: &mut PricingCacheClient<Caller>) -> Result<Streaming<CatalogUpdate>> {
    Ok(client.watch_catalog(WatchCatalogRequest::default()).await?.into_inner())
}

pub(crate) async fn next(stream: &mut Streaming<CatalogUpdate>) -> Result<CatalogUpdate> {
    Ok(stream.next().await.context("the stream ended")??)
}

/// The snapshot that a fresh stream begins with, and where it stands in the numbering.
pub(crate) async fn first(stream: &mut Streaming<CatalogUpdate>) -> Result<((String, u64), CatalogSnapshot)> {
    let CatalogUpdate { epoch, version, update } = next(stream).await?;
    match update.context("an empty update")? {
        Update::Snapshot(snapshot) => Ok(((epoch, version), snapshot)),
        Update::Delta(_) => anyhow::bail!("the stream began with a delta"),
    }
}

/// The first delta that says something of what `wanted` asks for.
pub(crate) async fn delta_with(
    stream: &mut Streaming<CatalogUpdate>,
    wanted: impl Fn(&CatalogDelta) -> bool,
) -> Result<CatalogDelta> {
    loop {
        if let Some(Update::Delta(delta)) = next(stream).await?.update
            && wanted(&delta)
        {
            return Ok(delta);
        }
    }
}

/// A start without memory and without faults.
pub(crate) async fn forget_everything(stack: &Stack) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    for name in MAPS {
        if maps.get_opt(name).await?.is_some() {
            maps.delete(name, &DeleteParams::default()).await?;
        }
    }
    for rules in ["/errors", "/throttle", "/partial-pages", "/odd-answers", "/spot-price", "/zonal-shift"] {
        aws::delete(stack, rules)?;
    }
    Ok(())
}

pub(crate) fn fail(stack: &Stack, action: &str, code: &str) -> Result<()> {
    aws::put(stack, "/errors", &json!({"action": action, "code": code, "message": "by the test"})).map(drop)
}

pub(crate) fn mark(instance_type: &str) -> Unavailable {
    Unavailable {
        instance_type: instance_type.to_owned(),
        zone: "us-west-2a".to_owned(),
        capacity_type: CapacityType::Spot.into(),
        reason: "InsufficientInstanceCapacity".to_owned(),
        ..Unavailable::default()
    }
}

pub(crate) async fn apply(stack: &Stack, text: &str) -> Result<()> {
    let client = stack.admin().await?;
    for object in documents(text)? {
        let api = api_of(&client, &object).await?;
        let status = object.get("status").cloned();
        let created = api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        if let Some(status) = status {
            // Without a version: controllers write to a new node at the same time.
            let name = created.metadata.name.context("a name")?;
            let patch = Patch::Merge(json!({"status": status}));
            api.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
    }
    Ok(())
}

pub(crate) async fn delete(stack: &Stack, text: &str) -> Result<()> {
    let client = stack.admin().await?;
    for object in documents(text)? {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        api_of(&client, &object).await?.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Requests of pricing-cache that the local AWS remembers, oldest first.
pub(crate) fn requests(stack: &Stack) -> Result<Vec<Value>> {
    let calls = aws::get(stack, "/calls?accessKey=pricing-cache&limit=1000")?;
    Ok(calls["requests"].as_array().cloned().unwrap_or_default())
}

pub(crate) async fn stored(stack: &Stack, name: &str) -> Result<Option<ConfigMap>> {
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    Ok(maps.get_opt(name).await?)
}

/// What a person reads at `/readyz`, whether the replica is ready or not.
pub(crate) fn readiness(service: &Service) -> Result<String> {
    let url = format!("http://{}/readyz", service.admin);
    let answer = ureq::get(&url).config().http_status_as_error(false).build().call();
    Ok(answer.with_context(|| format!("GET {url}"))?.body_mut().read_to_string()?)
}
