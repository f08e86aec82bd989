use std::collections::BTreeMap;
use std::pin::Pin;

use cloud::catalog::Entry;
use cloud::facts::{TypeFacts, Zone};
use futures::{FutureExt as _, StreamExt as _};
use model::price::MicroDollars;
use proto::pricingcache::v1::catalog_update::Update;

use super::*;
use crate::prices::Origin;

fn source() -> Source {
    Source { origin: Origin::Api, as_of: None, failing: None }
}

fn catalogue(zone: &str, price: i64) -> Arc<Catalogue> {
    let facts = TypeFacts { name: "m5.large".into(), ..TypeFacts::default() };
    let entry = Entry {
        facts: Arc::new(facts),
        zones: vec![0],
        on_demand: Some(MicroDollars::new(price)),
        spot: vec![],
    };
    Arc::new(Catalogue {
        region: Arc::from("us-west-2"),
        zones: Arc::new(vec![Zone { name: zone.into(), ..Zone::default() }]),
        entries: Arc::new(vec![Arc::new(entry)]),
        marks: Arc::new(BTreeMap::new()),
        reservations: Arc::default(),
        overlays: Arc::default(),
        learned: Arc::default(),
    })
}

/// Publishes a new price each time.
struct Publisher {
    sender: watch::Sender<Option<Arc<Published>>>,
    last: Option<Published>,
}

impl Publisher {
    fn new() -> (Self, Latest) {
        let (sender, latest) = watch::channel(None);
        (Self { sender, last: None }, latest)
    }

    fn publish(&mut self, catalogue: Arc<Catalogue>) {
        let next = match self.last.take() {
            None => Published::first(Arc::from("epoch"), catalogue, source(), source()),
            Some(last) => last.next(catalogue, source(), source()),
        };
        self.last = Some(next.with_sources(source(), source()));
        self.sender.send_replace(Some(Arc::new(next)));
    }
}

type Updates = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

fn subscribe(latest: &Latest, epoch: &str, version: u64) -> Updates {
    follow(latest.clone(), epoch.to_owned(), version).boxed()
}

/// What is there to be read now: kind, version, and the on-demand price told.
fn told(updates: &mut Updates) -> Option<(&'static str, u64, Option<i64>)> {
    let update = wire::unframed(&updates.next().now_or_never()?.expect("the stream goes on"));
    Some(match update.update.unwrap() {
        Update::Snapshot(s) => ("snapshot", update.version, s.on_demand_micro_usd.first().copied()),
        Update::Delta(d) => ("delta", update.version, d.on_demand.first().map(|p| p.micro_usd)),
    })
}

#[tokio::test]
async fn a_subscriber_waits_for_the_first_catalogue_and_then_gets_only_changes() {
    let (mut publisher, latest) = Publisher::new();
    let mut updates = subscribe(&latest, "", 0);
    assert_eq!(told(&mut updates), None);
    publisher.publish(catalogue("a", 1));
    assert_eq!(told(&mut updates), Some(("snapshot", 1, Some(1))));
    assert_eq!(told(&mut updates), None);
    publisher.publish(catalogue("a", 2));
    assert_eq!(told(&mut updates), Some(("delta", 2, Some(2))));
    drop(publisher);
    assert!(updates.next().await.is_none(), "the stream ends with the owner");
}

#[tokio::test]
async fn a_slow_subscriber_finds_one_difference_and_no_queue() {
    let (mut publisher, latest) = Publisher::new();
    publisher.publish(catalogue("a", 1));
    let mut updates = subscribe(&latest, "", 0);
    assert_eq!(told(&mut updates), Some(("snapshot", 1, Some(1))));
    for price in 2..1000 {
        publisher.publish(catalogue("a", price));
    }
    assert_eq!(told(&mut updates), Some(("delta", 999, Some(999))));
    assert_eq!(told(&mut updates), None);
}

#[tokio::test]
async fn a_client_that_lost_the_stream_resumes_from_its_version_while_that_is_remembered() {
    let (mut publisher, latest) = Publisher::new();
    for price in 1..=40 {
        publisher.publish(catalogue("a", price));
    }
    for (epoch, version, expected) in [
        ("epoch", 40, None),
        ("epoch", 39, Some(("delta", 40, Some(40)))),
        ("epoch", 8, Some(("delta", 40, Some(40)))),
        ("epoch", 7, Some(("snapshot", 40, Some(40)))),
        ("epoch", 41, Some(("snapshot", 40, Some(40)))),
        ("other", 40, Some(("snapshot", 40, Some(40)))),
        ("", 40, Some(("snapshot", 40, Some(40)))),
    ] {
        let mut updates = subscribe(&latest, epoch, version);
        assert_eq!(told(&mut updates), expected, "{epoch} {version}");
    }
}

#[tokio::test]
async fn other_zones_are_told_with_a_snapshot_because_indexes_change_their_meaning() {
    let (mut publisher, latest) = Publisher::new();
    publisher.publish(catalogue("a", 1));
    let mut updates = subscribe(&latest, "", 0);
    assert_eq!(told(&mut updates), Some(("snapshot", 1, Some(1))));
    publisher.publish(catalogue("b", 1));
    assert_eq!(told(&mut updates), Some(("snapshot", 2, Some(1))));
}

#[tokio::test]
async fn all_who_are_told_the_same_share_the_bytes() {
    let (mut publisher, latest) = Publisher::new();
    publisher.publish(catalogue("a", 1));
    let mut all: Vec<Updates> = (0..3).map(|_| subscribe(&latest, "", 0)).collect();
    for price in [1, 2] {
        publisher.publish(catalogue("a", price));
        let mut told = Vec::new();
        for updates in &mut all {
            told.push(updates.next().await.unwrap());
        }
        assert!(told.iter().all(|bytes| bytes.as_ptr() == told[0].as_ptr()), "a copy was made");
    }
}
