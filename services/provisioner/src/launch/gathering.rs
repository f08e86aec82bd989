//! Where claims of one batch meet. The first to come waits for the others and asks for all; the others get their answer from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// Without a further claim for so long, those that are there go.
const IDLE: Duration = Duration::from_millis(35);
/// And at the latest after this.
const LONGEST: Duration = Duration::from_secs(1);

pub(super) struct Gathering<I, O> {
    open: Mutex<HashMap<String, Window<I, O>>>,
}

impl<I, O> Default for Gathering<I, O> {
    fn default() -> Self {
        Self { open: Mutex::default() }
    }
}

struct Window<I, O> {
    items: Vec<(I, Option<oneshot::Sender<O>>)>,
    last: Instant,
    came: Arc<Notify>,
}

/// What a claim has to do.
pub(super) enum Role<I, O> {
    /// Ask for all of these, itself the first, and answer the others.
    Asks { items: Vec<(I, Option<oneshot::Sender<O>>)>, waited: Duration },
    /// `None`: the one that asked went away.
    Answered(Option<O>),
}

impl<I, O> Gathering<I, O> {
    /// `all`: how many there can be; the window closes when they are there.
    pub(super) async fn join(&self, key: &str, all: Option<usize>, item: I) -> Role<I, O> {
        let came = match self.enter(key, item) {
            Entered::First(came) => came,
            Entered::Later(answer) => return Role::Answered(answer.await.ok()),
        };
        // Were this future dropped, nobody would answer those that wait: the window goes with it.
        let held = Held { gathering: self, key, is_open: true };
        let first = Instant::now();
        loop {
            let Some((last, count)) = self.lock().get(key).map(|window| (window.last, window.items.len()))
            else {
                break;
            };
            let end = (last + IDLE).min(first + LONGEST);
            if all.is_some_and(|all| count >= all) || Instant::now() >= end {
                break;
            }
            tokio::select! {
                () = came.notified() => {}
                () = sleep_until(end) => {}
            }
        }
        let items = held.take();
        Role::Asks { items, waited: first.elapsed() }
    }

    fn enter(&self, key: &str, item: I) -> Entered<O> {
        let mut open = self.lock();
        if let Some(window) = open.get_mut(key) {
            let (reply, answer) = oneshot::channel();
            window.items.push((item, Some(reply)));
            window.last = Instant::now();
            window.came.notify_one();
            return Entered::Later(answer);
        }
        let came = Arc::new(Notify::new());
        let window = Window { items: vec![(item, None)], last: Instant::now(), came: Arc::clone(&came) };
        open.insert(key.to_owned(), window);
        Entered::First(came)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Window<I, O>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Entered<O> {
    /// Told of each that follows.
    First(Arc<Notify>),
    Later(oneshot::Receiver<O>),
}

struct Held<'a, I, O> {
    gathering: &'a Gathering<I, O>,
    key: &'a str,
    is_open: bool,
}

impl<I, O> Held<'_, I, O> {
    fn take(mut self) -> Vec<(I, Option<oneshot::Sender<O>>)> {
        self.is_open = false;
        self.gathering.lock().remove(self.key).map(|window| window.items).unwrap_or_default()
    }
}

impl<I, O> Drop for Held<'_, I, O> {
    fn drop(&mut self) {
        if self.is_open {
            self.gathering.lock().remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    type Numbers = Gathering<u32, usize>;

    /// How many shared the request.
    async fn ask(gathering: &Numbers, all: Option<usize>, number: u32) -> Option<usize> {
        match gathering.join("b", all, number).await {
            Role::Answered(answer) => answer,
            Role::Asks { items, .. } => {
                let count = items.len();
                for reply in items.into_iter().filter_map(|(_, reply)| reply) {
                    reply.send(count).unwrap();
                }
                Some(count)
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_closes_when_all_are_there_and_else_after_a_pause() {
        let gathering = Numbers::default();
        let start = Instant::now();
        let all = join_all((0..4).map(|n| ask(&gathering, Some(4), n))).await;
        assert_eq!((all, start.elapsed()), (vec![Some(4); 4], Duration::ZERO));
        let some = join_all((0..3).map(|n| ask(&gathering, Some(4), n))).await;
        assert_eq!((some, start.elapsed()), (vec![Some(3); 3], IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_not_held_for_ever() {
        let gathering = Numbers::default();
        let start = Instant::now();
        let trickle = (0..60).map(|n| {
            let gathering = &gathering;
            async move {
                tokio::time::sleep(Duration::from_millis(30 * u64::from(n))).await;
                ask(gathering, None, n).await
            }
        });
        let counts: Vec<usize> = join_all(trickle).await.into_iter().flatten().collect();
        assert_eq!(counts.len(), 60);
        assert!(counts[0] < 40 && start.elapsed() < Duration::from_secs(2), "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn those_whose_first_went_away_are_told_and_the_next_window_is_a_new_one() {
        let gathering = Numbers::default();
        let mut first = Box::pin(ask(&gathering, None, 0));
        assert!(futures::poll!(first.as_mut()).is_pending());
        let mut second = Box::pin(ask(&gathering, None, 1));
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await, None);
        assert_eq!(ask(&gathering, Some(1), 2).await, Some(1));
    }
}
