use cloud::CatalogSource;
use cloud::ErrorKind;
use cloud::facts::TypeFacts;
use cloud::reservation::{MatchCriteria, ReservationKind};
use jiff::Timestamp;
use serde_json::json;

use crate::server::{CLUSTER, REGION, connect};

#[tokio::test]
async fn access_is_checked_without_reading_anything() {
    let local = connect(REGION, "access").await;
    local.aws.check_access().await.unwrap();
    local.control("PUT", "/permissions", json!({"accessKey": "access", "actions": ["CreateFleet"]})).await;
    let error = local.aws.check_access().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
}

#[tokio::test]
async fn instance_types_are_read_from_all_pages_with_the_facts_derivation_needs() {
    let local = connect("us-east-1", "types").await;
    let types = local.aws.instance_types().await.unwrap();
    assert!(types.len() > 1100, "{} types", types.len());
    assert!(types.is_sorted_by(|a, b| a.name < b.name));
    assert!(local.calls("DescribeInstanceTypes").await > 10, "one call for each page of a hundred");
    // The sample in `cloud` was taken from the same public figures, by other means.
    let mut compared = 0;
    for expected in cloud::memory::types() {
        let Some(found) = types.iter().find(|t| t.name == expected.name) else { continue };
        // The server writes the list of inference accelerators in another form than EC2, which the SDK does not read.
        assert_eq!(*found, TypeFacts { inference: found.inference.clone(), ..expected });
        compared += 1;
    }
    assert!(compared > 60, "{compared} types compared");
    assert_eq!(types.iter().find(|t| t.name == "p4d.24xlarge").unwrap().branch_interfaces, 62);
}

#[tokio::test]
async fn offerings_and_zones_agree() {
    let local = connect(REGION, "zones").await;
    let zones = local.aws.zones().await.unwrap();
    assert_eq!(zones[0].name, "us-west-2a");
    assert!(zones.iter().all(|z| z.id.starts_with("usw2-az") && !z.shifted));
    let offerings = local.aws.offerings().await.unwrap();
    let names: Vec<&str> = zones.iter().map(|z| z.name.as_str()).collect();
    assert!(offerings.len() > 1000);
    assert!(offerings["m5.large"].iter().all(|zone| names.contains(&zone.as_str())));
    assert!(offerings["m5.large"].len() >= 3);
}

#[tokio::test]
async fn on_demand_prices_hold_shared_and_bare_metal_types() {
    let local = connect("us-east-1", "prices").await;
    let list = local.aws.on_demand_prices().await.unwrap();
    let price = |name: &str| list.prices.iter().find(|p| p.instance_type == name).map(|p| p.price.get());
    assert_eq!(price("m5.large"), Some(96_000));
    assert!(price("m5.metal").is_some_and(|p| p > 4_000_000));
    assert!(list.prices.is_sorted_by(|a, b| a.instance_type < b.instance_type));
}

#[tokio::test]
async fn regions_without_a_price_list_are_not_asked() {
    let local = connect("us-gov-west-1", "gov").await;
    let error = local.aws.on_demand_prices().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(local.calls("GetProducts").await, 0);
}

#[tokio::test]
async fn spot_prices_follow_what_ec2_says_now() {
    let local = connect("eu-west-1", "spot").await;
    let price = async || {
        let list = local.aws.spot_prices().await.unwrap();
        assert_eq!(list.rejected.values().sum::<u64>(), 0);
        let found = list.prices.iter().find(|p| p.instance_type == "r5.large" && p.zone == "eu-west-1a");
        found.map(|p| p.price.get())
    };
    assert!(price().await.is_some());
    local
        .control(
            "PUT",
            "/spot-price",
            json!({"instanceType": "r5.large", "zone": "eu-west-1a", "price": 0.0123}),
        )
        .await;
    assert_eq!(price().await, Some(12_300));
}

#[tokio::test]
async fn reservations_are_listed_with_what_is_left_of_them() {
    let local = connect("eu-central-1", "reservations").await;
    let make = async |body| {
        let made = local.control("PUT", "/capacity-reservation", body).await;
        made["id"].as_str().unwrap().to_owned()
    };
    let open =
        make(json!({"instanceType": "m5.large", "zone": "eu-central-1a", "total": 3, "criteria": "open"}))
            .await;
    let block = make(json!({
        "instanceType": "p4d.24xlarge", "zone": "eu-central-1b", "total": 1, "criteria": "targeted",
        "kind": "capacity-block", "endsInSeconds": 7200, "tags": {"team": "a"},
    }))
    .await;
    let found = CatalogSource::reservations(&local.aws).await.unwrap();
    let of = |id: &str| found.iter().find(|r| r.id == id).unwrap_or_else(|| panic!("{id} in {found:?}"));
    assert_eq!((of(&open).available, of(&open).total, of(&open).match_criteria), (3, 3, MatchCriteria::Open));
    assert_eq!(of(&open).kind, ReservationKind::Default);
    assert_eq!(of(&block).kind, ReservationKind::CapacityBlock);
    assert_eq!(of(&block).tags["team"], "a");
    assert!(of(&block).end.is_some_and(|end| end > Timestamp::now()));
}

#[tokio::test]
async fn a_zonal_shift_is_seen_while_it_lasts() {
    let local = connect(REGION, "shift").await;
    let arn = local.aws.cluster_arn(CLUSTER).await.unwrap();
    assert!(arn.contains(CLUSTER), "{arn}");
    assert_eq!(local.aws.zonal_shifts(&arn).await.unwrap(), []);
    local.control("PUT", "/zonal-shift", json!({"zoneId": "usw2-az3", "minutes": 5})).await;
    let shifts = local.aws.zonal_shifts(&arn).await.unwrap();
    assert_eq!(shifts.len(), 1);
    assert_eq!(shifts[0].zone_id, "usw2-az3");
    local.control("DELETE", "/zonal-shift", json!({"zoneId": "usw2-az3"})).await;
    assert_eq!(local.aws.zonal_shifts(&arn).await.unwrap(), []);
}
