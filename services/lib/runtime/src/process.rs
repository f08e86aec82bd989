//! The life of one process: critical tasks, signals, a grace period. It starts nothing on its own and knows no
//! service.
//!
//! Every long task is critical: when one fails, panics or simply returns while nobody asked it to stop, all others are
//! stopped and the process ends with an error, for Kubernetes to restart it.

use std::{future::Future, time::Duration};

use anyhow::{Context as _, anyhow};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The status of a process that a second signal ended before it had drained.
pub const EXIT_IMPATIENT: u8 = 130;

type Ended = Result<(&'static str, anyhow::Result<()>), JoinError>;

pub struct Process {
    stop: CancellationToken,
    tasks: JoinSet<(&'static str, anyhow::Result<()>)>,
    names: Vec<(tokio::task::Id, &'static str)>,
    grace: Duration,
}

impl Process {
    /// `grace` must stay below the pod's `terminationGracePeriodSeconds`.
    pub fn new(grace: Duration) -> Self {
        Self { stop: CancellationToken::new(), tasks: JoinSet::new(), names: Vec::new(), grace }
    }

    /// Runs a critical task. It must end soon after [`Process::stop`] is cancelled, and not before.
    pub fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let handle = self.tasks.spawn(async move { (name, task.await) });
        self.names.push((handle.id(), name));
    }

    /// Cancelled when the process is to take no more work.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs until SIGTERM, SIGINT, or the end of a task. `Ok` only after a signal.
    pub async fn run(self) -> anyhow::Result<()> {
        let signals = Signals::new()?;
        self.run_until(signals).await
    }

    /// As [`Process::run`], without signals: ends when someone cancels [`Process::stop`]. For tests that start services
    /// inside one process.
    pub async fn run_until_stopped(self) -> anyhow::Result<()> {
        self.run_until(Never).await
    }

    async fn run_until(mut self, mut signals: impl Interrupts) -> anyhow::Result<()> {
        let stop = self.stop.clone();
        let outcome = tokio::select! {
            name = signals.next() => { info!(signal = name, grace = ?self.grace, "stopping"); Ok(()) }
            () = stop.cancelled() => Ok(()),
            Some(ended) = self.tasks.join_next() => match self.judge(ended) {
                // A task that saw the same stop as we did may well be the first to return.
                Ok(_) if self.stop.is_cancelled() => Ok(()),
                Ok(name) => Err(anyhow!("task {name} ended although nobody asked it to stop")),
                Err(error) => Err(error),
            },
        };
        self.stop.cancel();

        let failed = tokio::select! {
            biased;
            failed = self.drain() => failed,
            name = signals.next() => {
                warn!(signal = name, "second signal, leaving without draining");
                std::process::exit(i32::from(EXIT_IMPATIENT));
            }
        };
        outcome.and(failed)
    }

    /// Waits for all tasks within the grace period; a failure while stopping counts, lateness is only reported.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + self.grace;
        let mut failed = Ok(());
        loop {
            match tokio::time::timeout_at(deadline, self.tasks.join_next()).await {
                Ok(Some(ended)) => {
                    if let Err(error) = self.judge(ended) {
                        warn!(error = format!("{error:#}"), "task failed while stopping");
                        failed = failed.and(Err(error));
                    }
                }
                Ok(None) => return failed,
                Err(_) => {
                    let late: Vec<_> = self.names.iter().map(|(_, name)| *name).collect();
                    warn!(grace = ?self.grace, ?late, "grace period over, leaving tasks behind");
                    return failed;
                }
            }
        }
    }

    fn judge(&mut self, ended: Ended) -> anyhow::Result<&'static str> {
        match ended {
            Ok((name, result)) => {
                if let Some(at) = self.names.iter().position(|(_, known)| *known == name) {
                    self.names.swap_remove(at);
                }
                result.with_context(|| format!("task {name}")).map(|()| name)
            }
            Err(error) => {
                let id = error.id();
                let at = self.names.iter().position(|(known, _)| *known == id);
                let name = at.map_or("unknown", |at| self.names.swap_remove(at).1);
                match error.try_into_panic() {
                    Ok(panic) => Err(anyhow!("task {name} panicked: {}", panic_text(panic.as_ref()))),
                    Err(error) => Err(anyhow!("task {name}: {error}")),
                }
            }
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

trait Interrupts {
    fn next(&mut self) -> impl Future<Output = &'static str> + Send;
}

struct Never;

impl Interrupts for Never {
    async fn next(&mut self) -> &'static str {
        std::future::pending().await
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listen for SIGINT")?,
        })
    }
}

impl Interrupts for Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    fn process() -> Process {
        Process::new(Duration::from_secs(5))
    }

    async fn idle(stop: CancellationToken) -> anyhow::Result<()> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_task_stops_the_others_and_its_error_is_the_outcome() {
        let mut process = process();
        let stopped = Arc::new(AtomicBool::new(false));
        let (seen, stop) = (stopped.clone(), process.stop());
        process.spawn("steady", async move {
            stop.cancelled().await;
            seen.store(true, Ordering::SeqCst);
            Ok(())
        });
        process.spawn("prices", async { Err(anyhow!("queue is gone")) });
        let error = process.run_until_stopped().await.unwrap_err();
        assert_eq!(format!("{error:#}"), "task prices: queue is gone");
        assert!(stopped.load(Ordering::SeqCst), "the other task was told to stop and waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_names_the_task_and_carries_the_message() {
        let mut process = process();
        process.spawn("steady", idle(process.stop()));
        process.spawn("solver", async { panic!("index 7 is missing") });
        let error = process.run_until_stopped().await.unwrap_err();
        assert_eq!(format!("{error:#}"), "task solver panicked: index 7 is missing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_returns_unasked_is_an_error() {
        let mut process = process();
        process.spawn("steady", idle(process.stop()));
        process.spawn("watch", async { Ok(()) });
        let error = process.run_until_stopped().await.unwrap_err();
        assert_eq!(format!("{error:#}"), "task watch ended although nobody asked it to stop");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_lets_every_task_finish_and_is_no_error() {
        let mut process = process();
        let (stop, done) = (process.stop(), Arc::new(AtomicBool::new(false)));
        let finished = done.clone();
        process.spawn("writer", async move {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(4)).await;
            finished.store(true, Ordering::SeqCst);
            Ok(())
        });
        process.stop().cancel();
        process.run_until_stopped().await.unwrap();
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_never_ends_is_left_behind_after_the_grace_period() {
        let mut process = process();
        process.spawn("stuck", std::future::pending());
        process.stop().cancel();
        let began = tokio::time::Instant::now();
        process.run_until_stopped().await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }
}
