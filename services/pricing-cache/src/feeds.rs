//! The loops that ask the cloud: one for each kind of fact, each at its own pace, none waiting for another. They hand every
//! outcome, good or bad, to the owner of the catalogue and judge nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use cloud::CatalogSource;
use cloud::catalog::{OnDemandPrice, PriceList, SpotPrice, ZonalShift};
use cloud::error::{CloudError, ErrorKind};
use cloud::facts::Zone;
use cloud::reservation::Reservation;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::facts::Listing;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Feed {
    InstanceTypes,
    OnDemandPrices,
    SpotPrices,
    Reservations,
    ZonalShifts,
}

impl Feed {
    /// For metric labels and logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InstanceTypes => "instance-types",
            Self::OnDemandPrices => "on-demand-prices",
            Self::SpotPrices => "spot-prices",
            Self::Reservations => "reservations",
            Self::ZonalShifts => "zonal-shifts",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Answer {
    Facts(Listing),
    OnDemand(PriceList<OnDemandPrice>),
    Spot(PriceList<SpotPrice>),
    Reservations(Vec<Reservation>),
    Shifts(Vec<ZonalShift>),
}

/// One try.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) feed: Feed,
    pub(crate) at: Timestamp,
    pub(crate) took: Duration,
    pub(crate) answer: Result<Answer, CloudError>,
    /// Told whether the answer was believed; dropped unsaid, it was.
    pub(crate) believed: oneshot::Sender<bool>,
}

const QUICKEST_RETRY: Duration = Duration::from_secs(1);
const SLOWEST_RETRY: Duration = Duration::from_mins(5);

pub(crate) struct FeedLoop<M> {
    pub(crate) feed: Feed,
    pub(crate) source: Arc<dyn CatalogSource>,
    pub(crate) period: Duration,
    /// For zonal shifts only.
    pub(crate) cluster: String,
    pub(crate) mailbox: mpsc::Sender<M>,
}

impl<M: From<Outcome> + Send + 'static> FeedLoop<M> {
    /// Asks at once, then every period with a tenth of jitter either way; after a failure sooner, with backoff.
    pub(crate) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut failing = None;
        let mut arn: Option<String> = None;
        loop {
            let began = tokio::time::Instant::now();
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                answer = self.ask(&mut arn) => answer,
            };
            let answered = answer.is_ok();
            let (believed, verdict) = oneshot::channel();
            let (feed, at, took) = (self.feed, Timestamp::now(), began.elapsed());
            if self.mailbox.send(Outcome { feed, at, took, answer, believed }.into()).await.is_err() {
                // The owner is gone: the process is ending.
                stop.cancelled().await;
                return Ok(());
            }
            // An answer that cannot be right is asked for again as soon as one that failed.
            let pause = if answered && verdict.await.unwrap_or(true) {
                failing = None;
                jittered(self.period, RandomState::new().hash_one(self.feed))
            } else {
                let retry = failing.get_or_insert_with(backoff).next().unwrap_or(SLOWEST_RETRY);
                retry.min(self.period.max(QUICKEST_RETRY))
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn ask(&self, arn: &mut Option<String>) -> Result<Answer, CloudError> {
        let source = &self.source;
        Ok(match self.feed {
            Feed::InstanceTypes => {
                let zones = async { Ok(source.zones().await) };
                let (types, offered, zones) =
                    tokio::try_join!(source.instance_types(), source.offerings(), zones)?;
                let zones = match zones {
                    Err(error) if error.kind == ErrorKind::Unauthorized => {
                        warn!(%error, "zones are known by name only, from where instance types are offered; zonal shifts are not followed");
                        named_zones(&offered, source.region())
                    }
                    zones => zones?,
                };
                Answer::Facts(Listing { types, offered, zones })
            }
            Feed::OnDemandPrices => Answer::OnDemand(source.on_demand_prices().await?),
            Feed::SpotPrices => Answer::Spot(source.spot_prices().await?),
            Feed::Reservations => Answer::Reservations(source.reservations().await?),
            Feed::ZonalShifts => {
                let arn = match arn {
                    Some(arn) => arn,
                    None => arn.insert(source.cluster_arn(&self.cluster).await?),
                };
                Answer::Shifts(source.zonal_shifts(arn).await?)
            }
        })
    }
}

/// Zones without ids, for a role that may not describe them: Karpenter's own policy does not have that action. Nodes get the
/// zone ids of their subnets.
fn named_zones(offered: &BTreeMap<String, BTreeSet<String>>, region: &str) -> Vec<Zone> {
    let names: BTreeSet<&String> = offered.values().flatten().collect();
    let kind = |name: &str| match name.strip_prefix(region) {
        Some(letter) if letter.len() == 1 => "availability-zone",
        _ => "local-zone",
    };
    let zone = |name: &String| Zone { name: name.clone(), kind: kind(name).to_owned(), ..Zone::default() };
    names.into_iter().map(zone).collect()
}

/// Which feeds run under these settings.
pub(crate) fn wanted(
    region: &str,
    isolated_vpc: bool,
    reserved_capacity: bool,
    zonal_shift: bool,
) -> BTreeSet<Feed> {
    let mut feeds = BTreeSet::from([Feed::InstanceTypes, Feed::SpotPrices]);
    if !isolated_vpc && cloud::catalog::on_demand_prices_exist(region) {
        feeds.insert(Feed::OnDemandPrices);
    }
    if reserved_capacity {
        feeds.insert(Feed::Reservations);
    }
    if zonal_shift {
        feeds.insert(Feed::ZonalShifts);
    }
    feeds
}

