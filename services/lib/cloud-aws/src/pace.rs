//! Rate limits of our own, one for each class of calls, so that a burst of work neither drains the account's quota nor
//! starves other callers. Each adapts: a throttled call halves the rate, successes raise it again, above the setting too where
//! the account turns out to allow more.

use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::error::{CloudError, ErrorKind, Fault};
use tokio::time::{Instant, sleep};

/// How fast calls of one class are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Calls a second after a pause.
    pub per_second: f64,
    /// How many may come at once after a pause.
    pub burst: f64,
    /// Calls a second at most, reached step by step while nothing is throttled.
    pub most: f64,
}

/// One limit for each class of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Reads of EC2.
    pub describe: Limit,
    /// CreateFleet.
    pub create_fleet: Limit,
    /// TerminateInstances; one call ends many.
    pub terminate: Limit,
    /// CreateTags.
    pub tag: Limit,
    /// Launch templates.
    pub launch_template: Limit,
    /// IAM, SSM, EKS, EventBridge, Pricing, STS, zonal shift: a quota each, all of about this size.
    pub other: Limit,
}

/// EC2's published figures for an ordinary account, each API for itself: 100 reads at once and 20 a second, 50 or more changes
/// at once and 5 a second. A part of each bucket is left to other callers of the account.
impl Default for Limits {
    fn default() -> Self {
        let limit = |per_second, burst, most| Limit { per_second, burst, most };
        Self {
            describe: limit(20.0, 80.0, 40.0),
            create_fleet: limit(5.0, 20.0, 50.0),
            terminate: limit(5.0, 20.0, 20.0),
            tag: limit(5.0, 20.0, 20.0),
            launch_template: limit(5.0, 20.0, 20.0),
            other: limit(20.0, 40.0, 20.0),
        }
    }
}

/// What is wrong with a setting of rate limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimits {
    #[error("{0:?} is not <class>=<calls a second>/<burst>[/<most calls a second>]")]
    Shape(String),
    #[error(
        "there is no class of calls {0:?}; there are describe, create-fleet, terminate, tag, launch-template, other"
    )]
    Class(String),
    #[error(
        "{0:?}: calls a second must be above 0, the burst at least 1, the most no less than calls a second"
    )]
    Figure(String),
}

/// `create-fleet=5/20/50,describe=20/100`; classes that are not named keep their default, and without a third figure the first is
/// the most.
impl FromStr for Limits {
    type Err = InvalidLimits;

    fn from_str(text: &str) -> Result<Self, InvalidLimits> {
        let mut all = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let shape = || InvalidLimits::Shape(part.to_owned());
            let (class, figures) = part.split_once('=').ok_or_else(shape)?;
            let class = match class.trim() {
                "describe" => &mut all.describe,
                "create-fleet" => &mut all.create_fleet,
                "terminate" => &mut all.terminate,
                "tag" => &mut all.tag,
                "launch-template" => &mut all.launch_template,
                "other" => &mut all.other,
                other => return Err(InvalidLimits::Class(other.to_owned())),
            };
            let figures: Result<Vec<f64>, _> =
                figures.split('/').map(|figure| figure.trim().parse()).collect();
            let (per_second, burst, most) = match figures.map_err(|_| shape())?[..] {
                [per_second, burst] => (per_second, burst, per_second),
                [per_second, burst, most] => (per_second, burst, most),
                _ => return Err(shape()),
            };
            let sane = per_second > 0.0 && burst >= 1.0 && most >= per_second;
            if !sane || ![per_second, burst, most].into_iter().all(f64::is_finite) {
                return Err(InvalidLimits::Figure(part.to_owned()));
            }
            *class = Limit { per_second, burst, most };
        }
        Ok(all)
    }
}

#[derive(Debug)]
pub(crate) struct Paces {
    pub(crate) describe: Pace,
    pub(crate) create_fleet: Pace,
    pub(crate) terminate: Pace,
    pub(crate) tag: Pace,
    pub(crate) launch_template: Pace,
    pub(crate) other: Pace,
}

impl Paces {
    pub(crate) fn new(limits: &Limits, read_only: bool) -> Self {
        let pace = |limit| Pace { read_only, ..Pace::new(limit) };
        Self {
            describe: pace(limits.describe),
            create_fleet: pace(limits.create_fleet),
            terminate: pace(limits.terminate),
            tag: pace(limits.tag),
            launch_template: pace(limits.launch_template),
            other: pace(limits.other),
        }
    }
}

/// A token bucket. Callers are served in the order they asked.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: Limit,
    /// Nothing that changes something is called.
    read_only: bool,
    /// Held by the caller whose turn is next: only it waits for a token, at the rate of that moment.
    next: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: f64,
    rate: f64,
    at: Instant,
    throttled: Option<Instant>,
}

