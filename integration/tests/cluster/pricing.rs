//! pricing-cache on the local AWS and the real API server: what it streams, what it remembers, and what it does when AWS
//! answers badly.

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use integration::kubernetes::{api_of, documents};
use integration::rpc::Impersonation;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use proto::pricingcache::v1::catalog_update::Update;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{
    CatalogDelta, CatalogSnapshot, CatalogUpdate, GetPricesRequest, GetPricesResponse,
    ListInstanceTypesRequest, ListUnavailableRequest, ReportUnavailableRequest, Unavailable,
    WatchCatalogRequest,
};
use proto::types::v1::{CapacityType, Operator, Requirement};
use runtime::grpc::Caller;
use serde_json::json;
use tonic::Streaming;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing", alone, a_price_change_re_sends_that_price_and_nothing_else),
        test!("pricing", alone, a_client_that_lost_the_stream_catches_up_from_its_version),
        test!("pricing", alone, a_mark_reaches_other_replicas_and_outlives_them_all),
        test!("pricing", alone, while_aws_fails_prices_are_those_remembered_and_say_since_when),
        test!("pricing", alone, with_nothing_remembered_prices_come_from_the_built_in_table),
        test!("pricing", alone, an_account_that_may_not_read_spot_prices_is_offered_on_demand_only),
        test!("pricing", alone, throttling_and_small_pages_lose_no_type_and_no_price),
        test!("pricing", alone, without_types_a_replica_is_not_ready_and_says_so),
        test!("pricing", alone, an_isolated_vpc_asks_no_price_list),
        test!("pricing", alone, people_and_scrapers_see_types_prices_and_offerings),
        test!("pricing", alone, overlays_are_judged_reported_on_and_streamed),
        test!("pricing", alone, memory_of_a_registered_node_is_learned_and_remembered),
        test!("pricing", soak, five_hundred_subscribers_are_told_of_a_change),
    ]
}

const NAME: &str = "pricing-cache";
const MAPS: [&str; 3] = ["karpenter-prices", "karpenter-unavailable-offerings", "karpenter-memory-capacity"];

/// One caller in the provisioner's place.
struct Reader {
    caller: Impersonation,
}

impl Reader {
    async fn new(stack: &Stack) -> Result<Self> {
        let (from, to) = (runtime::Service::Provisioner, runtime::Service::PricingCache);
        Ok(Self { caller: Impersonation::new(stack, from, to).await? })
    }

    fn client(&self) -> PricingCacheClient<Caller> {
        PricingCacheClient::new(self.caller.peers.any())
    }

    fn client_of(&self, replica: &Service) -> PricingCacheClient<Caller> {
        PricingCacheClient::new(self.caller.peers.replica(&replica.identity()))
    }

    async fn prices(&self, types: &[&str]) -> Result<GetPricesResponse> {
        let instance_types = types.iter().map(|name| (*name).to_owned()).collect();
        let request = GetPricesRequest { instance_types, ..GetPricesRequest::default() };
        Ok(self.client().get_prices(request).await?.into_inner())
    }

    async fn snapshot(&self) -> Result<CatalogSnapshot> {
        let mut stream = watch(&mut self.client()).await?;
        first(&mut stream).await.map(|(_, snapshot)| snapshot)
    }
}

async fn watch(client: &mut PricingCacheClient<Caller>) -> Result<Streaming<CatalogUpdate>> {
    Ok(client.watch_catalog(WatchCatalogRequest::default()).await?.into_inner())
}

async fn next(stream: &mut Streaming<CatalogUpdate>) -> Result<CatalogUpdate> {
    Ok(stream.next().await.context("the stream ended")??)
}

/// The snapshot that a fresh stream begins with, and where it stands in the numbering.
async fn first(stream: &mut Streaming<CatalogUpdate>) -> Result<((String, u64), CatalogSnapshot)> {
    let CatalogUpdate { epoch, version, update } = next(stream).await?;
    match update.context("an empty update")? {
        Update::Snapshot(snapshot) => Ok(((epoch, version), snapshot)),
        Update::Delta(_) => anyhow::bail!("the stream began with a delta"),
    }
}

/// The first delta that says something of what `wanted` asks for.
async fn delta_with(
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
async fn forget_everything(stack: &Stack) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    for name in MAPS {
        if maps.get_opt(name).await?.is_some() {
            maps.delete(name, &DeleteParams::default()).await?;
        }
    }
    for rules in ["/errors", "/throttle", "/partial-pages", "/spot-price"] {
        aws::delete(stack, rules)?;
    }
    Ok(())
}

