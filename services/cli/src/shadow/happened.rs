//! What really happened to NodeClaims in the same time, whoever decided it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::price::MicroDollars;
use proto::shadow::v1::SeenNodeClaim;
use serde::Serialize;

use super::prices::{Prices, time};
use crate::offering::maybe_dollars;

/// Equal NodeClaims that came, or went.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Happened {
    /// `created` or `deleted`.
    pub(super) event: &'static str,
    pub(super) node_pool: String,
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) nodes: u64,
    /// Of all of them; negative for those that went.
    #[serde(serialize_with = "maybe_dollars", rename = "changePerHour")]
    pub(super) change: Option<MicroDollars>,
    pub(super) last: Option<Timestamp>,
}

/// By pool, event and offering.
pub(super) fn since(since: Option<Timestamp>, claims: &[SeenNodeClaim], prices: &Prices) -> Vec<Happened> {
    let mut groups: BTreeMap<(&str, &'static str, &str, &str, &str), Happened> = BTreeMap::new();
    // Several replicas tell of the same claims.
    let each: BTreeMap<(&str, Option<Timestamp>), &SeenNodeClaim> =
        claims.iter().map(|claim| ((claim.name.as_str(), time(claim.created_at.as_ref())), claim)).collect();
    for claim in each.into_values() {
        for (event, sign, at) in [("created", 1, &claim.created_at), ("deleted", -1, &claim.deleted_at)] {
            let Some(at) = time(at.as_ref()).filter(|at| since.is_none_or(|since| *at >= since)) else {
                continue;
            };
            let SeenNodeClaim { node_pool, instance_type, zone, capacity_type, .. } = claim;
            let price = prices.exactly(instance_type, zone, capacity_type);
            let price = price.map(|each| each.price_per_hour.saturating_mul(sign));
            let group =
                groups.entry((node_pool, event, instance_type, zone, capacity_type)).or_insert_with(|| {
                    Happened {
                        event,
                        node_pool: node_pool.clone(),
                        instance_type: instance_type.clone(),
                        zone: zone.clone(),
                        capacity_type: capacity_type.clone(),
                        nodes: 0,
                        change: Some(MicroDollars::ZERO),
                        last: None,
                    }
                });
            group.nodes += 1;
            group.change = group.change.zip(price).map(|(sum, price)| sum.saturating_add(price));
            group.last = group.last.max(Some(at));
        }
    }
    groups.into_values().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::shadow::decisions::tests::claim;
    use crate::shadow::prices::tests::three;

    pub(crate) fn some() -> Vec<Happened> {
        let claims = [
            claim("old", "m5.large", 1, Some(120)),
            claim("kept", "m5.large", 2, None),
            claim("new-1", "m5.large", 101, None),
            claim("new-2", "m5.large", 102, None),
            claim("new-2", "m5.large", 102, None),
            claim("launching", "", 103, None),
        ];
        since(Timestamp::from_second(100).ok(), &claims, &three())
    }

    #[test]
    fn claims_that_came_or_went_since_then_are_counted_once() {
        let reply: Vec<_> = some()
            .into_iter()
            .map(|each| (each.event, each.instance_type, each.nodes, each.change.map(MicroDollars::get)))
            .collect();
        assert_eq!(
            reply,
            [
                ("created", String::new(), 1, None),
                ("created", "m5.large".to_owned(), 2, Some(192_000)),
                ("deleted", "m5.large".to_owned(), 1, Some(-96_000)),
            ]
        );
    }
}
