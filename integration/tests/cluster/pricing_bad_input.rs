//! What AWS, the network or a wrong clock may do to pricing-cache, and what it goes on offering.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::types::v1::CapacityType;
use serde_json::json;

use crate::pricing_scene::{NAME, Reader, fail, forget_everything, readiness};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing_bad_input", alone, what_is_no_price_is_counted_and_the_last_good_one_kept),
        test!("pricing_bad_input", alone, an_account_that_may_not_read_spot_prices_is_offered_on_demand_only),
        test!("pricing_bad_input", alone, answers_that_are_none_never_replace_a_catalogue),
        test!("pricing_bad_input", alone, throttling_and_small_pages_lose_no_type_and_no_price),
        test!("pricing_bad_input", alone, without_types_a_replica_is_not_ready_and_says_so),
        test!("pricing_bad_input", alone, wrong_clocks_hold_nothing_back_for_long),
    ]
}

const OFTEN: [&str; 3] = [
    "--arg=--spot-refresh-interval=1s",
    "--arg=--on-demand-refresh-interval=1s",
    "--arg=--instance-types-refresh-interval=1s",
];

async fn what_is_no_price_is_counted_and_the_last_good_one_kept(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start_with(&stack, NAME, 1, &OFTEN)?;
    let reader = Reader::new(&stack).await?;
    let names = ["m5.large", "c5.large", "r5.large", "m6i.large", "c6i.large", "r6i.large"];
    let before = reader.prices(&names).await?;
    let version = service.metric("karpenter_pricing_catalog_version", "")?;
    // (type, what the price list says, what the spot history says, the reasons they are refused for)
    for (name, listed, spot, reasons) in [
        ("m5.large", json!({"XXX": "0.2"}), "0.000000", ("currency", "zero")),
        ("c5.large", json!({}), "1e3", ("currency", "malformed")),
        ("r5.large", json!({"USD": "0.0000000000"}), "-0.01", ("zero", "negative")),
        ("m6i.large", json!({"USD": "-1"}), "123456789", ("negative", "absurd")),
        ("c6i.large", json!({"USD": "123456789"}), "cheap", ("absurd", "malformed")),
        ("r6i.large", json!({"USD": "a dollar"}), "NaN", ("malformed", "malformed")),
    ] {
        aws::put(&stack, "/on-demand-price", &json!({"instanceType": name, "texts": listed}))?;
        aws::put(&stack, "/spot-price", &json!({"instanceType": name, "text": spot}))?;
        for (feed, reason) in [("on-demand-prices", reasons.0), ("spot-prices", reasons.1)] {
            let labels = format!("feed=\"{feed}\",reason=\"{reason}\"");
            eventually(&format!("{feed} to be refused as {reason}"), || async {
                let counted = service.metric("karpenter_pricing_rejected_entries_total", &labels)?;
                Ok((counted > 0.0).then_some(()))
            })
            .await?;
        }
    }
    let after = reader.prices(&names).await?;
    let ready = service.admin_get("/readyz");
    let later = service.metric("karpenter_pricing_catalog_version", "")?;
    service.stop(&stack)?;
    ensure!(after.prices == before.prices && before.prices.len() >= 36, "{} prices", before.prices.len());
    ensure!(version == later, "nothing changed, yet {} versions were streamed", later - version);
    ensure!(ready.is_ok(), "not ready any more");
    forget_everything(&stack).await
}

