use std::collections::BTreeSet;

use cloud::CatalogSource as _;
use cloud::error::{CloudError, Fault};
use cloud::memory::MemoryCloud;
use model::catalog::CapacityType;
use runtime::{Metrics, Readiness, Service};

use super::*;
use crate::facts::Listing;
use crate::prices::Origin;

/// An owner at work, with its stores in the test's hands.
struct Bench {
    cloud: MemoryCloud,
    handle: CatalogueHandle,
    marks: mpsc::Receiver<Save>,
    prices: mpsc::Receiver<Save>,
    types: mpsc::Receiver<Save>,
    _memory: mpsc::Receiver<Save>,
    readiness: Readiness,
    stop: CancellationToken,
    _running: tokio::task::JoinSet<anyhow::Result<()>>,
}

impl Bench {
    fn start() -> Self {
        let cloud = MemoryCloud::new("us-west-2");
        let feeds = [Feed::InstanceTypes, Feed::OnDemandPrices, Feed::SpotPrices];
        let stored = [Part::StoredTypes, Part::StoredPrices, Part::StoredMarks];
        let awaited: BTreeSet<Part> = feeds.into_iter().map(Part::Feed).chain(stored).collect();
        let (prices, stored_prices) = mpsc::channel(8);
        let (marks, stored_marks) = mpsc::channel(8);
        let (memory, stored_memory) = mpsc::channel(8);
        let (types, stored_types) = mpsc::channel(8);
        let readiness = Readiness::default();
        let metrics = PricingMetrics::new(&Metrics::new(Service::PricingCache));
        let state = State::new("us-west-2", awaited);
        let stores = Stores { types, prices, marks, memory };
        let (owner, handle) = Owner::new(state, "epoch".into(), stores, metrics, readiness.clone());
        let stop = CancellationToken::new();
        let mut running = tokio::task::JoinSet::new();
        running.spawn(owner.run(stop.clone()));
        Self {
            cloud,
            handle,
            marks: stored_marks,
            prices: stored_prices,
            types: stored_types,
            _memory: stored_memory,
            readiness,
            stop,
            _running: running,
        }
    }

    async fn send(&self, message: Message) {
        self.handle.mailbox().send(message).await.unwrap();
    }

    async fn fetched(&self, feed: Feed, answer: Result<Answer, CloudError>) {
        let (at, took, believed) = (Timestamp::now(), Duration::ZERO, oneshot::channel().0);
        self.send(Message::Fetched(Outcome { feed, at, took, answer, believed })).await;
    }

    async fn facts(&self) -> Listing {
        Listing {
            types: self.cloud.instance_types().await.unwrap(),
            offered: self.cloud.offerings().await.unwrap(),
            zones: self.cloud.zones().await.unwrap(),
        }
    }

    async fn feed_prices(&self) {
        let prices = self.cloud.on_demand_prices().await.unwrap();
        self.fetched(Feed::OnDemandPrices, Ok(Answer::OnDemand(prices))).await;
        let prices = self.cloud.spot_prices().await.unwrap();
        self.fetched(Feed::SpotPrices, Ok(Answer::Spot(prices))).await;
    }

    /// Nothing is remembered.
    async fn first_life(&self) {
        self.send(Message::StoredTypes(Change::Reset(Vec::new()))).await;
        self.send(Message::StoredPrices(Change::Reset(Vec::new()))).await;
    }

    async fn complete(&self) -> Arc<Published> {
        self.first_life().await;
        self.send(Message::StoredMarks(Change::Reset(Vec::new()))).await;
        self.fetched(Feed::InstanceTypes, Ok(Answer::Facts(self.facts().await))).await;
        self.feed_prices().await;
        self.version(1).await
    }

    /// The first published version that is at least this.
    async fn version(&self, version: u64) -> Arc<Published> {
        let mut latest = self.handle.subscribe();
        let seen = latest.wait_for(|p| p.as_ref().is_some_and(|p| p.version >= version)).await.unwrap();
        seen.clone().unwrap()
    }

