//! The answer of pricing-cache in plain form. Pure.

use jiff::Timestamp;
use model::price::MicroDollars;
use proto::pricingcache::v1 as pb;
use proto::types::v1::CapacityType;
use serde::Serialize;

/// Where figures come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    /// `api`, `configmap`, `built-in` or `none`.
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failing_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) zone_id: String,
    pub(super) capacity_type: &'static str,
    #[serde(serialize_with = "dollars")]
    pub(super) price_per_hour: MicroDollars,
    /// What spot saves against on-demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) discount_percent: Option<i64>,
    pub(super) available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unavailable_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reservation_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reservation_left: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) on_demand_source: Source,
    pub(super) spot_source: Source,
    pub(super) prices: Vec<Row>,
}

fn dollars<S: serde::Serializer>(price: &MicroDollars, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(price.to_f64())
}

fn time(at: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok())
}

impl From<pb::PriceSource> for Source {
    fn from(source: pb::PriceSource) -> Self {
        Self {
            kind: source.kind,
            as_of: time(source.as_of),
            last_error: (!source.last_error.is_empty()).then_some(source.last_error),
            failing_since: time(source.failing_since),
        }
    }
}

impl From<pb::GetPricesResponse> for Answer {
    fn from(answer: pb::GetPricesResponse) -> Self {
        Self {
            on_demand_source: answer.on_demand_source.unwrap_or_default().into(),
            spot_source: answer.spot_source.unwrap_or_default().into(),
            prices: answer.prices.into_iter().map(row).collect(),
        }
    }
}

fn row(price: pb::Price) -> Row {
    let offering = price.offering.unwrap_or_default();
    let kind = offering.capacity_type();
    let micro = offering.micro_usd_per_hour;
    let full = price.on_demand_micro_usd;
    let discount = (kind == CapacityType::Spot && full > 0)
        .then(|| i128::from(full - micro) * 100 / i128::from(full))
        .and_then(|percent| i64::try_from(percent).ok());
    Row {
        instance_type: offering.instance_type,
        zone: offering.zone,
        zone_id: offering.zone_id,
        capacity_type: match kind {
            CapacityType::OnDemand => "on-demand",
            CapacityType::Spot => "spot",
            CapacityType::Reserved => "reserved",
            CapacityType::Unspecified => "",
        },
        price_per_hour: MicroDollars::new(micro),
        discount_percent: discount,
        available: offering.available,
        unavailable_since: time(price.unavailable_since),
        reservation_left: (kind == CapacityType::Reserved).then_some(offering.reservation_capacity),
        reservation_id: offering.reservation_id,
    }
}

impl Answer {
    /// Empty lists keep everything.
    pub(super) fn keep(&mut self, types: &[Pattern], zones: &[String]) {
        self.prices.retain(|row| {
            (types.is_empty() || types.iter().any(|pattern| pattern.matches(&row.instance_type)))
                && (zones.is_empty() || zones.iter().any(|zone| *zone == row.zone || *zone == row.zone_id))
        });
    }

    pub(super) fn sort_by_price(&mut self) {
        self.prices.sort_by(|a, b| {
            (a.price_per_hour, &a.instance_type, &a.zone).cmp(&(b.price_per_hour, &b.instance_type, &b.zone))
        });
    }
}

/// A name in which `*` stands for any text.
#[derive(Clone, Debug)]
pub(super) struct Pattern(String);

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name, where there is nothing to stand for.
    pub(super) fn exact(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&self.0)
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("m5.large", "m5.large", true),
            ("m5.large", "m5.large2", false),
            ("m5.*", "m5.large", true),
            ("m5.*", "m5d.large", false),
            ("*.large", "m5.large", true),
            ("m*.*large", "m6g.xlarge", true),
            ("m*g.*large", "m5.large", false),
            ("*", "anything", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_spot_price_is_compared_with_on_demand() {
        let offering = proto::types::v1::Offering {
            capacity_type: CapacityType::Spot.into(),
            micro_usd_per_hour: 29_781,
            ..Default::default()
        };
        let price =
            pb::Price { offering: Some(offering), on_demand_micro_usd: 96_000, unavailable_since: None };
        let row = row(price);
        assert_eq!((row.discount_percent, row.capacity_type), (Some(68), "spot"));
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["pricePerHour"], 0.029781);
        assert!(json.get("unavailableSince").is_none());
    }
}