async fn an_account_that_may_not_read_spot_prices_is_offered_on_demand_only(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "DescribeSpotPriceHistory", "UnauthorizedOperation")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let prices = reader.prices(&[]).await?;
    let snapshot = reader.snapshot().await?;
    let said = readiness(&service)?;
    let forbidden = service.metric("karpenter_cloudprovider_errors_total", "method=\"GetSpotPrices\"")?;
    service.stop(&stack)?;
    for part in ["spot-prices: cannot be read since", "UnauthorizedOperation", "on-demand only"] {
        ensure!(said.contains(part), "{part:?} is not in {said}");
    }
    ensure!(forbidden >= 1.0, "the refusal was not counted");
    let source = prices.spot_source.unwrap_or_default();
    ensure!(source.kind == "none" && source.last_error.contains("UnauthorizedOperation"), "{source:?}");
    let spot = i32::from(CapacityType::Spot);
    ensure!(prices.prices.iter().filter_map(|p| p.offering.as_ref()).all(|o| o.capacity_type != spot));
    ensure!(prices.prices.len() > 1000, "on-demand is still offered");
    ensure!(snapshot.spot.iter().flat_map(|column| &column.micro_usd).all(|micro| *micro == 0));
    forget_everything(&stack).await
}

async fn answers_that_are_none_never_replace_a_catalogue(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start_with(&stack, NAME, 1, &OFTEN)?;
    let reader = Reader::new(&stack).await?;
    let before = reader.snapshot().await?;
    for kind in ["empty", "cut", "garbage", "nothing"] {
        for action in ["DescribeInstanceType*", "DescribeSpotPriceHistory", "GetProducts"] {
            aws::put(&stack, "/odd-answers", &json!({"action": action, "kind": kind}))?;
        }
        for feed in ["instance-types", "spot-prices", "on-demand-prices"] {
            eventually(&format!("{feed} to be refused while answers are {kind}"), || async {
                Ok(readiness(&service)?.contains(&format!("{feed}: cannot be read")).then_some(()))
            })
            .await?;
        }
        ensure!(service.admin_get("/readyz").is_ok(), "not ready while answers are {kind}");
        let said = readiness(&service)?;
        ensure!(said.len() < 3000, "{} bytes about answers that are {kind}", said.len());
        ensure!(reader.snapshot().await? == before, "another catalogue while answers are {kind}");
        aws::delete(&stack, "/odd-answers")?;
        eventually(&format!("feeds to recover from answers that are {kind}"), || async {
            Ok((!readiness(&service)?.contains("cannot be read")).then_some(()))
        })
        .await?;
    }
    service.stop(&stack)
}

async fn throttling_and_small_pages_lose_no_type_and_no_price(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let calm = Reader::new(&stack).await?.snapshot().await?;
    service.stop(&stack)?;
    forget_everything(&stack).await?;
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
    let said = readiness(&service)?;
    ensure!(said.contains("instance-types") && said.contains("UnauthorizedOperation"), "{said}");
    aws::delete(&stack, "/errors")?;
    let ready =
        eventually("the replica to be ready", || async { Ok(service.admin_get("/readyz").ok()) }).await;
    service.stop(&stack)?;
    ready.map(drop)
}

async fn wrong_clocks_hold_nothing_back_for_long(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    // A replica whose clock runs years ahead left a mark and a memory.
    let mark = json!({
        "instanceType": "m5.large", "zone": "us-west-2a", "capacityType": "spot", "reason": "x", "repeats": 1,
        "since": "2090-01-01T00:00:00Z", "until": "2090-01-01T00:03:00Z",
    });
    let data = BTreeMap::from([("spot_m5.large_us-west-2a".to_owned(), mark.to_string())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some("karpenter-unavailable-offerings".to_owned());
    let maps: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    maps.create(&PostParams::default(), &map).await?;
    // And AWS says twice that it is ours that is wrong.
    let skewed =
        json!({"action": "Describe*", "code": "RequestExpired", "message": "by the test", "count": 2});
    aws::put(&stack, "/errors", &skewed)?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let listed = reader.client().list_unavailable(ListUnavailableRequest {}).await?.into_inner().unavailable;
    let now = jiff::Timestamp::now().as_second();
    service.stop(&stack)?;
    let until = listed.first().and_then(|mark| mark.until).map_or(0, |until| until.seconds);
    ensure!(listed.len() == 1 && until - now <= 180, "held for {} s more", until - now);
    forget_everything(&stack).await
}