/// Slowest that throttling makes us, in calls a second.
const FLOOR: f64 = 1.0;
/// Share of the most that one success adds while nothing has been throttled.
const PROBE: f64 = 0.01;
/// Share of the ordinary rate that one success gives back after throttling.
const RECOVERY: f64 = 0.02;
/// After this time without a call the rate is the ordinary one again.
const PAUSE: Duration = Duration::from_secs(30);
/// A token short of whole by less than this is whole: sums of fractions are not exact.
const NEARLY: f64 = 1e-6;

impl Pace {
    pub(crate) fn new(limit: Limit) -> Self {
        let state =
            State { tokens: limit.burst, rate: limit.per_second, at: Instant::now(), throttled: None };
        Self { limit, read_only: false, next: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    /// Waits for the caller's turn and says when it came. A caller that gives up takes no token.
    pub(crate) async fn turn(&self) -> Instant {
        let _next = self.next.lock().await;
        loop {
            let now = Instant::now();
            let wait = self.take(now);
            if wait.is_zero() {
                return now;
            }
            sleep(wait).await;
        }
    }

    /// The answer to a call that must not be made.
    pub(crate) fn refusal(&self, operation: &'static str) -> Option<CloudError> {
        let reads = ["Describe", "Get", "List"].into_iter().any(|verb| operation.starts_with(verb));
        (self.read_only && !reads).then(|| {
            tracing::info!(operation, "shadow mode: would have called AWS");
            let why = "not called: this service runs in shadow mode and only reads";
            CloudError::new(operation, "ShadowMode", why, Fault::Client)
        })
    }

    /// Takes a token, or says how long one takes to come.
    fn take(&self, now: Instant) -> Duration {
        let mut state = self.state();
        let since = now.saturating_duration_since(state.at);
        state.at = now;
        state.tokens = (state.tokens + since.as_secs_f64() * state.rate).min(self.limit.burst);
        if since >= PAUSE {
            // Nothing is known any more: the account has recovered, or others use it.
            (state.rate, state.throttled) = (self.limit.per_second, None);
        }
        if state.tokens + NEARLY >= 1.0 {
            state.tokens -= 1.0;
            return Duration::ZERO;
        }
        Duration::from_secs_f64((1.0 - state.tokens) / state.rate)
    }

    /// From the answer to a call whose turn came at `turn`.
    pub(crate) fn learn<T>(&self, turn: Instant, result: &Result<T, CloudError>) {
        let mut state = self.state();
        match result {
            // What is not used up says nothing about the limit.
            Ok(_) if state.tokens + NEARLY >= 1.0 => {}
            Ok(_) => {
                let step = match state.throttled {
                    None => self.limit.most * PROBE,
                    Some(_) => self.limit.per_second * RECOVERY,
                };
                state.rate = (state.rate + step).min(self.limit.most);
            }
            Err(error) if error.kind == ErrorKind::Throttled => {
                let now = Instant::now();
                // The account has none left as of now, whatever was gained here meanwhile.
                (state.tokens, state.at) = (state.tokens.min(0.0), now);
                // Calls that were on their way when the rate was cut say nothing about the new one.
                if state.throttled.is_none_or(|cut| turn >= cut) {
                    state.rate = (state.rate / 2.0).max(FLOOR.min(self.limit.per_second));
                    state.throttled = Some(now);
                }
            }
            Err(_) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_shadow_mode_only_reads_are_let_through() {
        let shadow = Paces::new(&Limits::default(), true);
        for operation in
            ["CreateFleet", "TerminateInstances", "CreateTags", "PutRule", "AddRoleToInstanceProfile"]
        {
            let refusal = shadow.other.refusal(operation).expect(operation);
            assert_eq!(refusal.code, "ShadowMode");
        }
        for operation in ["DescribeInstances", "GetParameter", "ListInstanceProfiles"] {
            assert!(shadow.describe.refusal(operation).is_none(), "{operation}");
        }
        assert!(Paces::new(&Limits::default(), false).create_fleet.refusal("CreateFleet").is_none());
    }

    fn pace(per_second: f64, burst: f64) -> Pace {
        Pace::new(Limit { per_second, burst, most: per_second })
    }

    fn throttled() -> Result<(), CloudError> {
        Err(CloudError::new("X", "RequestLimitExceeded", "", Fault::Client))
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let pace = pace(10.0, 5.0);
        let start = Instant::now();
        for _ in 0..5 {
            pace.turn().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            pace.turn().await;
        }
        let taken = start.elapsed().as_secs_f64();
        assert!((0.99..1.05).contains(&taken), "ten more take a second, took {taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_halves_the_rate_once_for_all_calls_on_their_way_and_successes_restore_it() {
        let pace = pace(10.0, 100.0);
        let turns = [pace.turn().await, pace.turn().await, pace.turn().await];
        tokio::time::advance(Duration::from_millis(50)).await;
        for turn in turns {
            pace.learn(turn, &throttled());
        }
        assert_eq!(pace.state().rate, 5.0);
        let start = Instant::now();
        let turn = pace.turn().await;
        let slow = start.elapsed();
        assert!(slow >= Duration::from_millis(199), "one call in 200 ms, took {slow:?}");
        pace.learn(turn, &throttled());
        assert_eq!(pace.state().rate, 2.5, "throttled at the new rate too");
        for _ in 0..100 {
            pace.learn(Instant::now(), &Ok(()));
        }
        pace.turn().await;
        let start = Instant::now();
        pace.turn().await;
        let fast = start.elapsed();
        assert!(fast <= Duration::from_millis(102), "one call in 100 ms again, took {fast:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_profit_when_the_rate_recovers_and_are_served_in_their_order() {
        let pace = pace(100.0, 1.0);
        for _ in 0..10 {
            let turn = pace.turn().await;
            pace.learn(turn, &throttled());
        }
        assert_eq!(pace.state().rate, FLOOR);
        let served = Mutex::new(Vec::new());
        let start = Instant::now();
        let wait = async |n: usize| {
            let turn = pace.turn().await;
            served.lock().unwrap().push(n);
            for _ in 0..10 {
                pace.learn(turn, &Ok(()));
            }
        };
        futures::future::join_all((0..50).map(wait)).await;
        let taken = start.elapsed();
        assert!(taken < Duration::from_secs(5), "at the floor it would take 50 s, took {taken:?}");
        assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    /// The account's own bucket.
    struct Account {
        rate: f64,
        burst: f64,
        tokens: f64,
        at: Instant,
    }

    impl Account {
        fn answer(&mut self, now: Instant) -> Result<(), CloudError> {
            let gained = now.duration_since(self.at).as_secs_f64() * self.rate;
            self.tokens = (self.tokens + gained).min(self.burst);
            self.at = now;
            if self.tokens < 1.0 {
                return throttled();
            }
            self.tokens -= 1.0;
            Ok(())
        }
    }

    /// How long this many launches take, and how many calls of them were throttled.
    async fn launches(wanted: usize, rate: f64, burst: f64) -> (Duration, usize) {
        let pace = Pace::new(Limits::default().create_fleet);
        let mut account = Account { rate, burst, tokens: burst, at: Instant::now() };
        let (start, mut done, mut refused) = (Instant::now(), 0, 0);
        while done < wanted {
            let turn = pace.turn().await;
            let answer = account.answer(turn);
            if answer.is_ok() {
                done += 1
            } else {
                refused += 1
            }
            pace.learn(turn, &answer);
        }
        (start.elapsed(), refused)
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_launches_use_what_the_account_allows_and_hardly_more() {
        let (taken, refused) = launches(1000, 5.0, 50.0).await;
        assert!(taken < Duration::from_secs(190 + 60), "190 s at the least, took {taken:?}");
        assert!(refused * 10 < 1000 + refused, "{refused} of {} calls were throttled", 1000 + refused);
        let (taken, refused) = launches(1000, 1000.0, 1000.0).await;
        assert!(taken < Duration::from_secs(40), "an account without such limits, took {taken:?}");
        assert_eq!(refused, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_the_rate_is_the_ordinary_one_again() {
        let pace = Pace::new(Limit { per_second: 5.0, burst: 10.0, most: 50.0 });
        for _ in 0..200 {
            let turn = pace.turn().await;
            pace.learn(turn, &Ok(()));
        }
        assert_eq!(pace.state().rate, 50.0);
        tokio::time::advance(Duration::from_mins(1)).await;
        pace.turn().await;
        assert_eq!(pace.state().rate, 5.0);
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_do_not_slow_us_down() {
        let pace = pace(10.0, 2.0);
        let turn = pace.turn().await;
        pace.learn::<()>(turn, &Err(CloudError::new("X", "InvalidParameter", "", Fault::Client)));
        let start = Instant::now();
        pace.turn().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[test]
    fn limits_are_read_class_by_class_and_refused_when_they_make_no_sense() {
        assert_eq!("".parse(), Ok(Limits::default()));
        let read: Limits = "create-fleet=2/10, describe=30/60/90".parse().unwrap();
        assert_eq!(read.create_fleet, Limit { per_second: 2.0, burst: 10.0, most: 2.0 });
        assert_eq!(read.describe, Limit { per_second: 30.0, burst: 60.0, most: 90.0 });
        assert_eq!(read.terminate, Limits::default().terminate);
        for wrong in
            ["create-fleet", "create-fleet=5", "launch=5/20", "tag=0/5", "tag=5/0", "tag=5/5/1", "tag=inf/5"]
        {
            assert!(wrong.parse::<Limits>().is_err(), "{wrong}");
        }
    }
}
