//! What pricing-cache may ask: read-only facts about types, zones, prices and reservations.
//!
//! Every listing is whole or an error. A listing whose pages did not all arrive is an error, never a shorter list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use model::price::MicroDollars;

use crate::Answer;
use crate::facts::{TypeFacts, Zone};
use crate::reservation::Reservation;

pub trait CatalogSource: Send + Sync {
    /// Fails when credentials or permissions do not allow reading instance types; reads nothing.
    fn check_access(&self) -> Answer<'_, ()>;

    /// All HVM types for x86_64 and arm64, by name. `branch_interfaces` comes from the built-in table: EC2
    /// does not tell.
    fn instance_types(&self) -> Answer<'_, Vec<TypeFacts>>;

    /// Zone names in which each type is offered.
    fn offerings(&self) -> Answer<'_, BTreeMap<String, BTreeSet<String>>>;

    /// Zones of the region that are enabled for the account, by name. `shifted` is always false here: see
    /// [`CatalogSource::zonal_shifts`].
    fn zones(&self) -> Answer<'_, Vec<Zone>>;

    /// Current spot prices of Linux. An empty answer is an error.
    fn spot_prices(&self) -> Answer<'_, PriceList<SpotPrice>>;

    /// Current on-demand prices of Linux on shared tenancy, bare metal included. An empty answer is an error, and so is
    /// asking where [`on_demand_prices_exist`] says no.
    fn on_demand_prices(&self) -> Answer<'_, PriceList<OnDemandPrice>>;

    /// All active reservations visible to the account, by id; those that have ended are left out.
    fn reservations(&self) -> Answer<'_, Vec<Reservation>>;

    /// Zones a shift moves traffic away from. `cluster_arn` names the managed resource.
    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Answer<'a, Vec<ZonalShift>>;

    /// The ARN of the cluster, to ask for zonal shifts.
    fn cluster_arn<'a>(&'a self, cluster: &'a str) -> Answer<'a, String>;

    /// Region this source describes.
    fn region(&self) -> &str;
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnDemandPrice {
    pub instance_type: String,
    pub price: MicroDollars,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpotPrice {
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    pub price: MicroDollars,
}

/// Usable prices, sorted and without duplicates, and how many entries were not usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList<P> {
    pub prices: Vec<P>,
    /// Entries left out, by cause. Worth a counter; never worth failing the whole list.
    pub rejected: BTreeMap<RejectedPrice, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectedPrice {
    /// Not a decimal number.
    Malformed,
    /// Zero: a placeholder of the price list, not a price.
    Zero,
    Negative,
    /// Above [`MAX_PRICE`].
    Absurd,
    /// No price in the currency of the partition.
    Currency,
    /// No instance type, no zone, or not the shape of a price list entry.
    Incomplete,
}

/// A zone being shifted away from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonalShift {
    pub zone_id: String,
    /// Shifts end by themselves.
    pub expires: Timestamp,
}

/// The dearest price believed, per hour: no EC2 type costs a tenth of this.
pub const MAX_PRICE: MicroDollars = MicroDollars::new(10_000_000_000);

impl RejectedPrice {
    /// For metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Zero => "zero",
            Self::Negative => "negative",
            Self::Absurd => "absurd",
            Self::Currency => "currency",
            Self::Incomplete => "incomplete",
        }
    }
}

/// Reads a price as AWS writes it, dollars per hour as decimal text, and refuses what cannot be one.
pub fn read_price(text: &str) -> Result<MicroDollars, RejectedPrice> {
    let price: MicroDollars = text.trim().parse().map_err(|_| RejectedPrice::Malformed)?;
    let written_as_zero = !text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    match price {
        p if p < MicroDollars::ZERO => Err(RejectedPrice::Negative),
        p if p.is_zero() && written_as_zero => Err(RejectedPrice::Zero),
        // Less than half a micro-dollar: keep it the cheapest rather than free.
        p if p.is_zero() => Ok(MicroDollars::new(1)),
        p if p > MAX_PRICE => Err(RejectedPrice::Absurd),
        p => Ok(p),
    }
}

/// Whether the price list service has on-demand prices for the region. GovCloud prices are not kept up by the reference
/// either; isolated partitions have no such service.
pub fn on_demand_prices_exist(region: &str) -> bool {
    !region.starts_with("us-gov") && !region.starts_with("us-iso") && !region.starts_with("eu-isoe")
}

/// The region whose price list endpoint serves `region`.
pub fn price_list_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// The currency the price list uses for the region.
pub fn price_list_currency(region: &str) -> &'static str {
    if region.starts_with("cn-") { "CNY" } else { "USD" }
}

/// Everything known about one type, ready to derive from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub facts: Arc<TypeFacts>,
    /// Indexes into the catalogue's zones, ascending.
    pub zones: Vec<u32>,
    pub on_demand: Option<MicroDollars>,
    /// By zone index; a missing tail means no price.
    pub spot: Vec<Option<MicroDollars>>,
}

impl Entry {
    pub fn spot_price(&self, zone: usize) -> Option<MicroDollars> {
        self.spot.get(zone).copied().flatten()
    }

    pub fn offered_in(&self, zone: usize) -> bool {
        self.zones.iter().any(|z| *z as usize == zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_that_cannot_be_prices_are_refused_by_cause() {
        for (text, expected) in [
            ("0.0960000000", Ok(96_000)),
            ("13.338", Ok(13_338_000)),
            ("0.00001", Ok(10)),
            ("0.0000001", Ok(1)),
            ("0.0000000000", Err(RejectedPrice::Zero)),
            ("0", Err(RejectedPrice::Zero)),
            ("-0.1", Err(RejectedPrice::Negative)),
            ("99999999", Err(RejectedPrice::Absurd)),
            ("1e3", Err(RejectedPrice::Malformed)),
            ("NaN", Err(RejectedPrice::Malformed)),
            ("", Err(RejectedPrice::Malformed)),
            ("free", Err(RejectedPrice::Malformed)),
        ] {
            assert_eq!(read_price(text).map(MicroDollars::get), expected, "{text:?}");
        }
    }

    #[test]
    fn price_lists_are_asked_where_aws_keeps_them() {
        for (region, endpoint, currency, exist) in [
            ("us-west-2", "us-east-1", "USD", true),
            ("ca-central-1", "us-east-1", "USD", true),
            ("sa-east-1", "us-east-1", "USD", true),
            ("eu-north-1", "eu-central-1", "USD", true),
            ("ap-southeast-2", "ap-south-1", "USD", true),
            ("cn-north-1", "cn-northwest-1", "CNY", true),
            ("us-gov-west-1", "us-east-1", "USD", false),
            ("us-iso-east-1", "us-east-1", "USD", false),
        ] {
            assert_eq!(price_list_region(region), endpoint, "{region}");
            assert_eq!(price_list_currency(region), currency, "{region}");
            assert_eq!(on_demand_prices_exist(region), exist, "{region}");
        }
    }
}