fn fail(stack: &Stack, action: &str, code: &str) -> Result<()> {
    aws::put(stack, "/errors", &json!({"action": action, "code": code, "message": "by the test"})).map(drop)
}

fn mark(instance_type: &str) -> Unavailable {
    Unavailable {
        instance_type: instance_type.to_owned(),
        zone: "us-west-2a".to_owned(),
        capacity_type: CapacityType::Spot.into(),
        reason: "InsufficientInstanceCapacity".to_owned(),
        ..Unavailable::default()
    }
}

async fn a_price_change_re_sends_that_price_and_nothing_else(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--spot-refresh-interval=1s"])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    let (_, snapshot) = first(&mut stream).await?;
    let types = &snapshot.instance_types;
    ensure!(types.len() > 1000 && snapshot.zones.len() >= 3, "{} types", types.len());
    ensure!(types.windows(2).all(|pair| pair[0].name < pair[1].name), "types are not in order");
    ensure!(snapshot.on_demand_micro_usd.len() == types.len(), "a price column of another length");
    ensure!(snapshot.spot.iter().all(|column| column.micro_usd.len() == types.len()));

    let price = json!({"instanceType": "m5.large", "zone": "us-west-2a", "price": 0.0123});
    aws::put(&stack, "/spot-price", &price)?;
    let delta = delta_with(&mut stream, |delta| !delta.spot.is_empty()).await?;
    service.stop(&stack)?;
    let [only] = delta.spot.as_slice() else { anyhow::bail!("{} spot prices were sent", delta.spot.len()) };
    let told = (only.instance_type.as_str(), only.zone.as_str(), only.micro_usd);
    ensure!(told == ("m5.large", "us-west-2a", 12_300), "{told:?}");
    let rest = CatalogDelta { spot: Vec::new(), ..delta };
    ensure!(rest == CatalogDelta::default(), "sent besides: {rest:?}");
    Ok(())
}

async fn a_client_that_lost_the_stream_catches_up_from_its_version(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let mut client = reader.client();
    let mut stream = watch(&mut client).await?;
    let ((epoch, version), _) = first(&mut stream).await?;
    drop(stream);
    for name in ["m5.large", "c5.large"] {
        let request = ReportUnavailableRequest { unavailable: vec![mark(name)], hold: None };
        client.report_unavailable(request).await?;
    }
    let resumed = WatchCatalogRequest { epoch: epoch.clone(), version };
    let update = next(&mut client.watch_catalog(resumed).await?.into_inner()).await?;
    let stranger = WatchCatalogRequest { epoch: "another life".to_owned(), version };
    let whole = next(&mut client.watch_catalog(stranger).await?.into_inner()).await?;
    service.stop(&stack)?;
    let Some(Update::Delta(delta)) = update.update else { anyhow::bail!("resumed with a snapshot") };
    ensure!(delta.unavailable.len() == 2, "both marks in one delta, not {:?}", delta.unavailable);
    ensure!((update.epoch == epoch) && update.version > version);
    ensure!(matches!(whole.update, Some(Update::Snapshot(_))), "a strange epoch must be given everything");
    Ok(())
}

async fn a_mark_reaches_other_replicas_and_outlives_them_all(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let one = Service::start(&stack, NAME, 1, &[])?;
    let two = Service::start(&stack, NAME, 2, &[])?;
    let reader = Reader::new(&stack).await?;
    let mut at_two = eventually("both replicas to be known", || async {
        Ok(watch(&mut reader.client_of(&two)).await.ok())
    })
    .await?;
    first(&mut at_two).await?;

    let request = ReportUnavailableRequest { unavailable: vec![mark("m5.large")], hold: None };
    let reported = reader.client_of(&one).report_unavailable(request).await?.into_inner();
    let until = reported.unavailable.first().context("no mark in the answer")?.until;
    let delta = delta_with(&mut at_two, |delta| !delta.unavailable.is_empty()).await?;
    ensure!(delta.unavailable[0].key == "spot:m5.large:us-west-2a", "{:?}", delta.unavailable);

    // The answer came after the mark was stored: killing everybody at once loses nothing.
    one.kill(&stack)?;
    two.kill(&stack)?;
    let again = Service::start(&stack, NAME, 3, &[])?;
    let reader = Reader::new(&stack).await?;
    let listed = eventually("the marks of the next life", || async {
        Ok(reader.client_of(&again).list_unavailable(ListUnavailableRequest {}).await.ok())
    })
    .await?
    .into_inner();
    let prices = reader.prices(&["m5.large"]).await?;
    again.stop(&stack)?;
    ensure!(listed.unavailable.len() == 1 && listed.unavailable[0].until == until, "{listed:?}");
    let gone: Vec<_> = prices.prices.iter().filter(|p| p.unavailable_since.is_some()).collect();
    ensure!(gone.len() == 1, "one pool is marked, not {gone:?}");
    Ok(())
}

