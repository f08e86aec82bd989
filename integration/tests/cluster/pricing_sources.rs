//! Where figures come from: AWS, the memory of an earlier life, the built-in table; by partition, and in a network without a way
//! out.

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, aws, eventually, test};
use proto::pricingcache::v1::GetPricesResponse;
use proto::types::v1::CapacityType;
use serde_json::{Value, json};

use crate::pricing_scene::{NAME, Reader, fail, forget_everything, readiness, requests, stored};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing_sources", alone, a_first_look_asks_for_every_page_once_and_for_nothing_else),
        test!("pricing_sources", alone, while_aws_fails_prices_are_those_remembered_and_say_since_when),
        test!("pricing_sources", alone, a_restart_while_ec2_is_silent_offers_what_was_offered_before),
        test!("pricing_sources", alone, with_nothing_remembered_prices_come_from_the_built_in_table),
        test!("pricing_sources", alone, an_isolated_vpc_asks_no_price_list),
        test!("pricing_sources", alone, where_no_price_list_answers_on_demand_prices_are_estimates),
        test!("pricing_sources", alone, in_china_the_price_list_is_asked_in_its_own_partition_and_currency),
        test!("pricing_sources", alone, in_govcloud_no_price_list_is_asked),
    ]
}

fn kinds(prices: &GetPricesResponse) -> [String; 2] {
    [&prices.on_demand_source, &prices.spot_source].map(|source| source.clone().unwrap_or_default().kind)
}

async fn a_first_look_asks_for_every_page_once_and_for_nothing_else(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::delete(&stack, "/calls")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    println!("processor time from start to a full catalogue: {} ms", service.cpu_ticks()? * 10);
    println!("resident with a full catalogue: {} MB", service.resident_bytes()? >> 20);
    service.stop(&stack)?;
    let made = requests(&stack)?;
    // (action, largest page that AWS allows, listings)
    for (action, page, listings) in [
        ("DescribeInstanceTypes", 100, 1),
        ("DescribeInstanceTypeOfferings", 1000, 1),
        ("DescribeSpotPriceHistory", 2000, 1),
        ("GetProducts", 100, 2),
    ] {
        let of: Vec<_> = made.iter().filter(|request| request["action"] == action).collect();
        let firsts = of.iter().filter(|request| request["params"]["NextToken"].is_null()).count();
        ensure!(firsts == listings, "{action}: {firsts} listings");
        let mut tokens: Vec<String> = of.iter().map(|r| r["params"].to_string()).collect();
        tokens.sort();
        tokens.dedup();
        ensure!(tokens.len() == of.len(), "{action}: a page was asked for twice");
        ensure!(of.iter().all(|request| request["params"]["MaxResults"] == page), "{action}: smaller pages");
        println!("{action}: {} pages", of.len());
    }
    let others: Vec<&str> = made
        .iter()
        .filter_map(|request| request["action"].as_str())
        .filter(|action| !action.starts_with("DescribeInstanceType") && !action.contains("Spot"))
        .filter(|action| *action != "GetProducts")
        .collect();
    ensure!(others.len() == 2, "zones and reservations, once each, not {others:?}");
    Ok(())
}

