//! An offering and money, as answers show them.

use std::fmt;

use model::price::MicroDollars;
use proto::types::v1 as types;
use serde::{Serialize, Serializer};

/// AWS counts a month as 730 hours.
pub(crate) const HOURS_PER_MONTH: i64 = 730;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offering {
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: &'static str,
    #[serde(serialize_with = "dollars")]
    pub(crate) price_per_hour: MicroDollars,
}

impl From<types::Offering> for Offering {
    fn from(offering: types::Offering) -> Self {
        let capacity_type = match offering.capacity_type() {
            types::CapacityType::Unspecified => "unknown",
            types::CapacityType::OnDemand => model::labels::ON_DEMAND,
            types::CapacityType::Spot => model::labels::SPOT,
            types::CapacityType::Reserved => model::labels::RESERVED,
        };
        Self {
            capacity_type,
            instance_type: offering.instance_type,
            zone: offering.zone,
            price_per_hour: MicroDollars::new(offering.micro_usd_per_hour),
        }
    }
}

impl fmt::Display for Offering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance_type, zone, capacity_type, price_per_hour } = self;
        write!(f, "{instance_type} {capacity_type} in {zone}, {}", Spent(*price_per_hour))
    }
}

/// Money by the hour and by the month.
pub(crate) struct Spent(pub(crate) MicroDollars);

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let month = self.0.saturating_mul(HOURS_PER_MONTH);
        write!(f, "${:.4} an hour, ${:.2} a month", self.0.to_f64(), month.to_f64())
    }
}

pub(crate) fn dollars<S: Serializer>(price: &MicroDollars, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(price.to_f64())
}

pub(crate) fn maybe_dollars<S: Serializer>(
    price: &Option<MicroDollars>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match price {
        Some(price) => dollars(price, serializer),
        None => serializer.serialize_none(),
    }
}