/// Between nine and eleven tenths of `period`, by `random`.
fn jittered(period: Duration, random: u64) -> Duration {
    let share = u32::try_from(random % 2001).unwrap_or(0);
    period.mul_f64(0.9 + f64::from(share) / 10_000.0)
}

fn backoff() -> backon::ExponentialBackoff {
    let builder = backon::ExponentialBuilder::default().with_min_delay(QUICKEST_RETRY).with_factor(2.0);
    // The library's jitter adds up to the delay itself.
    builder.with_max_delay(SLOWEST_RETRY / 2).without_max_times().with_jitter().build()
}

#[cfg(test)]
mod tests {
    use cloud::memory::MemoryCloud;

    use super::*;

    fn feed(
        feed: Feed,
        source: &Arc<MemoryCloud>,
        period: u64,
    ) -> (FeedLoop<Outcome>, mpsc::Receiver<Outcome>) {
        let (mailbox, outcomes) = mpsc::channel(8);
        let source = Arc::clone(source) as Arc<dyn CatalogSource>;
        let period = Duration::from_secs(period);
        (FeedLoop { feed, source, period, cluster: "demo".into(), mailbox }, outcomes)
    }

    #[test]
    fn no_price_list_is_asked_in_an_isolated_vpc_or_where_there_is_none() {
        let asks = |region, isolated| wanted(region, isolated, true, true).contains(&Feed::OnDemandPrices);
        assert!(asks("us-west-2", false));
        assert!(!asks("us-west-2", true));
        assert!(!asks("us-gov-west-1", false));
        assert!(asks("cn-north-1", false));
        assert!(
            wanted("us-west-2", true, false, false).contains(&Feed::SpotPrices),
            "spot is asked from EC2"
        );
    }

    #[tokio::test]
    async fn a_role_that_may_not_describe_zones_still_gets_the_catalogue() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        let named: Vec<String> = cloud.zones().await.unwrap().into_iter().map(|zone| zone.name).collect();
        cloud.fail("DescribeAvailabilityZones", "UnauthorizedOperation", "not authorized");
        let (feed, _outcomes) = feed(Feed::InstanceTypes, &cloud, 60);
        let Answer::Facts(listing) = feed.ask(&mut None).await.unwrap() else { panic!("facts") };
        assert_eq!(listing.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>(), named);
        assert!(listing.zones.iter().all(|zone| zone.id.is_empty() && zone.kind == "availability-zone"));
        cloud.fail("DescribeAvailabilityZones", "InternalError", "");
        assert!(feed.ask(&mut None).await.is_err(), "a fault is no refusal");
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_asks_at_once_and_then_every_period_with_a_tenth_of_jitter() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        let (feed, mut outcomes) = feed(Feed::SpotPrices, &cloud, 43_200);
        let stop = CancellationToken::new();
        let began = tokio::time::Instant::now();
        let watching = async {
            assert!(outcomes.recv().await.unwrap().answer.is_ok());
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert!(outcomes.recv().await.unwrap().answer.is_ok());
            let waited = began.elapsed().as_secs();
            assert!((38_880..=47_520).contains(&waited), "waited {waited} s");
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(feed.run(stop.clone()), watching);
        ran.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_feed_asks_again_with_growing_pauses_of_at_most_five_minutes() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        cloud.fail_times("DescribeSpotPriceHistory", "RequestLimitExceeded", "slow down", 14);
        let (feed, mut outcomes) = feed(Feed::SpotPrices, &cloud, 43_200);
        let stop = CancellationToken::new();
        let watching = async {
            let mut pauses = Vec::new();
            loop {
                let began = tokio::time::Instant::now();
                let outcome = outcomes.recv().await.unwrap();
                pauses.push(began.elapsed().as_secs());
                if outcome.answer.is_ok() {
                    break;
                }
            }
            stop.cancel();
            assert_eq!(pauses.len(), 15);
            assert!(pauses[1] <= 2 && pauses[14] > 100, "{pauses:?}");
            assert!(pauses.iter().all(|pause| *pause <= 300), "{pauses:?}");
        };
        let (ran, ()) = tokio::join!(feed.run(stop.clone()), watching);
        ran.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_failing_listing_fails_the_whole_answer_about_types() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        cloud.fail("DescribeInstanceTypeOfferings", "InternalError", "no");
        let (feed, mut outcomes) = feed(Feed::InstanceTypes, &cloud, 60);
        let stop = CancellationToken::new();
        let watching = async {
            assert!(outcomes.recv().await.unwrap().answer.is_err());
            assert!(matches!(outcomes.recv().await.unwrap().answer, Ok(Answer::Facts(_))));
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(feed.run(stop.clone()), watching);
        ran.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_believed_is_asked_for_again_soon() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        let (feed, mut outcomes) = feed(Feed::InstanceTypes, &cloud, 43_200);
        let stop = CancellationToken::new();
        let watching = async {
            outcomes.recv().await.unwrap().believed.send(false).unwrap();
            let began = tokio::time::Instant::now();
            outcomes.recv().await.unwrap().believed.send(true).unwrap();
            assert!(began.elapsed() <= Duration::from_secs(2), "asked again after {:?}", began.elapsed());
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(feed.run(stop.clone()), watching);
        ran.unwrap();
    }
}