async fn while_aws_fails_prices_are_those_remembered_and_say_since_when(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::put(&stack, "/on-demand-price", &json!({"instanceType": "m5.large", "price": 0.0777}))?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let before = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    eventually("prices to be stored", || async { Ok(maps.get_opt("karpenter-prices").await?) }).await?;
    service.stop(&stack)?;

    fail(&stack, "GetProducts", "InternalError")?;
    fail(&stack, "DescribeSpotPriceHistory", "InternalError")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let during = reader.prices(&["m5.large"]).await?;
    let source = during.on_demand_source.clone().context("no source")?;
    ensure!(source.kind == "configmap" && source.as_of.is_some(), "{source:?}");
    ensure!(source.last_error.contains("GetProducts") && source.failing_since.is_some(), "{source:?}");
    ensure!(during.prices == before.prices, "other prices than before the restart");

    aws::delete(&stack, "/errors")?;
    let recovered = eventually("the price list to be read again", || async {
        let now = reader.prices(&["m5.large"]).await?;
        let source = now.on_demand_source.unwrap_or_default();
        Ok((source.kind == "api").then_some(source))
    })
    .await?;
    service.stop(&stack)?;
    ensure!(recovered.last_error.is_empty() && recovered.failing_since.is_none(), "{recovered:?}");
    forget_everything(&stack).await
}

async fn with_nothing_remembered_prices_come_from_the_built_in_table(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "GetProducts", "AccessDeniedException")?;
    fail(&stack, "DescribeSpotPriceHistory", "InternalError")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let prices = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    service.stop(&stack)?;
    let kinds = [&prices.on_demand_source, &prices.spot_source].map(|s| s.clone().unwrap_or_default().kind);
    ensure!(kinds == ["built-in", "built-in"], "{kinds:?}");
    let plausible = |micro: i64| (10_000..200_000).contains(&micro);
    let offered = prices.prices.iter().filter_map(|price| price.offering.as_ref());
    ensure!(prices.prices.len() >= 6, "{} prices", prices.prices.len());
    ensure!(offered.clone().all(|offering| plausible(offering.micro_usd_per_hour)), "{:?}", prices.prices);
    forget_everything(&stack).await
}

async fn an_account_that_may_not_read_spot_prices_is_offered_on_demand_only(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "DescribeSpotPriceHistory", "UnauthorizedOperation")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let prices = reader.prices(&[]).await?;
    let snapshot = reader.snapshot().await?;
    service.stop(&stack)?;
    let source = prices.spot_source.unwrap_or_default();
    ensure!(source.kind == "none" && source.last_error.contains("UnauthorizedOperation"), "{source:?}");
    let spot = i32::from(CapacityType::Spot);
    ensure!(prices.prices.iter().filter_map(|p| p.offering.as_ref()).all(|o| o.capacity_type != spot));
    ensure!(prices.prices.len() > 1000, "on-demand is still offered");
    ensure!(snapshot.spot.iter().flat_map(|column| &column.micro_usd).all(|micro| *micro == 0));
    forget_everything(&stack).await
}

async fn throttling_and_small_pages_lose_no_type_and_no_price(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let calm = Reader::new(&stack).await?.snapshot().await?;
    service.stop(&stack)?;
    aws::put(&stack, "/partial-pages", &json!({"action": "DescribeInstanceTypes", "size": 30}))?;
    aws::put(&stack, "/partial-pages", &json!({"action": "DescribeInstanceTypeOfferings", "size": 400}))?;
    let throttle = json!({"action": "Describe*", "rate": 8, "burst": 8, "code": "RequestLimitExceeded"});
    aws::put(&stack, "/throttle", &throttle)?;
    let service = Service::start_with(&stack, NAME, 1, &["--no-wait"])?;
    let reader = Reader::new(&stack).await?;
    let pressed = eventually("the catalogue under pressure", || async {
        let ready = service.admin_get("/readyz").is_ok();
        if ready { reader.snapshot().await.map(Some) } else { Ok(None) }
    })
    .await?;
    service.stop(&stack)?;
    ensure!(pressed.instance_types == calm.instance_types, "types differ");
    ensure!(pressed.on_demand_micro_usd == calm.on_demand_micro_usd, "prices differ");
    forget_everything(&stack).await
}

