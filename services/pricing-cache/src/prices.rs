//! The price book: what is known of prices, from where, and since when a source fails. Pure: the instant is an argument.
//!
//! For each price the best source counts: the API, else what the ConfigMap remembers, else the built-in table. A new answer
//! is laid over what was known and takes nothing away, so that one unusable entry never costs a good price. Without
//! permission to read the spot history, and with nothing remembered, there are no spot prices and so no spot offerings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cloud::catalog::{OnDemandPrice, PriceList, SpotPrice};
use cloud::error::{CloudError, ErrorKind};
use cloud::facts::TypeFacts;
use jiff::Timestamp;
use model::price::MicroDollars;

/// On-demand prices by type.
pub(crate) type OnDemand = BTreeMap<String, MicroDollars>;
/// Spot prices by zone name, then type.
pub(crate) type Spot = BTreeMap<String, BTreeMap<String, MicroDollars>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    BuiltIn,
    ConfigMap,
    Api,
    /// Spot only: the account may not read prices, and none are remembered.
    Nothing,
}

impl Origin {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::ConfigMap => "configmap",
            Self::Api => "api",
            Self::Nothing => "none",
        }
    }
}

/// Where figures come from and how well reading them goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) origin: Origin,
    /// When they were read from the API; `None` for the built-in table.
    pub(crate) as_of: Option<Timestamp>,
    /// The last failure and since when reads fail; `None` when the last one succeeded.
    pub(crate) failing: Option<(String, Timestamp)>,
}

impl Source {
    fn built_in() -> Self {
        Self { origin: Origin::BuiltIn, as_of: None, failing: None }
    }

    /// Figures that AWS gave, now or to an earlier life.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.origin, Origin::Api | Origin::ConfigMap)
    }

    fn read(&mut self, at: Timestamp) {
        *self = Self { origin: Origin::Api, as_of: Some(at), failing: None };
    }

    fn failed(&mut self, error: &CloudError, at: Timestamp) {
        let since = self.failing.as_ref().map_or(at, |(_, since)| *since);
        self.failing = Some((error.to_string(), since));
    }
}

/// Prices as they are remembered over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered<'a> {
    pub(crate) region: Cow<'a, str>,
    pub(crate) on_demand: Cow<'a, OnDemand>,
    pub(crate) on_demand_as_of: Option<Timestamp>,
    pub(crate) spot: Cow<'a, Spot>,
    pub(crate) spot_as_of: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct PriceBook {
    region: String,
    on_demand: OnDemand,
    spot: Spot,
    pub(crate) on_demand_source: Source,
    pub(crate) spot_source: Source,
}

