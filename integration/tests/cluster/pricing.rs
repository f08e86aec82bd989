//! pricing-cache on the local AWS and the real API server: what it streams, to how many, and what of it survives.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, aws, eventually, test};
use prost::Message as _;
use proto::pricingcache::v1::catalog_update::Update;
use proto::pricingcache::v1::{
    CatalogDelta, ListInstanceTypesRequest, ListUnavailableRequest, ReportUnavailableRequest, Unavailable,
    WatchCatalogRequest,
};
use proto::types::v1::{CapacityType, Operator, Requirement};
use serde_json::json;

use crate::pricing_scene::{NAME, Reader, delta_with, first, forget_everything, mark, next, requests, watch};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing", alone, a_price_change_re_sends_that_price_and_nothing_else),
        test!("pricing", alone, a_client_that_lost_the_stream_catches_up_from_its_version),
        test!("pricing", alone, a_mark_reaches_other_replicas_and_outlives_them_all),
        test!("pricing", alone, marks_cover_pools_zones_subnets_and_placement_groups),
        test!("pricing", alone, people_and_scrapers_see_types_prices_and_offerings),
        test!("pricing", alone, five_hundred_subscribers_are_told_of_a_change),
    ]
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
    let told_at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    service.stop(&stack)?;
    let answered = requests(&stack)?
        .iter()
        .filter(|request| request["action"] == "DescribeSpotPriceHistory")
        .filter_map(|request| request["time"].as_f64())
        .filter(|time| *time <= told_at)
        .fold(0.0, f64::max);
    let bytes = delta.encoded_len();
    println!("a price was told {:.1} ms after EC2 told it, in {bytes} bytes", (told_at - answered) * 1e3);
    println!("the snapshot before took {} bytes", snapshot.encoded_len());
    ensure!(bytes < 100, "{bytes} bytes for one price");
    ensure!(snapshot.encoded_len() < 2_000_000, "{} bytes for the snapshot", snapshot.encoded_len());
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
    let began = std::time::Instant::now();
    let reported = reader.client_of(&one).report_unavailable(request).await?.into_inner();
    let until = reported.unavailable.first().context("no mark in the answer")?.until;
    let delta = delta_with(&mut at_two, |delta| !delta.unavailable.is_empty()).await?;
    println!("a mark reached the other replica's subscriber after {:?}", began.elapsed());
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

async fn marks_cover_pools_zones_subnets_and_placement_groups(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    first(&mut stream).await?;
    let on_demand = i32::from(CapacityType::OnDemand);
    let named = |text: &str| text.to_owned();
    let unavailable = vec![
        Unavailable { zone: named("us-west-2b"), capacity_type: on_demand, ..Unavailable::default() },
        Unavailable { subnet_id: named("subnet-0123"), ..Unavailable::default() },
        Unavailable { placement_group_id: named("pg-0123"), ..mark("m5.large") },
        Unavailable { reservation_id: named("cr-0123"), ..Unavailable::default() },
    ];
    let report = ReportUnavailableRequest { unavailable, hold: None };
    let marked = reader.client().report_unavailable(report).await?.into_inner().unavailable;
    let told = delta_with(&mut stream, |delta| !delta.unavailable.is_empty()).await?.unavailable;
    let prices = reader.prices(&["m5.large"]).await?.prices;
    let everything = ReportUnavailableRequest { unavailable: vec![Unavailable::default()], hold: None };
    let refused = reader.client().report_unavailable(everything).await;
    let short = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let brief = ReportUnavailableRequest { unavailable: vec![mark("c5.large")], hold: short };
    reader.client().report_unavailable(brief).await?;
    let ended = delta_with(&mut stream, |delta| !delta.available_again.is_empty()).await?;
    service.stop(&stack)?;

    ensure!(told.len() == 4 && marked.len() == 4, "{told:?}");
    let held = |mark: &Unavailable| mark.until.map_or(0, |u| u.seconds) - mark.since.map_or(0, |s| s.seconds);
    ensure!(marked.iter().all(|mark| (179..=181).contains(&held(mark))), "three minutes, not {marked:?}");
    let gone: Vec<(&str, i32)> = prices
        .iter()
        .filter_map(|price| price.offering.as_ref().filter(|offering| !offering.available))
        .map(|offering| (offering.zone.as_str(), offering.capacity_type))
        .collect();
    // Subnets and placement groups are a matter of node classes: whoever asks without one is not concerned.
    ensure!(gone == [("us-west-2b", on_demand)], "{gone:?}");
    let code = refused.err().map(|status| status.code());
    ensure!(code == Some(tonic::Code::InvalidArgument), "a mark on everything: {code:?}");
    ensure!(ended.available_again == ["spot:c5.large:us-west-2a"], "{ended:?}");
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
        "aws_sdk_go_request_total{service=\"EC2\",action=\"DescribeAvailabilityZones\",code=\"200\"} 1"
            .to_owned(),
    ] {
        ensure!(text.lines().any(|found| found == line), "missing: {line}");
    }
    for (controller, method) in [
        ("providers.instancetype", "GetInstanceTypes"),
        ("providers.pricing", "GetOnDemandPrices"),
        ("providers.pricing", "GetSpotPrices"),
    ] {
        let labels = format!("controller=\"{controller}\",method=\"{method}\",provider=\"aws\"");
        let line = format!("karpenter_cloudprovider_duration_seconds_count{{{labels}}} 1");
        ensure!(text.lines().any(|found| found == line), "missing: {line}");
    }
    ensure!(text.contains("# TYPE karpenter_cloudprovider_errors_total counter"), "no errors are counted");
    Ok(())
}

async fn five_hundred_subscribers_are_told_of_a_change(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    reader.snapshot().await?;
    let alone = service.resident_bytes()?;
    // A connection may have 256 calls under way.
    let (mut others, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let other = Reader::new(&stack).await?;
        for _ in 0..100 {
            let mut stream = watch(&mut other.client()).await?;
            first(&mut stream).await?;
            streams.push(stream);
        }
        others.push(other);
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
