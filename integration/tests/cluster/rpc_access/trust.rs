//! Somebody breaks the ConfigMap in which a service publishes its replicas: first one entry, then all. Callers go on with the
//! entries that make sense, say what is wrong when none does, and go on once the replicas have corrected their entries.

use std::time::Duration;

use anyhow::{Result, ensure};
use integration::rpc::Impersonation;
use integration::{Service, Stack, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use serde_json::{Value, json};
use tonic::{Code, Status};

const CONFIG_MAP: &str = "karpenter-pricing-cache-trust";
/// Calls while an entry is broken: every other one would go to that replica.
const CALLS: usize = 20;

pub(super) async fn a_malformed_trust_config_map_is_survived_and_corrected(stack: Stack) -> Result<()> {
    let one = Service::start(&stack, "pricing-cache", 1, &[])?;
    let two = Service::start(&stack, "pricing-cache", 2, &[])?;
    let reader = Service::start(&stack, "provisioner", 1, &[])?;
    let caller =
        Impersonation::new(&stack, runtime::Service::Provisioner, runtime::Service::PricingCache).await?;
    let trust = Trust(Api::namespaced(stack.admin().await?, "kube-system"));
    call(&caller).await?;

    let (addr, pem) = (format!("{}.addr", one.identity()), format!("{}.pem", one.identity()));
    let right = json!({&addr: one.grpc, &pem: trust.published(&one).await?});
    for broken in ways_to_break(&addr, &pem, &trust.published(&two).await?) {
        for _ in 0..CALLS {
            // The replica itself corrects its entry every few seconds.
            trust.write(&broken).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            call(&caller).await.map_err(|status| anyhow::anyhow!("with {broken}: {status:?}"))?;
        }
        trust.write(&right).await?;
    }

    let nonsense = json!({
        "pricing-cache-1.addr": "nowhere", "pricing-cache-2.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "README": "replicas of pricing-cache",
    });
    let refusal = eventually("a call to be refused while no entry makes sense", || async {
        trust.write(&nonsense).await?;
        Ok(call(&caller).await.err())
    })
    .await?;
    ensure!(refusal.code() == Code::Unavailable, "{refusal:?}");
    ensure!(refusal.message().contains(CONFIG_MAP), "the refusal does not name the ConfigMap: {refusal:?}");

    for service in [&one, &two] {
        trust.is_corrected(service).await?;
    }
    eventually("calls to be answered again", || async { Ok(call(&caller).await.ok()) }).await?;
    // By a process that has to find the replicas anew, too.
    reader.stop(&stack)?;
    let reader = Service::start(&stack, "provisioner", 1, &[])?;
    trust.write(&json!({"README": null})).await?;
    for service in [&reader, &one, &two] {
        service.admin_get("/readyz")?;
        service.stop(&stack)?;
    }
    Ok(())
}

/// Entries of one replica that are of no use to a caller. `other` is the certificate of another replica.
fn ways_to_break(addr: &str, pem: &str, other: &str) -> Vec<Value> {
    vec![
        json!({addr: "nowhere"}),
        json!({addr: ""}),
        json!({pem: "no certificate"}),
        json!({pem: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}),
        json!({pem: null}),
        // Well formed, but of another replica, or where nothing listens.
        json!({pem: other}),
        json!({addr: "127.0.0.1:1"}),
    ]
}

async fn call(caller: &Impersonation) -> Result<(), Status> {
    PricingCacheClient::new(caller.peers.any()).list_unavailable(ListUnavailableRequest {}).await.map(drop)
}

struct Trust(Api<ConfigMap>);

impl Trust {
    async fn write(&self, data: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"data": data}));
        self.0.patch(CONFIG_MAP, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The certificates that a replica shows.
    async fn published(&self, replica: &Service) -> Result<String> {
        let mut data = self.0.get(CONFIG_MAP).await?.data.unwrap_or_default();
        Ok(data.remove(&format!("{}.pem", replica.identity())).unwrap_or_default())
    }

    /// Waits until the replica has put its own entry right.
    async fn is_corrected(&self, replica: &Service) -> Result<()> {
        eventually(&format!("{} to correct its entry", replica.identity()), || async {
            let data = self.0.get(CONFIG_MAP).await?.data.unwrap_or_default();
            let value = |what: &str| data.get(&format!("{}.{what}", replica.identity()));
            let is_right = value("addr") == Some(&replica.grpc)
                && value("pem").is_some_and(|pem| pem.contains("-----END CERTIFICATE-----"));
            Ok(is_right.then_some(()))
        })
        .await
    }
}
