//! Rate limits of our own, one for each class of calls, so that a burst of work neither drains the account's quota nor
//! starves other callers. Each adapts: a throttled call halves the rate, successes raise it again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud::error::{CloudError, ErrorKind, Fault};
use tokio::time::{Instant, sleep};

/// Calls a second at most, and how many may come at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    pub per_second: f64,
    pub burst: f64,
}

/// One limit for each class of calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Reads of EC2.
    pub describe: Limit,
    /// CreateFleet.
    pub launch: Limit,
    /// TerminateInstances; one call ends many.
    pub terminate: Limit,
    /// CreateTags.
    pub tag: Limit,
    /// Launch templates.
    pub template: Limit,
    /// IAM, SSM, EKS, EventBridge, Pricing, STS, zonal shift: a quota each, all of about this size.
    pub other: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            describe: Limit { per_second: 40.0, burst: 100.0 },
            launch: Limit { per_second: 50.0, burst: 200.0 },
            terminate: Limit { per_second: 20.0, burst: 50.0 },
            tag: Limit { per_second: 20.0, burst: 50.0 },
            template: Limit { per_second: 20.0, burst: 50.0 },
            other: Limit { per_second: 20.0, burst: 40.0 },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Paces {
    pub(crate) describe: Pace,
    pub(crate) launch: Pace,
    pub(crate) terminate: Pace,
    pub(crate) tag: Pace,
    pub(crate) template: Pace,
    pub(crate) other: Pace,
}

impl Paces {
    pub(crate) fn new(limits: &Limits, read_only: bool) -> Self {
        let pace = |limit| Pace { read_only, ..Pace::new(limit) };
        Self {
            describe: pace(limits.describe),
            launch: pace(limits.launch),
            terminate: pace(limits.terminate),
            tag: pace(limits.tag),
            template: pace(limits.template),
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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Below zero: callers that already wait for their turn.
    tokens: f64,
    rate: f64,
    at: Instant,
}

/// Slowest that throttling makes us, in calls a second.
const FLOOR: f64 = 1.0;
/// Share of the limit that one success gives back.
const RECOVERY: f64 = 0.02;

impl Pace {
    pub(crate) fn new(limit: Limit) -> Self {
        let state = State { tokens: limit.burst, rate: limit.per_second, at: Instant::now() };
        Self { limit, read_only: false, state: Mutex::new(state) }
    }

    /// Waits for the caller's turn. Cancelling does not give the turn back; the next caller is merely later.
    pub(crate) async fn turn(&self) {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
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

    fn reserve(&self, now: Instant) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = now.saturating_duration_since(state.at).as_secs_f64() * state.rate;
        state.tokens = (state.tokens + gained).min(self.limit.burst) - 1.0;
        state.at = now;
        Duration::from_secs_f64((-state.tokens / state.rate).max(0.0))
    }

    pub(crate) fn learn<T>(&self, result: &Result<T, CloudError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) => {
                state.rate = (state.rate + self.limit.per_second * RECOVERY).min(self.limit.per_second);
            }
            Err(error) if error.kind == ErrorKind::Throttled => {
                state.rate = (state.rate / 2.0).max(FLOOR.min(self.limit.per_second));
                state.tokens = state.tokens.min(0.0);
            }
            Err(_) => {}
        }
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
        assert!(Paces::new(&Limits::default(), false).launch.refusal("CreateFleet").is_none());
    }

    fn pace(per_second: f64, burst: f64) -> Pace {
        Pace::new(Limit { per_second, burst })
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
    async fn throttling_halves_the_rate_and_successes_restore_it() {
        let pace = pace(10.0, 1.0);
        let throttled: Result<(), _> = Err(CloudError::new("X", "RequestLimitExceeded", "", Fault::Client));
        pace.turn().await;
        pace.learn(&throttled);
        let start = Instant::now();
        pace.turn().await;
        let slow = start.elapsed();
        assert!(slow >= Duration::from_millis(199), "one call in 200 ms, took {slow:?}");
        for _ in 0..100 {
            pace.learn(&Ok(()));
        }
        pace.turn().await;
        let start = Instant::now();
        pace.turn().await;
        let fast = start.elapsed();
        assert!(fast <= Duration::from_millis(101), "one call in 100 ms again, took {fast:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_do_not_slow_us_down() {
        let pace = pace(10.0, 2.0);
        pace.learn::<()>(&Err(CloudError::new("X", "InvalidParameter", "", Fault::Client)));
        let start = Instant::now();
        pace.turn().await;
        pace.turn().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
