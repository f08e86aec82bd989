//! Merges single requests that come at about the same time into one call.
//!
//! A window opens with the first request of a key and closes when nothing came for `idle`, when it has been open for
//! `max`, or when it is full. The call runs in a task of its own: a requester that goes away takes nobody with it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use crate::calls::CallMetrics;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) idle: Duration,
    pub(crate) max: Duration,
    pub(crate) items: usize,
}

/// Most calls of one batcher at a time.
const CONCURRENT: usize = 100;

type Run<K, I, O> = Arc<dyn Fn(K, Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync>;

pub(crate) struct Batcher<K, I, O> {
    window: Window,
    work: Work<K, I, O>,
    open: Arc<Mutex<HashMap<K, Bucket<I, O>>>>,
    tasks: TaskTracker,
}

/// What becomes of a window that has closed.
struct Work<K, I, O> {
    run: Run<K, I, O>,
    running: Arc<Semaphore>,
    counted: Option<(CallMetrics, &'static str)>,
}

impl<K, I, O> Clone for Work<K, I, O> {
    fn clone(&self) -> Self {
        Self { run: Arc::clone(&self.run), running: Arc::clone(&self.running), counted: self.counted.clone() }
    }
}

struct Bucket<I, O> {
    items: Vec<(I, oneshot::Sender<O>)>,
    first: Instant,
    last: Instant,
    full: Arc<Notify>,
}

impl<K, I, O> Batcher<K, I, O>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    I: Send + 'static,
    O: Send + 'static,
{
    /// `run` answers the requests in their order; a missing answer counts as a failed call.
    pub(crate) fn new(
        window: Window,
        run: impl Fn(K, Vec<I>) -> BoxFuture<'static, Vec<O>> + Send + Sync + 'static,
    ) -> Self {
        let work = Work { run: Arc::new(run), running: Arc::new(Semaphore::new(CONCURRENT)), counted: None };
        Self { window, work, open: Arc::default(), tasks: TaskTracker::new() }
    }

    /// Counts its batches under this name.
    #[must_use]
    pub(crate) fn counted(mut self, metrics: CallMetrics, name: &'static str) -> Self {
        self.work.counted = Some((metrics, name));
        self
    }

    /// `None` when the call ended without an answer for this request.
    pub(crate) async fn ask(&self, key: K, item: I) -> Option<O> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(key, item, reply);
        answer.await.ok()
    }

    fn enqueue(&self, key: K, item: I, reply: oneshot::Sender<O>) {
        let now = Instant::now();
        let mut open = lock(&self.open);
        if let Some(bucket) = open.get_mut(&key).filter(|b| b.items.len() < self.window.items) {
            bucket.items.push((item, reply));
            bucket.last = now;
            if bucket.items.len() >= self.window.items {
                bucket.full.notify_one();
            }
            return;
        }
        let full = Arc::new(Notify::new());
        if self.window.items <= 1 {
            full.notify_one();
        }
        let bucket = Bucket { items: vec![(item, reply)], first: now, last: now, full: Arc::clone(&full) };
        // A full window that its task has not taken yet goes on its own.
        if let Some(earlier) = open.insert(key.clone(), bucket) {
            let work = self.work.clone();
            let key = key.clone();
            self.tasks.spawn(async move { work.execute(key, earlier).await });
        }
        drop(open);
        self.watch(key, full);
    }

    /// Waits for the end of the window, then takes what is in it.
    fn watch(&self, key: K, full: Arc<Notify>) {
        let (open, window) = (Arc::clone(&self.open), self.window);
        let work = self.work.clone();
        self.tasks.spawn(async move {
            let closed = loop {
                let end = match lock(&open).get(&key).filter(|b| Arc::ptr_eq(&b.full, &full)) {
                    Some(bucket) => (bucket.last + window.idle).min(bucket.first + window.max),
                    None => return,
                };
                let is_full = tokio::select! {
                    () = full.notified() => true,
                    () = sleep_until(end) => false,
                };
                let mut open = lock(&open);
                let Some(bucket) = open.get(&key).filter(|b| Arc::ptr_eq(&b.full, &full)) else { return };
                let now = Instant::now();
                if is_full || now >= bucket.last + window.idle || now >= bucket.first + window.max {
                    break open.remove(&key);
                }
            };
            if let Some(closed) = closed {
                work.execute(key, closed).await;
            }
        });
    }
}

impl<K, I, O> Work<K, I, O> {
    async fn execute(&self, key: K, closed: Bucket<I, O>) {
        if let Some((metrics, name)) = &self.counted {
            metrics.batched(name, closed.items.len(), closed.first.elapsed());
        }
        // The semaphore is never closed; were it, the call would merely go unlimited.
        let _permit = self.running.acquire().await;
        let (items, replies): (Vec<I>, Vec<_>) = closed.items.into_iter().unzip();
        let answers = (self.run)(key, items).await;
        for (reply, answer) in replies.into_iter().zip(answers) {
            // A requester that went away needs no answer.
            let _ = reply.send(answer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    const WINDOW: Window = Window { idle: Duration::from_millis(100), max: Duration::from_secs(1), items: 5 };

    type Echo = Batcher<&'static str, u32, (u32, usize)>;

    /// Answers each request with itself and the size of its batch.
    fn echo(window: Window) -> (Echo, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let batcher = Batcher::new(window, move |_, items: Vec<u32>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let size = items.len();
            async move { items.into_iter().map(|i| (i, size)).collect() }.boxed()
        });
        (batcher, calls)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_one_window_share_a_call_and_each_gets_its_own_answer() {
        let (batcher, calls) = echo(WINDOW);
        let answers = join_all((0..4).map(|i| batcher.ask("k", i))).await;
        assert_eq!(answers, [Some((0, 4)), Some((1, 4)), Some((2, 4)), Some((3, 4))]);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_closes_after_its_idle_time() {
        let (batcher, _) = echo(WINDOW);
        let start = Instant::now();
        assert_eq!(batcher.ask("k", 1).await, Some((1, 1)));
        assert_eq!(start.elapsed(), WINDOW.idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_trickle_is_not_held_longer_than_the_longest_window() {
        let (batcher, calls) = echo(Window { items: 1000, ..WINDOW });
        let start = Instant::now();
        let trickle = (0..30).map(|i| {
            let batcher = &batcher;
            async move {
                sleep(Duration::from_millis(u64::from(i) * 50)).await;
                batcher.ask("k", i).await
            }
        });
        let sizes: Vec<usize> = join_all(trickle).await.into_iter().flatten().map(|(_, n)| n).collect();
        assert_eq!(sizes.len(), 30);
        assert_eq!(calls.load(Ordering::SeqCst), 2, "sizes {sizes:?}");
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_window_goes_at_once_and_the_next_one_opens() {
        let (batcher, calls) = echo(WINDOW);
        let start = Instant::now();
        let answers = join_all((0..12).map(|i| batcher.ask("k", i))).await;
        let sizes: Vec<usize> = answers.into_iter().flatten().map(|(_, n)| n).collect();
        assert_eq!(sizes, [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 2, 2]);
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        assert_eq!(start.elapsed(), WINDOW.idle);
    }

    #[tokio::test(start_paused = true)]
    async fn different_keys_never_share_a_call() {
        let (batcher, calls) = echo(WINDOW);
        let (a, b) = tokio::join!(batcher.ask("a", 1), batcher.ask("b", 2));
        assert_eq!((a, b), (Some((1, 1)), Some((2, 1))));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_requester_that_goes_away_takes_nobody_with_it() {
        let (batcher, _) = echo(WINDOW);
        let mut first = Box::pin(batcher.ask("k", 1));
        assert!(futures::poll!(first.as_mut()).is_pending());
        let second = batcher.ask("k", 2);
        drop(first);
        assert_eq!(second.await, Some((2, 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_left_without_an_answer_are_told() {
        let batcher: Batcher<(), u32, u32> =
            Batcher::new(WINDOW, |(), items| async move { items.into_iter().take(1).collect() }.boxed());
        let answers = join_all([batcher.ask((), 7), batcher.ask((), 8)]).await;
        assert_eq!(answers, [Some(7), None]);
    }
}
