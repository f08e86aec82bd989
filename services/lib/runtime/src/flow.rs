//! How many writes are on their way to the API server at once. As many as it answers quickly: one more after each full round of
//! quick answers, half as many after a slow or missing one. Without that, a thousand nodes that leave at once make every
//! write of a busy API server late, each late one is repeated, and nothing gets done. What waits for its turn here is not late: the
//! time for an answer begins when the call goes out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::writes::{Error, timely};

const FIRST: usize = 32;
const FEWEST: usize = 4;
/// An answer that takes longer says that there are too many.
const SLOW: Duration = Duration::from_secs(2);
/// What was sent before the last cut says nothing about the time after it.
const BETWEEN_CUTS: Duration = Duration::from_secs(3);

/// The rule, without a clock of its own.
#[derive(Debug)]
struct Window {
    size: usize,
    most: usize,
    quick: usize,
    cut_at: Option<Instant>,
}

impl Window {
    fn new(most: usize) -> Self {
        let most = most.max(FEWEST);
        Self { size: FIRST.min(most), most, quick: 0, cut_at: None }
    }

    fn answered(&mut self, is_overloaded: bool, took: Duration, now: Instant) {
        if is_overloaded || took > SLOW {
            if self.cut_at.is_none_or(|at| now.duration_since(at) >= BETWEEN_CUTS) {
                self.size = (self.size / 2).max(FEWEST);
                (self.cut_at, self.quick) = (Some(now), 0);
            }
            return;
        }
        self.quick += 1;
        if self.quick >= self.size && self.size < self.most {
            self.size += 1;
            self.quick = 0;
        }
    }
}

pub struct Flow {
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    window: Window,
    /// Permits that exist, free or taken; follows the window's size.
    existing: usize,
}

impl Flow {
    /// `most`: of calls that are on their way at once.
    pub fn new(most: usize) -> Self {
        let window = Window::new(most);
        let existing = window.size;
        Self { permits: Semaphore::new(existing), state: Mutex::new(State { window, existing }) }
    }

    /// Makes `call` when its turn comes, and waits for the answer as long as that makes sense.
    pub async fn timely<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
        self.pass(timely(call), |answer| answer.as_ref().is_err_and(Error::is_overload)).await
    }

    /// Does `call` when its turn comes; `overloaded` tells which outcomes mean that the API server has too much to do. A limit of
    /// time belongs into `call`, where it does not count before.
    pub async fn pass<T>(&self, call: impl Future<Output = T>, overloaded: impl FnOnce(&T) -> bool) -> T {
        let permit = self.permits.acquire().await.ok();
        let began = Instant::now();
        let answer = call.await;
        self.learn(overloaded(&answer), began.elapsed(), permit);
        answer
    }

    fn learn(&self, is_overloaded: bool, took: Duration, permit: Option<SemaphorePermit<'_>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.window.answered(is_overloaded, took, Instant::now());
        let size = state.window.size;
        if state.existing < size {
            self.permits.add_permits(size - state.existing);
            state.existing = size;
        }
        // One that is too many goes with whoever gives it back.
        if let Some(permit) = permit
            && state.existing > size
        {
            permit.forget();
            state.existing -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::writes::CALL_TIMEOUT;

    const QUICK: Duration = Duration::from_millis(5);

    #[tokio::test(start_paused = true)]
    async fn the_window_grows_by_one_a_round_and_halves_once_per_trouble() {
        let (mut window, now) = (Window::new(100), Instant::now());
        for _ in 0..FIRST {
            window.answered(false, QUICK, now);
        }
        assert_eq!(window.size, FIRST + 1);
        for _ in 0..20 {
            window.answered(true, QUICK, now);
        }
        assert_eq!(window.size, FIRST.div_ceil(2), "what was sent together counts once");
        for round in 1..10 {
            window.answered(false, SLOW * 2, now + BETWEEN_CUTS * round);
        }
        assert_eq!(window.size, FEWEST);
        (0..100_000).for_each(|_| window.answered(false, QUICK, now));
        assert_eq!(window.size, 100, "and all the way up again");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_turn_is_no_time_out_and_an_answer_that_never_comes_is_one() {
        let flow = Flow::new(FEWEST);
        let began = Instant::now();
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            Ok(())
        };
        let all = futures::future::join_all((0..40).map(|_| flow.timely(slow()))).await;
        assert!(began.elapsed() > 3 * CALL_TIMEOUT, "most waited longer than a call may take");
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        let never = flow.timely(std::future::pending::<Result<(), kube::Error>>()).await;
        assert!(matches!(never, Err(Error::Timeout)), "{never:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_late_with_many_gets_few_at_a_time_and_all_are_done() {
        let (flow, at_once, most) =
            (Arc::new(Flow::new(100)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let write = |number: usize| {
            let (flow, at_once, most) = (Arc::clone(&flow), Arc::clone(&at_once), Arc::clone(&most));
            async move {
                let call = async {
                    let now = at_once.fetch_add(1, Ordering::Relaxed) + 1;
                    if number > 200 {
                        most.fetch_max(now, Ordering::Relaxed);
                    }
                    // Half a second for each of those that it has to do at once.
                    tokio::time::sleep(Duration::from_millis(500) * u32::try_from(now).unwrap()).await;
                    at_once.fetch_sub(1, Ordering::Relaxed);
                };
                flow.pass(call, |()| false).await;
            }
        };
        futures::future::join_all((0..400).map(write)).await;
        assert!(most.load(Ordering::Relaxed) <= 8, "{most:?} at once");
        assert_eq!(flow.permits.available_permits(), flow.state.lock().unwrap().existing);
    }
}