async fn without_types_a_replica_is_not_ready_and_says_so(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "DescribeInstanceTypes", "UnauthorizedOperation")?;
    let service = Service::start_with(&stack, NAME, 1, &["--no-wait"])?;
    eventually("types to be asked for in vain", || async {
        let labels = "feed=\"instance-types\",result=\"unauthorized\"";
        Ok((service.metric("karpenter_pricing_refreshes_total", labels)? >= 2.0).then_some(()))
    })
    .await?;
    ensure!(service.admin_get("/readyz").is_err(), "ready without any instance type");
    aws::delete(&stack, "/errors")?;
    let ready =
        eventually("the replica to be ready", || async { Ok(service.admin_get("/readyz").ok()) }).await;
    service.stop(&stack)?;
    ready.map(drop)
}

async fn an_isolated_vpc_asks_no_price_list(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::delete(&stack, "/calls")?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--isolated-vpc"])?;
    let prices = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    service.stop(&stack)?;
    let kinds = [&prices.on_demand_source, &prices.spot_source].map(|s| s.clone().unwrap_or_default().kind);
    ensure!(kinds == ["built-in", "api"], "{kinds:?}");
    let calls = aws::get(&stack, "/calls?action=GetProducts")?;
    ensure!(!calls.to_string().contains("\"action\":\"GetProducts\""), "the price list was asked: {calls}");
    Ok(())
}

async fn people_and_scrapers_see_types_prices_and_offerings(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let arm = |key: &str, value: &str| Requirement {
        key: key.to_owned(),
        operator: Operator::In.into(),
        values: vec![value.to_owned()],
        min_values: 0,
    };
    let request = ListInstanceTypesRequest {
        requirements: vec![
            arm("kubernetes.io/arch", "arm64"),
            arm("karpenter.k8s.aws/instance-size", "xlarge"),
        ],
        limit: 5,
        ..ListInstanceTypesRequest::default()
    };
    let listed = reader.client().list_instance_types(request).await?.into_inner();
    ensure!(listed.instance_types.len() == 5 && listed.matched > 20, "{} matched", listed.matched);
    let cheapest: Vec<i64> = listed
        .instance_types
        .iter()
        .filter_map(|t| t.offerings.iter().filter(|o| o.available).map(|o| o.micro_usd_per_hour).min())
        .collect();
    ensure!(cheapest.is_sorted() && cheapest.len() == 5, "{cheapest:?}");
    ensure!(
        listed
            .instance_types
            .iter()
            .all(|t| t.labels.get("kubernetes.io/arch").is_some_and(|a| a == "arm64"))
    );

    let unavailable = vec![mark("m5.large")];
    reader.client().report_unavailable(ReportUnavailableRequest { unavailable, hold: None }).await?;
    let text = service.admin_get("/metrics")?;
    service.stop(&stack)?;
    let prefix = "karpenter_cloudprovider_instance_type";
    let labels = |capacity_type: &str, zone: &str| {
        format!("{{instance_type=\"m5.large\",capacity_type=\"{capacity_type}\",zone=\"{zone}\"}}")
    };
    for line in [
        format!("{prefix}_offering_available{} 0", labels("spot", "us-west-2a")),
        format!("{prefix}_offering_available{} 1", labels("spot", "us-west-2b")),
        format!("{prefix}_offering_available{} 0", labels("reserved", "us-west-2a")),
        format!("{prefix}_offering_price_estimate{} 0.096", labels("on-demand", "us-west-2a")),
        format!("{prefix}_cpu_cores{{instance_type=\"m5.large\"}} 2"),
        format!("{prefix}_memory_bytes{{instance_type=\"m5.large\"}} 8589934592"),
    ] {
        ensure!(text.lines().any(|found| found == line), "missing: {line}");
    }
    Ok(())
}

async fn apply(stack: &Stack, text: &str) -> Result<()> {
    let client = stack.admin().await?;
    for object in documents(text)? {
        let api = api_of(&client, &object).await?;
        let status = object.get("status").cloned();
        let mut created = api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        if let Some(status) = status {
            created.data["status"] = status;
            let name = created.metadata.name.clone().context("a name")?;
            api.replace_status(&name, &PostParams::default(), &created).await?;
        }
    }
    Ok(())
}

async fn delete(stack: &Stack, text: &str) -> Result<()> {
    let client = stack.admin().await?;
    for object in documents(text)? {
        let name = object["metadata"]["name"].as_str().context("a name")?;
        api_of(&client, &object).await?.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

const OVERLAYS: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: overlaid}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: overlaid}
      requirements: []
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-a}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
  price: "0.01"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-b}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}]
  priceAdjustment: "-10%"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-c}
spec:
  weight: 10
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [c5]}]
  capacity: {example.com/dongle: 2}
