//! Gathers pods that wait into windows: a window opens with the first, closes when no new one came for a while or when it has
//! been open for long. Knows nothing of pods but their identity.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, field};

/// Something needs a place: a pod by its UID, or the pods of a node that goes, by its name.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) uid: Arc<str>,
    /// Do not wait for others: a launch failed, and its pods have waited already.
    pub(crate) urgent: bool,
    /// The trace to continue: that of the node that goes.
    pub(crate) trace: Option<Arc<str>>,
}

/// A closed window.
pub(crate) struct Window {
    /// The trace of all nodes that come of it; it began with the first pod.
    pub(crate) span: Span,
    pub(crate) opened: Instant,
    pub(crate) closed: Instant,
    pub(crate) size: usize,
}

/// What the batcher hands over.
pub(crate) struct Batches {
    pub(crate) windows: mpsc::Receiver<Window>,
    /// Changes when nothing has come into an open window for a part of the idle time: it will probably stay as it is.
    pub(crate) lulls: watch::Receiver<u64>,
}

/// Of the idle time: after so much of it a lull is announced.
const LULL: u32 = 5;

pub(crate) struct Batcher {
    triggers: mpsc::Receiver<Trigger>,
    /// Capacity one: a window waits for the decision before it, and takes in what comes meanwhile.
    windows: mpsc::Sender<Window>,
    lulls: watch::Sender<u64>,
    idle: Duration,
    longest: Duration,
}

impl Batcher {
    pub(crate) fn new(
        triggers: mpsc::Receiver<Trigger>,
        idle: Duration,
        longest: Duration,
    ) -> (Self, Batches) {
        let (windows, closed) = mpsc::channel(1);
        let (lulls, announced) = watch::channel(0);
        (Self { triggers, windows, lulls, idle, longest }, Batches { windows: closed, lulls: announced })
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let first = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(first) = self.triggers.recv() => first,
            };
            let span = tracing::info_span!(parent: None, "provision", pods = field::Empty, nodeclaims = field::Empty);
            if let Some(trace) = &first.trace {
                runtime::trace::set_parent(&span, trace);
            }
            let opened = Instant::now();
            let batch = tracing::info_span!(parent: &span, "batch", pods = field::Empty);
            let size = self.gather(first, opened).instrument(batch).await;
            span.record("pods", size);
            let window = Window { span, opened, closed: Instant::now(), size };
            if !self.hand_over(window, &stop).await {
                return Ok(());
            }
        }
    }

    async fn gather(&mut self, first: Trigger, opened: Instant) -> usize {
        let mut seen = BTreeSet::from([first.uid]);
        let mut urgent = first.urgent;
        let mut last = opened;
        let mut announced = false;
        while !urgent {
            let end = (last + self.idle).min(opened + self.longest);
            let until = if announced { end } else { end.min(last + self.idle / LULL) };
            match tokio::time::timeout_at(until, self.triggers.recv()).await {
                Ok(Some(next)) => {
                    urgent = next.urgent;
                    if seen.insert(next.uid) {
                        last = Instant::now();
                        announced = false;
                    }
                }
                Err(_) if until < end => {
                    announced = true;
                    self.lulls.send_modify(|count| *count += 1);
                }
                Ok(None) | Err(_) => break,
            }
        }
        Span::current().record("pods", seen.len());
        seen.len()
    }

    /// What comes while nobody takes the window is part of it: the decision reads the cluster as it is then.
    async fn hand_over(&mut self, window: Window, stop: &CancellationToken) -> bool {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                place = self.windows.reserve() => match place {
                    Ok(place) => {
                        place.send(window);
                        return true;
                    }
                    Err(_) => return false,
                },
                Some(_) = self.triggers.recv() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        triggers: mpsc::Sender<Trigger>,
        windows: mpsc::Receiver<Window>,
        lulls: watch::Receiver<u64>,
        stop: CancellationToken,
    }

    fn start() -> Bench {
        let (triggers, inbox) = mpsc::channel(64);
        let stop = CancellationToken::new();
        let (batcher, Batches { windows, lulls }) =
            Batcher::new(inbox, Duration::from_secs(1), Duration::from_secs(10));
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(batcher.run(stop.clone()));
        Bench { triggers, windows, lulls, stop }
    }

    impl Bench {
        async fn send(&self, uid: &str, urgent: bool) {
            self.triggers.send(Trigger { uid: Arc::from(uid), urgent, trace: None }).await.unwrap();
        }
    }

    // Cases: SCH-A.1-1, SCH-A.1-3
    #[tokio::test(start_paused = true)]
    async fn a_window_closes_when_nothing_new_came_for_the_idle_time() {
        let mut bench = start();
        let began = Instant::now();
        bench.send("a", false).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        bench.send("b", false).await;
        let window = bench.windows.recv().await.unwrap();
        assert_eq!(window.size, 2);
        assert_eq!(began.elapsed(), Duration::from_millis(1600));
        bench.stop.cancel();
    }

    // Cases: SCH-A.1-2
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_is_in_the_window_already_does_not_hold_it_open() {
        let mut bench = start();
        let began = Instant::now();
        bench.send("a", false).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        bench.send("a", false).await;
        assert_eq!(bench.windows.recv().await.unwrap().size, 1);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        bench.stop.cancel();
    }

    // Cases: SCH-A.1-3
    #[tokio::test(start_paused = true)]
    async fn a_steady_stream_of_pods_is_cut_at_the_longest_time() {
        let mut bench = start();
        let began = Instant::now();
        for n in 0..20 {
            bench.send(&n.to_string(), false).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        let window = bench.windows.recv().await.unwrap();
        assert_eq!(window.closed.duration_since(window.opened), Duration::from_secs(10));
        assert_eq!(window.size, 15);
        assert!(began.elapsed() >= Duration::from_secs(10));
        bench.stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_pod_closes_the_window_at_once() {
        let mut bench = start();
        let began = Instant::now();
        bench.send("a", false).await;
        bench.send("b", true).await;
        assert_eq!(bench.windows.recv().await.unwrap().size, 2);
        assert_eq!(began.elapsed(), Duration::ZERO);
        bench.stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lull_is_announced_once_while_the_window_is_open_and_again_after_another_pod() {
        let mut bench = start();
        let began = Instant::now();
        bench.send("a", false).await;
        bench.lulls.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_millis(200));
        bench.send("b", false).await;
        bench.lulls.changed().await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_millis(400));
        assert_eq!(bench.windows.recv().await.unwrap().size, 2);
        assert!(!bench.lulls.has_changed().unwrap());
        bench.stop.cancel();
    }
}