impl PriceBook {
    pub(crate) fn new(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            on_demand: OnDemand::new(),
            spot: Spot::new(),
            on_demand_source: Source::built_in(),
            spot_source: Source::built_in(),
        }
    }

    /// What a ConfigMap remembers; it never replaces what the API has said since. Says whether anything was taken.
    pub(crate) fn recall(&mut self, remembered: Remembered<'_>) -> bool {
        if remembered.region != self.region {
            return false;
        }
        let mut taken = false;
        if self.on_demand_source.origin != Origin::Api && !remembered.on_demand.is_empty() {
            self.on_demand = remembered.on_demand.into_owned();
            self.on_demand_source.origin = Origin::ConfigMap;
            self.on_demand_source.as_of = remembered.on_demand_as_of;
            taken = true;
        }
        if self.spot_source.origin != Origin::Api && remembered.spot.values().any(|zone| !zone.is_empty()) {
            self.spot = remembered.spot.into_owned();
            self.spot_source.origin = Origin::ConfigMap;
            self.spot_source.as_of = remembered.spot_as_of;
            taken = true;
        }
        taken
    }

    pub(crate) fn read_on_demand(&mut self, list: PriceList<OnDemandPrice>, at: Timestamp) {
        self.on_demand.extend(list.prices.into_iter().map(|p| (p.instance_type, p.price)));
        self.on_demand_source.read(at);
    }

    pub(crate) fn on_demand_failed(&mut self, error: &CloudError, at: Timestamp) {
        self.on_demand_source.failed(error, at);
    }

    pub(crate) fn read_spot(&mut self, list: PriceList<SpotPrice>, at: Timestamp) {
        for SpotPrice { instance_type, zone, price } in list.prices {
            match self.spot.get_mut(&zone) {
                Some(prices) => drop(prices.insert(instance_type, price)),
                None => drop(self.spot.insert(zone, BTreeMap::from([(instance_type, price)]))),
            }
        }
        self.spot_source.read(at);
    }

    pub(crate) fn spot_failed(&mut self, error: &CloudError, at: Timestamp) {
        if error.kind == ErrorKind::Unauthorized && self.spot_source.origin == Origin::BuiltIn {
            self.spot_source.origin = Origin::Nothing;
        }
        self.spot_source.failed(error, at);
    }

    pub(crate) fn on_demand(&self, facts: &TypeFacts) -> Option<MicroDollars> {
        let known = self.on_demand.get(&facts.name).copied();
        known.or_else(|| cloud::prices::on_demand(facts, &self.region))
    }

    /// By zone, in the order of `zones`.
    pub(crate) fn spot(&self, facts: &TypeFacts, zones: &[&str]) -> Vec<Option<MicroDollars>> {
        let estimate = match self.spot_source.origin {
            Origin::BuiltIn => cloud::prices::spot(facts, &self.region),
            Origin::ConfigMap | Origin::Api | Origin::Nothing => None,
        };
        let price = |zone: &&str| self.spot.get(*zone).and_then(|prices| prices.get(&facts.name)).copied();
        zones.iter().map(|zone| price(zone).or(estimate)).collect()
    }

    /// What is worth remembering; `None` while nothing came from an API.
    pub(crate) fn to_remember(&self) -> Option<Remembered<'_>> {
        let read = [&self.on_demand_source, &self.spot_source].iter().any(|s| s.origin == Origin::Api);
        read.then(|| Remembered {
            region: Cow::Borrowed(&self.region),
            on_demand: Cow::Borrowed(&self.on_demand),
            on_demand_as_of: self.on_demand_source.as_of,
            spot: Cow::Borrowed(&self.spot),
            spot_as_of: self.spot_source.as_of,
        })
    }
}

#[cfg(test)]
mod tests {
    use cloud::error::Fault;

    use super::*;

    const ZONE: &str = "us-west-2a";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn micro(price: i64) -> MicroDollars {
        MicroDollars::new(price)
    }

    fn m5() -> TypeFacts {
        TypeFacts { name: "m5.large".into(), vcpus: 2, ..TypeFacts::default() }
    }

    fn on_demand(prices: &[(&str, i64)]) -> PriceList<OnDemandPrice> {
        let price = |(name, price): &(&str, i64)| OnDemandPrice {
            instance_type: (*name).to_owned(),
            price: micro(*price),
        };
        PriceList { prices: prices.iter().map(price).collect(), rejected: BTreeMap::new() }
    }

    fn spot(price: i64) -> PriceList<SpotPrice> {
        let price = SpotPrice { instance_type: "m5.large".into(), zone: ZONE.into(), price: micro(price) };
        PriceList { prices: vec![price], rejected: BTreeMap::new() }
    }

