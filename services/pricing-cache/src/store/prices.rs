//! Prices in a ConfigMap: one entry for on-demand and one for each zone, lines of type and micro-dollars. Some 150 KB for a
//! large region, where a ConfigMap may hold a megabyte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use cloud::catalog::MAX_PRICE;
use jiff::Timestamp;
use model::price::MicroDollars;

use super::Read;
use crate::prices::Remembered;

const REGION: &str = "region";
const ON_DEMAND: &str = "on-demand";
const ON_DEMAND_AS_OF: &str = "on-demand-as-of";
const SPOT: &str = "spot.";
const SPOT_AS_OF: &str = "spot-as-of";

type Column = BTreeMap<String, MicroDollars>;

pub(crate) fn prices_text(prices: &Remembered<'_>) -> BTreeMap<String, String> {
    let mut data = BTreeMap::from([(REGION.to_owned(), prices.region.to_string())]);
    data.insert(ON_DEMAND.to_owned(), lines(&prices.on_demand));
    for (zone, column) in prices.spot.iter() {
        data.insert(format!("{SPOT}{zone}"), lines(column));
    }
    for (key, at) in [(ON_DEMAND_AS_OF, prices.on_demand_as_of), (SPOT_AS_OF, prices.spot_as_of)] {
        data.extend(at.map(|at| (key.to_owned(), at.to_string())));
    }
    data
}

fn lines(column: &Column) -> String {
    let mut text = String::with_capacity(column.len() * 20);
    for (name, price) in column {
        writeln!(text, "{name} {}", price.get()).expect("a String takes every write");
    }
    text
}

pub(crate) fn prices_from(data: &BTreeMap<String, String>) -> Read<Remembered<'static>> {
    let mut read = Read::<Remembered<'static>>::default();
    let time = |key| data.get(key).and_then(|text: &String| text.parse::<Timestamp>().ok());
    read.found.region = data.get(REGION).cloned().unwrap_or_default().into();
    read.found.on_demand_as_of = time(ON_DEMAND_AS_OF);
    read.found.spot_as_of = time(SPOT_AS_OF);
    if let Some(text) = data.get(ON_DEMAND) {
        read.found.on_demand = Cow::Owned(column(text, &mut read.malformed));
    }
    for (key, text) in data {
        if let Some(zone) = key.strip_prefix(SPOT) {
            read.found.spot.to_mut().insert(zone.to_owned(), column(text, &mut read.malformed));
        }
    }
    read
}

fn column(text: &str, malformed: &mut usize) -> Column {
    let mut column = Column::new();
    for line in text.lines() {
        let price = line.split_once(' ').and_then(|(name, price)| {
            let price = MicroDollars::new(price.parse().ok()?);
            let usable = !name.is_empty() && price > MicroDollars::ZERO && price <= MAX_PRICE;
            usable.then(|| (name.to_owned(), price))
        });
        match price {
            Some((name, price)) => drop(column.insert(name, price)),
            None => *malformed += 1,
        }
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column_of(prices: &[(&str, i64)]) -> Column {
        prices.iter().map(|(name, price)| ((*name).to_owned(), MicroDollars::new(*price))).collect()
    }

    #[test]
    fn prices_come_back_as_they_were() {
        let prices = Remembered {
            region: "us-west-2".into(),
            on_demand: Cow::Owned(column_of(&[("c5.large", 85_000), ("m5.large", 96_000)])),
            on_demand_as_of: Some("2026-08-01T10:00:00Z".parse().unwrap()),
            spot: Cow::Owned(BTreeMap::from([("us-west-2a".to_owned(), column_of(&[("m5.large", 31_000)]))])),
            spot_as_of: None,
        };
        let read = prices_from(&prices_text(&prices));
        assert_eq!(read, Read { found: prices, malformed: 0 });
    }

    #[test]
    fn lines_that_hold_no_price_are_left_out_and_counted() {
        let text =
            "m5.large 96000\nc5.large 0\nr5.large -5\nx1 cheap\n\nt3.micro 99999999999999\nm6i.large 1 2\n";
        let data =
            BTreeMap::from([("on-demand".to_owned(), text.to_owned()), ("note".to_owned(), "x".to_owned())]);
        let read = prices_from(&data);
        assert_eq!(*read.found.on_demand, column_of(&[("m5.large", 96_000)]));
        assert_eq!(read.malformed, 6);
        assert_eq!(prices_from(&BTreeMap::new()), Read::default());
    }
}