async fn while_aws_fails_prices_are_those_remembered_and_say_since_when(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::put(&stack, "/on-demand-price", &json!({"instanceType": "m5.large", "price": 0.0777}))?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let before = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    eventually("prices to be stored", || stored(&stack, "karpenter-prices")).await?;
    service.stop(&stack)?;

    fail(&stack, "GetProducts", "InternalError")?;
    fail(&stack, "DescribeSpotPriceHistory", "InternalError")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    // It is ready from what it remembers, before AWS has refused for good.
    let during = eventually("the failure to be told", || async {
        let now = reader.prices(&["m5.large"]).await?;
        let told = now.on_demand_source.as_ref().is_some_and(|source| source.failing_since.is_some());
        Ok(told.then_some(now))
    })
    .await?;
    let source = during.on_demand_source.clone().context("no source")?;
    let said = readiness(&service)?;
    ensure!(said.contains("on-demand-prices: cannot be read since"), "{said}");
    ensure!(said.contains("prices are those of"), "{said}");
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

async fn a_restart_while_ec2_is_silent_offers_what_was_offered_before(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let before = Reader::new(&stack).await?.snapshot().await?;
    for name in ["karpenter-instance-types", "karpenter-prices"] {
        let map = eventually("what was read to be stored", || stored(&stack, name)).await?;
        let size: usize = map.data.iter().flatten().map(|(key, text)| key.len() + text.len()).sum();
        println!("{name}: {size} bytes");
        ensure!(size < 900_000, "{name} takes {size} bytes of the megabyte that a ConfigMap may hold");
    }
    service.kill(&stack)?;

    fail(&stack, "*", "InternalError")?;
    let began = std::time::Instant::now();
    let service = Service::start(&stack, NAME, 1, &[])?;
    println!("ready from memory after {:?}", began.elapsed());
    let after = Reader::new(&stack).await?.snapshot().await?;
    ensure!(after == before, "another catalogue than before the restart");
    eventually("a note that EC2 is silent", || async {
        Ok(readiness(&service)?.contains("instance-types: cannot be read since").then_some(()))
    })
    .await?;
    ensure!(service.admin_get("/readyz").is_ok(), "not ready any more");
    aws::delete(&stack, "/errors")?;
    eventually("the note to go once EC2 answers", || async {
        Ok((!readiness(&service)?.contains("instance-types: cannot be read")).then_some(()))
    })
    .await?;
    service.stop(&stack)?;
    forget_everything(&stack).await
}

async fn with_nothing_remembered_prices_come_from_the_built_in_table(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    fail(&stack, "GetProducts", "AccessDeniedException")?;
    fail(&stack, "DescribeSpotPriceHistory", "InternalError")?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let prices = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    service.stop(&stack)?;
    ensure!(kinds(&prices) == ["built-in", "built-in"], "{:?}", kinds(&prices));
    let plausible = |micro: i64| (10_000..200_000).contains(&micro);
    let offered = prices.prices.iter().filter_map(|price| price.offering.as_ref());
    ensure!(prices.prices.len() >= 6, "{} prices", prices.prices.len());
    ensure!(offered.clone().all(|offering| plausible(offering.micro_usd_per_hour)), "{:?}", prices.prices);
    forget_everything(&stack).await
}

async fn an_isolated_vpc_asks_no_price_list(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    aws::delete(&stack, "/calls")?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--isolated-vpc"])?;
    let prices = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    service.stop(&stack)?;
    ensure!(kinds(&prices) == ["built-in", "api"], "{:?}", kinds(&prices));
    let asked = requests(&stack)?.iter().filter(|request| request["action"] == "GetProducts").count();
    ensure!(asked == 0, "the price list was asked {asked} times");
    Ok(())
}

async fn where_no_price_list_answers_on_demand_prices_are_estimates(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    // As where the name of the endpoint leads nowhere.
    let nowhere = ["--env", "AWS_ENDPOINT_URL_PRICING=http://127.0.0.1:9"];
    let service = Service::start_with(&stack, NAME, 1, &nowhere)?;
    let prices = Reader::new(&stack).await?.prices(&["m5.large"]).await?;
    let said = readiness(&service)?;
    service.stop(&stack)?;
    ensure!(kinds(&prices) == ["built-in", "api"], "{:?}", kinds(&prices));
    ensure!(prices.prices.len() >= 6, "{} prices", prices.prices.len());
    let source = prices.on_demand_source.unwrap_or_default();
    ensure!(source.last_error.contains("GetProducts") && source.failing_since.is_some(), "{source:?}");
    ensure!(said.contains("prices are estimates of the built-in table"), "{said}");
    Ok(())
}

/// Starts in another region, where the price list says `texts` of m5.large; returns its prices, and the regions whose price
/// list was asked.
async fn elsewhere(stack: &Stack, region: &str, texts: Value) -> Result<(GetPricesResponse, Vec<String>)> {
    forget_everything(stack).await?;
    aws::delete(stack, "/calls")?;
    let listed = json!({"region": region, "instanceType": "m5.large", "texts": texts});
    aws::put(stack, "/on-demand-price", &listed)?;
    let here = format!("AWS_REGION={region}");
    let service = Service::start_with(stack, NAME, 1, &["--env", &here])?;
    let prices = Reader::new(stack).await?.prices(&["m5.large"]).await?;
    service.stop(stack)?;
    let asked = requests(stack)?;
    let lists = asked.iter().filter(|request| request["action"] == "GetProducts");
    let mut regions: Vec<String> = lists.filter_map(|r| r["region"].as_str().map(str::to_owned)).collect();
    regions.dedup();
    forget_everything(stack).await?;
    Ok((prices, regions))
}

async fn in_china_the_price_list_is_asked_in_its_own_partition_and_currency(stack: Stack) -> Result<()> {
    let texts = json!({"USD": "9.0000000000", "CNY": "0.5000000000"});
    let (prices, asked) = elsewhere(&stack, "cn-north-1", texts).await?;
    ensure!(asked == ["cn-northwest-1"], "the price list was asked in {asked:?}");
    ensure!(kinds(&prices) == ["api", "api"], "{:?}", kinds(&prices));
    let on_demand = i32::from(CapacityType::OnDemand);
    let offered = prices.prices.iter().filter_map(|price| price.offering.as_ref());
    let bought: Vec<_> = offered.filter(|o| o.capacity_type == on_demand).collect();
    ensure!(bought.len() == 2 && bought.iter().all(|o| o.micro_usd_per_hour == 500_000), "{bought:?}");
    ensure!(bought.iter().all(|o| o.zone.starts_with("cn-north-1")), "{bought:?}");
    Ok(())
}

async fn in_govcloud_no_price_list_is_asked(stack: Stack) -> Result<()> {
    let (prices, asked) = elsewhere(&stack, "us-gov-west-1", json!({"USD": "9.0000000000"})).await?;
    ensure!(asked.is_empty(), "the price list was asked in {asked:?}");
    ensure!(kinds(&prices) == ["built-in", "api"], "{:?}", kinds(&prices));
    ensure!(prices.prices.len() >= 4, "{} prices", prices.prices.len());
    Ok(())
}
