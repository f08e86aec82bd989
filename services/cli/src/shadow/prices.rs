//! Prices of offerings, and the cheapest one that a NodeClaim would accept. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::labels;
use proto::pricingcache::v1::Price;
use serde_json::Value;

use crate::offering::Offering;

/// By instance type; only what is available.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices(BTreeMap<String, Vec<Offering>>);

impl Prices {
    pub(super) fn new(prices: Vec<Price>) -> Self {
        let mut all: BTreeMap<String, Vec<Offering>> = BTreeMap::new();
        for offering in prices.into_iter().filter_map(|price| price.offering).filter(|each| each.available) {
            all.entry(offering.instance_type.clone()).or_default().push(Offering::from(offering));
        }
        Self(all)
    }

    /// What one node costs.
    pub(super) fn exactly(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Option<Offering> {
        let matching = |each: &&Offering| each.zone == zone && each.capacity_type == capacity_type;
        self.0.get(instance_type)?.iter().find(matching).cloned()
    }

    /// The cheapest offering that a claim's requirements allow, and how many instance types it names. `None` where the claim
    /// names no types, as those of static pools: AWS would be asked for any that fits.
    pub(super) fn cheapest(&self, requirements: &Value) -> (usize, Option<Offering>) {
        let types = values_in(requirements, labels::INSTANCE_TYPE);
        let allowed = |key: &str, value: &str| {
            requirements.as_array().into_iter().flatten().all(|each| {
                let listed = || values(each).any(|listed| listed == value);
                match (each["key"].as_str() == Some(key), each["operator"].as_str()) {
                    (true, Some("In")) => listed(),
                    (true, Some("NotIn")) => !listed(),
                    _ => true,
                }
            })
        };
        let offerings = types.iter().filter_map(|name| self.0.get(*name)).flatten();
        let fitting = offerings.filter(|each| {
            allowed(labels::ZONE, &each.zone) && allowed(labels::CAPACITY_TYPE, each.capacity_type)
        });
        let order = |each: &&Offering| (each.price_per_hour, each.instance_type.clone(), each.zone.clone());
        (types.len(), fitting.min_by_key(order).cloned())
    }
}

fn values(requirement: &Value) -> impl Iterator<Item = &str> {
    requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn values_in<'a>(requirements: &'a Value, key: &str) -> Vec<&'a str> {
    let all = requirements.as_array().into_iter().flatten();
    let named =
        all.filter(|each| each["key"].as_str() == Some(key) && each["operator"].as_str() == Some("In"));
    named.flat_map(values).collect()
}

pub(super) fn time(at: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok())
}

#[cfg(test)]
pub(super) mod tests {
    use proto::types::v1 as types;
    use serde_json::json;

    use super::*;

    pub(crate) fn three() -> Prices {
        let price =
            |instance_type: &str, zone: &str, kind: types::CapacityType, micro: i64, available| Price {
                offering: Some(types::Offering {
                    instance_type: instance_type.into(),
                    zone: zone.into(),
                    capacity_type: kind.into(),
                    micro_usd_per_hour: micro,
                    available,
                    ..types::Offering::default()
                }),
                ..Price::default()
            };
        use types::CapacityType::{OnDemand, Spot};
        Prices::new(vec![
            price("m5.large", "a", OnDemand, 96_000, true),
            price("m5.large", "a", Spot, 30_000, true),
            price("c5.large", "b", OnDemand, 85_000, true),
            price("c5.large", "b", Spot, 10_000, false),
        ])
    }

    #[test]
    fn a_launch_costs_what_the_cheapest_available_offering_of_its_claim_costs() {
        let types =
            json!({"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c5.large", "m5.large", "x"]});
        let kind =
            |operator: &str| json!({"key": labels::CAPACITY_TYPE, "operator": operator, "values": ["spot"]});
        let zone = json!({"key": labels::ZONE, "operator": "In", "values": ["a"]});
        let named = |requirements: Value| {
            let (count, found) = three().cheapest(&requirements);
            (count, found.map(|each| format!("{} {}", each.instance_type, each.capacity_type)))
        };
        assert_eq!(named(json!([types])), (3, Some("m5.large spot".into())));
        assert_eq!(named(json!([types, kind("NotIn")])), (3, Some("c5.large on-demand".into())));
        assert_eq!(named(json!([types, kind("NotIn"), zone])), (3, Some("m5.large on-demand".into())));
        assert_eq!(named(json!([kind("In")])), (0, None));
    }
}