    /// Waits until everything sent so far was taken in.
    async fn settled(&self) -> u64 {
        let scope = Scope::subnet("subnet-settled");
        let done = self.handle.report(vec![(scope, "x".into())], Some(SignedDuration::from_millis(1))).await;
        done.unwrap().version
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn spot(name: &str) -> Scope {
    Scope::offering(CapacityType::Spot, name, "us-west-2a")
}

fn failed(feed: Feed) -> CloudError {
    CloudError::new(feed.as_str(), "InternalError", "not now", Fault::Server)
}

#[tokio::test]
async fn nothing_is_published_before_every_part_was_looked_at() {
    let bench = Bench::start();
    bench.first_life().await;
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(bench.facts().await))).await;
    bench.send(Message::StoredMarks(Change::Reset(Vec::new()))).await;
    bench.fetched(Feed::SpotPrices, Err(failed(Feed::SpotPrices))).await;
    assert_eq!(bench.settled().await, 0);
    assert!(bench.handle.latest().is_none());
    assert!(bench.readiness.missing()[0].contains("on-demand-prices"), "{:?}", bench.readiness.missing());

    bench.fetched(Feed::OnDemandPrices, Err(failed(Feed::OnDemandPrices))).await;
    let published = bench.version(1).await;
    assert!(bench.readiness.is_ready());
    assert_eq!(published.on_demand_source.origin, Origin::BuiltIn, "asked, failed: the built-in table");
    assert!(published.catalogue.entries.iter().all(|e| e.on_demand.is_some()));
}

#[tokio::test]
async fn without_types_there_is_no_catalogue_however_much_else_is_known() {
    let bench = Bench::start();
    bench.first_life().await;
    bench.send(Message::StoredMarks(Change::Reset(Vec::new()))).await;
    bench.feed_prices().await;
    bench.fetched(Feed::InstanceTypes, Err(failed(Feed::InstanceTypes))).await;
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(Listing::default()))).await;
    assert_eq!(bench.settled().await, 0);
    assert!(!bench.readiness.is_ready());
}

#[tokio::test]
async fn an_empty_or_failed_answer_later_changes_nothing_that_is_published() {
    let bench = Bench::start();
    let full = bench.complete().await;
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(Listing::default()))).await;
    let mut half = bench.facts().await;
    half.types.truncate(2);
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(half))).await;
    bench.fetched(Feed::OnDemandPrices, Err(failed(Feed::OnDemandPrices))).await;
    bench.settled().await;
    let now = bench.handle.latest().unwrap();
    assert!(Arc::ptr_eq(&full.catalogue.entries[0], &now.catalogue.entries[0]));
    assert_eq!(full.catalogue.entries.len(), now.catalogue.entries.len());
    let (error, _) = now.on_demand_source.failing.clone().unwrap();
    assert!(error.contains("not now"), "{error}");
    assert_eq!(now.on_demand_source.origin, Origin::Api);
}

#[tokio::test]
async fn a_report_is_in_force_when_it_is_answered_and_is_stored() {
    let mut bench = Bench::start();
    bench.complete().await;
    let reported = bench.handle.report(vec![(spot("m5.large"), "ICE".into())], None).await.unwrap();
    let published = bench.handle.latest().unwrap();
    assert!(published.version >= reported.version);
    assert!(published.catalogue.marks.contains_key("spot:m5.large:us-west-2a"));
    let save = bench.marks.recv().await.unwrap();
    let text = save.entries["spot_m5.large_us-west-2a"].clone().unwrap();
    save.done.unwrap().send(()).unwrap();
    reported.stored.await.unwrap();

    let other = Bench::start();
    other.first_life().await;
    let data = BTreeMap::from([("spot_m5.large_us-west-2a".to_owned(), text)]);
    let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    other.send(Message::StoredMarks(Change::Applied(Arc::new(map)))).await;
    let published = other.complete_after_marks().await;
    assert_eq!(
        published.catalogue.marks.len(),
        1,
        "another replica, or the next life of this one, has it too"
    );
}

impl Bench {
    async fn complete_after_marks(&self) -> Arc<Published> {
        self.fetched(Feed::InstanceTypes, Ok(Answer::Facts(self.facts().await))).await;
        self.feed_prices().await;
        self.version(1).await
    }
}

#[tokio::test]
async fn a_mark_ends_by_itself() {
    let bench = Bench::start();
    bench.complete().await;
    let hold = Some(SignedDuration::from_millis(200));
    let reported = bench.handle.report(vec![(spot("m5.large"), "ICE".into())], hold).await.unwrap();
    let after = bench.version(reported.version + 1).await;
    assert!(after.catalogue.marks.is_empty());
    assert!(Timestamp::now() >= reported.marks[0].until);
}