"#;

async fn overlays_are_judged_reported_on_and_streamed(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--feature-gates=NodeOverlay=true"])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    let (_, snapshot) = first(&mut stream).await?;
    ensure!(snapshot.overlays.is_empty(), "{:?}", snapshot.overlays);
    apply(&stack, OVERLAYS).await?;
    let names =
        |delta: &CatalogDelta| -> Vec<String> { delta.overlays.iter().map(|o| o.name.clone()).collect() };
    let judged = delta_with(&mut stream, |delta| names(delta) == ["overlay-c", "overlay-b"]).await?;
    ensure!(judged.overlays_changed && judged.overlays[1].price_adjustment == "-10%", "{judged:?}");

    let client = stack.admin().await?;
    let overlays: Api<api::NodeOverlay> = Api::all(client);
    for (name, status, reason) in [
        ("overlay-a", "False", "Conflict"),
        ("overlay-b", "True", "ValidationSucceeded"),
        ("overlay-c", "True", "ValidationSucceeded"),
    ] {
        eventually(&format!("{name} to be reported on as {reason}"), || async {
            let conditions = overlays.get(name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
            let found = |kind: &str| conditions.iter().find(|c| c.type_ == kind);
            let said = found("ValidationSucceeded")
                .is_some_and(|c| c.status.as_str() == status && c.reason == reason);
            let ready = found("Ready").is_some_and(|c| c.status.as_str() == status);
            Ok((said && ready).then_some(()))
        })
        .await?;
    }
    delete(&stack, OVERLAYS).await?;
    delta_with(&mut stream, |delta| delta.overlays_changed && delta.overlays.is_empty()).await?;
    service.stop(&stack)
}

const LEARNING: &str = r#"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: learned}
spec:
  role: KarpenterNodeRole-local
  amiFamily: AL2023
  amiSelectorTerms: [{id: ami-0123456789abcdef0}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
status:
  amis:
  - id: ami-0123456789abcdef0
    requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: learned}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: learned}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
status: {nodeName: learned, imageID: ami-0123456789abcdef0, providerID: "aws:///us-west-2a/i-0123456789abcdef0"}
---
apiVersion: v1
kind: Node
metadata:
  name: learned
  labels: {karpenter.sh/registered: "true", node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64}
status:
  capacity: {cpu: "2", memory: 7900Mi, pods: "29"}
"#;

async fn memory_of_a_registered_node_is_learned_and_remembered(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    first(&mut stream).await?;
    apply(&stack, LEARNING).await?;
    let delta = delta_with(&mut stream, |delta| !delta.learned_memory.is_empty()).await?;
    delete(&stack, LEARNING).await?;
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    eventually("the figure to be stored", || async { Ok(maps.get_opt("karpenter-memory-capacity").await?) })
        .await?;
    service.kill(&stack)?;
    let again = Service::start(&stack, NAME, 1, &[])?;
    let remembered = Reader::new(&stack).await?.snapshot().await?.learned_memory;
    again.stop(&stack)?;
    let told: Vec<(&str, u64)> = remembered.iter().map(|m| (m.instance_type.as_str(), m.bytes)).collect();
    ensure!(told == [("m5.large", 7900 << 20)], "{remembered:?}");
    ensure!(delta.learned_memory == remembered, "learned {:?}", delta.learned_memory);
    forget_everything(&stack).await
}

async fn five_hundred_subscribers_are_told_of_a_change(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let alone = service.resident_bytes()?;
    let mut streams = Vec::new();
    for _ in 0..500 {
        let mut stream = watch(&mut reader.client()).await?;
        first(&mut stream).await?;
        streams.push(stream);
    }
    ensure!(service.metric("karpenter_pricing_subscribers", "")? == 500.0);
    let began = std::time::Instant::now();
    let request = ReportUnavailableRequest { unavailable: vec![mark("m5.large")], hold: None };
    let mut client = reader.client();
    let told = futures::future::try_join_all(
        streams.iter_mut().map(|stream| delta_with(stream, |delta| !delta.unavailable.is_empty())),
    );
    let (_, told) = tokio::try_join!(async { Ok(client.report_unavailable(request).await?) }, told)?;
    println!("500 subscribers told after {:?}", began.elapsed());
    println!("memory before {} MB, with them {} MB", alone >> 20, service.resident_bytes()? >> 20);
    ensure!(told.len() == 500);
    drop(streams);
    eventually("closed streams to be counted out", || async {
        Ok((service.metric("karpenter_pricing_subscribers", "")? == 0.0).then_some(()))
    })
    .await?;
    service.stop(&stack)
}
