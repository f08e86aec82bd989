//! Current spot prices.

use std::collections::BTreeMap;
use std::time::SystemTime;

use cloud::catalog::{PriceList, RejectedPrice, SpotPrice, read_price};
use cloud::error::CloudError;

use super::{Calls, Ec2, pages};

const OPERATION: &str = "DescribeSpotPriceHistory";
const PAGE: i32 = 2000;
const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

impl Ec2 {
    pub(crate) async fn spot_prices(&self) -> Result<PriceList<SpotPrice>, CloudError> {
        let Calls { client, paces } = &self.calls;
        // A history that starts now holds the current price of every pool and nothing older.
        let call = client
            .describe_spot_price_history()
            .set_product_descriptions(Some(PRODUCTS.map(str::to_owned).to_vec()))
            .start_time(SystemTime::now().into());
        let mut prices = BTreeMap::new();
        let mut rejected: BTreeMap<RejectedPrice, u64> = BTreeMap::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            for entry in page.spot_price_history() {
                let read = match (entry.instance_type(), entry.availability_zone(), entry.spot_price()) {
                    (Some(name), Some(zone), Some(price)) => {
                        read_price(price).map(|p| ((name.as_str().to_owned(), zone.to_owned()), p))
                    }
                    _ => Err(RejectedPrice::Incomplete),
                };
                match read {
                    Ok((pool, price)) => {
                        // A price that changes while it is asked for comes twice: the newer one counts, whatever the order.
                        let since =
                            entry.timestamp().map_or((i64::MIN, 0), |at| (at.secs(), at.subsec_nanos()));
                        let known = prices.entry(pool).or_insert((since, price));
                        if known.0 <= since {
                            *known = (since, price);
                        }
                    }
                    Err(cause) => *rejected.entry(cause).or_default() += 1,
                }
            }
        });
        if prices.is_empty() {
            return Err(CloudError::malformed(OPERATION, "the answer holds no usable spot price"));
        }
        let price = |((instance_type, zone), (_, price))| SpotPrice { instance_type, zone, price };
        Ok(PriceList { prices: prices.into_iter().map(price).collect(), rejected })
    }
}