#[tokio::test]
async fn only_prices_that_changed_make_a_new_version() {
    let mut bench = Bench::start();
    let first = bench.complete().await;
    let saved = bench.prices.recv().await.unwrap();
    assert!(saved.entries.contains_key("on-demand") && saved.entries.contains_key("spot.us-west-2a"));
    bench.feed_prices().await;
    bench.feed_prices().await;
    let before = bench.settled().await;
    assert_eq!(before, first.version + 1, "the settling report alone");

    let pool = ("m5.large".to_owned(), "us-west-2a".to_owned());
    bench.cloud.state().spot.insert(pool, model::price::MicroDollars::new(12_345));
    bench.feed_prices().await;
    let mut latest = bench.handle.subscribe();
    let changed = |p: &Option<Arc<Published>>| {
        let catalogue = &p.as_ref().expect("complete").catalogue;
        let entry = catalogue.entries.iter().find(|e| e.facts.name == "m5.large").unwrap();
        entry.spot_price(0).is_some_and(|price| price.get() == 12_345)
    };
    let published = latest.wait_for(changed).await.unwrap().clone().unwrap();
    let delta = wire::delta(&first.catalogue, &published.catalogue);
    assert_eq!((delta.spot.len(), delta.on_demand.len(), delta.changed_types.len()), (1, 0, 0));
}

fn map_of(save: Save) -> Change<ConfigMap> {
    let data = save.entries.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
    Change::Applied(Arc::new(ConfigMap { data: Some(data), ..ConfigMap::default() }))
}

#[tokio::test]
async fn the_next_life_is_complete_from_what_was_stored_before_aws_answers() {
    let mut bench = Bench::start();
    let before = bench.complete().await;
    let (types, prices) = (bench.types.recv().await.unwrap(), bench.prices.recv().await.unwrap());

    let next = Bench::start();
    next.send(Message::StoredMarks(Change::Reset(Vec::new()))).await;
    next.send(Message::StoredTypes(map_of(types))).await;
    assert_eq!(next.settled().await, 0, "prices may be remembered too: they are waited for");
    next.send(Message::StoredPrices(map_of(prices))).await;
    let after = next.version(1).await;
    assert!(next.readiness.is_ready());
    assert_eq!(after.catalogue.entries, before.catalogue.entries);
    assert_eq!(
        (after.on_demand_source.origin, after.spot_source.origin),
        (Origin::ConfigMap, Origin::ConfigMap)
    );

    next.fetched(Feed::InstanceTypes, Ok(Answer::Facts(next.facts().await))).await;
    next.feed_prices().await;
    next.settled().await;
    let confirmed = next.handle.latest().unwrap();
    assert_eq!(confirmed.spot_source.origin, Origin::Api);
    let delta = wire::delta(&after.catalogue, &confirmed.catalogue);
    assert!(delta.changed_types.is_empty() && delta.spot.is_empty() && delta.on_demand.is_empty());
}

#[tokio::test]
async fn types_are_stored_once_and_not_again_while_ec2_says_the_same() {
    let mut bench = Bench::start();
    bench.complete().await;
    let first = bench.types.recv().await.unwrap();
    bench.send(Message::StoredTypes(map_of(first))).await;
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(bench.facts().await))).await;
    bench.settled().await;
    assert!(bench.types.try_recv().is_err(), "nothing new to store");
    let mut fewer = bench.facts().await;
    fewer.types.pop();
    bench.fetched(Feed::InstanceTypes, Ok(Answer::Facts(fewer))).await;
    bench.settled().await;
    assert!(bench.types.try_recv().is_ok());
}

#[tokio::test]
async fn a_replica_that_is_ready_says_which_feed_fails_since_when_and_what_is_used_instead() {
    let bench = Bench::start();
    bench.complete().await;
    assert!(bench.readiness.notes().is_empty());
    bench.fetched(Feed::SpotPrices, Err(failed(Feed::SpotPrices))).await;
    bench.settled().await;
    let notes = bench.readiness.notes();
    assert!(bench.readiness.is_ready() && notes.len() == 1, "{notes:?}");
    for part in ["spot-prices: cannot be read since 20", "not now", "prices are those of 20"] {
        assert!(notes[0].contains(part), "{part:?} in {notes:?}");
    }
    bench.feed_prices().await;
    bench.settled().await;
    assert!(bench.readiness.notes().is_empty());
}