    fn remembered() -> Remembered<'static> {
        Remembered {
            region: "us-west-2".into(),
            on_demand: Cow::Owned(BTreeMap::from([("m5.large".into(), micro(91_000))])),
            on_demand_as_of: Some(at(-9)),
            spot: Cow::Owned(BTreeMap::from([(
                ZONE.to_owned(),
                BTreeMap::from([("m5.large".to_owned(), micro(31_000))]),
            )])),
            spot_as_of: Some(at(-8)),
        }
    }

    fn denied() -> CloudError {
        CloudError::new("DescribeSpotPriceHistory", "UnauthorizedOperation", "no", Fault::Client)
    }

    #[test]
    fn the_best_source_counts_and_says_how_old_it_is() {
        let mut book = PriceBook::new("us-west-2");
        assert_eq!(book.on_demand(&m5()), Some(micro(96_000)), "the built-in table");
        assert_eq!(book.on_demand_source.origin, Origin::BuiltIn);

        assert!(book.recall(remembered()));
        assert_eq!(book.on_demand(&m5()), Some(micro(91_000)));
        assert_eq!(
            (book.on_demand_source.origin, book.on_demand_source.as_of),
            (Origin::ConfigMap, Some(at(-9)))
        );

        book.read_on_demand(on_demand(&[("m5.large", 95_000)]), at(1));
        book.read_spot(spot(29_000), at(2));
        assert_eq!(book.on_demand(&m5()), Some(micro(95_000)));
        assert_eq!(book.spot(&m5(), &[ZONE, "us-west-2b"]), [Some(micro(29_000)), None]);

        assert!(!book.recall(remembered()), "what the API said is not replaced by a memory");
        assert_eq!(book.on_demand(&m5()), Some(micro(95_000)));
    }

    #[test]
    fn prices_of_another_region_are_not_recalled() {
        let mut book = PriceBook::new("eu-west-1");
        assert!(!book.recall(remembered()));
    }

    #[test]
    fn a_type_that_is_missing_from_a_later_answer_keeps_its_price() {
        let mut book = PriceBook::new("us-west-2");
        book.read_on_demand(on_demand(&[("m5.large", 95_000), ("c5.large", 85_000)]), at(0));
        book.read_on_demand(on_demand(&[("c5.large", 80_000)]), at(9));
        assert_eq!(book.on_demand(&m5()), Some(micro(95_000)));
    }

    #[test]
    fn a_failing_source_keeps_its_prices_and_says_since_when() {
        let mut book = PriceBook::new("us-west-2");
        book.read_spot(spot(29_000), at(0));
        for second in [10, 20] {
            book.spot_failed(&CloudError::unreachable("DescribeSpotPriceHistory", "timed out"), at(second));
        }
        assert_eq!(book.spot(&m5(), &[ZONE]), [Some(micro(29_000))]);
        let (error, since) = book.spot_source.failing.clone().unwrap();
        assert!(error.contains("DescribeSpotPriceHistory") && error.contains("timed out"), "{error}");
        assert_eq!(since, at(10));
        book.read_spot(spot(30_000), at(30));
        assert_eq!(book.spot_source.failing, None);
    }

    #[test]
    fn without_permission_for_spot_history_there_is_on_demand_only() {
        let mut book = PriceBook::new("us-west-2");
        assert!(book.spot(&m5(), &[ZONE])[0].is_some(), "estimated until EC2 was asked");
        book.spot_failed(&denied(), at(0));
        assert_eq!(book.spot(&m5(), &[ZONE]), [None]);
        assert_eq!(book.spot_source.origin, Origin::Nothing);
        assert!(book.on_demand(&m5()).is_some());
        book.read_spot(spot(29_000), at(60));
        assert_eq!(book.spot(&m5(), &[ZONE]), [Some(micro(29_000))], "granted later");
    }

    #[test]
    fn a_permission_lost_later_costs_no_price() {
        let mut book = PriceBook::new("us-west-2");
        book.read_spot(spot(29_000), at(0));
        book.spot_failed(&denied(), at(1));
        assert_eq!(book.spot(&m5(), &[ZONE]), [Some(micro(29_000))]);
    }

    #[test]
    fn only_what_an_api_said_is_worth_remembering() {
        let mut book = PriceBook::new("us-west-2");
        assert_eq!(book.to_remember(), None);
        book.recall(remembered());
        assert_eq!(book.to_remember(), None);
        book.read_spot(spot(29_000), at(5));
        let kept = book.to_remember().unwrap();
        assert_eq!((kept.on_demand_as_of, kept.spot_as_of), (Some(at(-9)), Some(at(5))));
    }
}
