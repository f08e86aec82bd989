//! On-demand prices from the price list service.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_sdk_pricing::types::{Filter, FilterType};
use cloud::catalog::{
    OnDemandPrice, PriceList, RejectedPrice, on_demand_prices_exist, price_list_currency, read_price,
};
use cloud::error::CloudError;
use model::price::MicroDollars;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::connect::Aws;
use crate::ec2::pages;

const OPERATION: &str = "GetProducts";
const PAGE: i32 = 100;

/// What is asked for: shared tenancy, and bare metal, which is sold as dedicated.
const QUERIES: [(&str, &str); 2] =
    [("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)")];

#[derive(Default)]
struct Found {
    prices: BTreeMap<String, MicroDollars>,
    rejected: BTreeMap<RejectedPrice, u64>,
}

impl Aws {
    pub(crate) async fn price_list(&self) -> Result<PriceList<OnDemandPrice>, CloudError> {
        let region = self.region_name();
        if !on_demand_prices_exist(region) {
            let text = format!("there is no price list for region {region}");
            return Err(CloudError::invalid(OPERATION, text));
        }
        let [shared, metal] = QUERIES.map(|(tenancy, family)| self.products(tenancy, family));
        let (mut all, metal) = tokio::try_join!(shared, metal)?;
        all.prices.extend(metal.prices);
        for (cause, n) in metal.rejected {
            *all.rejected.entry(cause).or_default() += n;
        }
        let price = |(instance_type, price)| OnDemandPrice { instance_type, price };
        Ok(PriceList { prices: all.prices.into_iter().map(price).collect(), rejected: all.rejected })
    }

    async fn products(&self, tenancy: &str, family: &str) -> Result<Found, CloudError> {
        let region = self.region_name();
        let currency = price_list_currency(region);
        let mut filters = Vec::new();
        for (field, value) in [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ] {
            let filter = Filter::builder().field(field).value(value).r#type(FilterType::TermMatch).build();
            filters.push(filter.map_err(|e| CloudError::invalid(OPERATION, e.to_string()))?);
        }
        let call = self.pricing().get_products().service_code("AmazonEC2").set_filters(Some(filters));
        let mut found = Found::default();
        pages!(self.paces().other, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            for product in page.price_list() {
                match read_product(product, currency) {
                    Ok((name, price)) => {
                        found.prices.insert(name, price);
                    }
                    Err(cause) => *found.rejected.entry(cause).or_default() += 1,
                }
            }
        });
        if found.prices.is_empty() {
            let text = format!("the answer holds no usable price of tenancy {tenancy} in {region}");
            return Err(CloudError::malformed(OPERATION, text));
        }
        Ok(found)
    }
}

/// The few parts of a price list entry that are read; the rest, most of it, is skipped without being kept.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    product: Product<'a>,
    #[serde(borrow)]
    terms: Terms<'a>,
}

#[derive(Deserialize)]
struct Product<'a> {
    #[serde(borrow)]
    attributes: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes<'a> {
    #[serde(borrow)]
    instance_type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Terms<'a> {
    #[serde(borrow, rename = "OnDemand")]
    on_demand: BTreeMap<String, Term<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term<'a> {
    #[serde(borrow, default)]
    price_dimensions: BTreeMap<String, Dimension<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension<'a> {
    /// By currency.
    #[serde(borrow, default)]
    price_per_unit: BTreeMap<String, Figure<'a>>,
}

/// AWS writes prices as text; anything else is none that we can read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Figure<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

/// Type and price of one entry, a JSON document in a string.
fn read_product(text: &str, currency: &str) -> Result<(String, MicroDollars), RejectedPrice> {
    let Entry { product, terms } = serde_json::from_str(text).map_err(|_| RejectedPrice::Incomplete)?;
    let mut dimensions = terms.on_demand.values().flat_map(|term| term.price_dimensions.values()).peekable();
    let mut cause = match dimensions.peek() {
        Some(_) => RejectedPrice::Currency,
        None => RejectedPrice::Incomplete,
    };
    for figure in dimensions.filter_map(|dimension| dimension.price_per_unit.get(currency)) {
        let Figure::Text(text) = figure else { continue };
        match read_price(text) {
            Ok(price) => return Ok((product.attributes.instance_type.into_owned(), price)),
            Err(found) => cause = found,
        }
    }
    Err(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(units: &str) -> String {
        format!(
            r#"{{"product":{{"attributes":{{"instanceType":"m5.large"}}}},
                "terms":{{"OnDemand":{{"a":{{"priceDimensions":{{"b":{{"pricePerUnit":{units}}}}}}}}}}}}}"#
        )
    }

    #[test]
    fn entries_of_the_price_list_are_read_or_refused_by_cause() {
        for (text, currency, expected) in [
            (product(r#"{"USD":"0.0960000000"}"#), "USD", Ok(96_000)),
            (product(r#"{"CNY":"0.5"}"#), "CNY", Ok(500_000)),
            (product(r#"{"CNY":"0.5"}"#), "USD", Err(RejectedPrice::Currency)),
            (product(r#"{"USD":"0.0000000000"}"#), "USD", Err(RejectedPrice::Zero)),
            (product(r#"{"USD":"-1"}"#), "USD", Err(RejectedPrice::Negative)),
            (product(r#"{"USD":"123456789"}"#), "USD", Err(RejectedPrice::Absurd)),
            (product(r#"{"USD":"cheap"}"#), "USD", Err(RejectedPrice::Malformed)),
            (product(r#"{"USD":1}"#), "USD", Err(RejectedPrice::Currency)),
            ("{}".to_owned(), "USD", Err(RejectedPrice::Incomplete)),
            ("not json".to_owned(), "USD", Err(RejectedPrice::Incomplete)),
            ("[1,2]".to_owned(), "USD", Err(RejectedPrice::Incomplete)),
        ] {
            let found = read_product(&text, currency).map(|(name, price)| (name, price.get()));
            assert_eq!(found, expected.map(|p| ("m5.large".to_owned(), p)), "{text}");
        }
    }
}
