//! Callers without end against one service, switched on and off while it works.
//!
//! The flood has a thread of its own with the lowest priority, and a bound on its calls: on a machine that the caller, the callee
//! and the API server share, callers without either would show what a scheduler does with three busy programs, not what the callee
//! does about its callers.

use std::future::Future;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// No call takes longer than this.
const SLOWEST: Duration = Duration::from_secs(30);

/// One call with its number.
pub(super) type Call = Arc<dyn Fn(Channel, u64) -> BoxFuture<'static, Result<(), Status>> + Send + Sync>;

/// What one kind of caller does.
pub(super) struct Callers {
    pub(super) call: Call,
    pub(super) connections: usize,
    /// On each connection; each waits for its answer.
    pub(super) at_once: usize,
    /// From one call of a caller to its next.
    pub(super) every: Duration,
}

#[derive(Default)]
struct Counts {
    made: AtomicU64,
    answered: AtomicU64,
    crowded: AtomicU64,
}

/// Silent at first. Ends when it is dropped.
pub(super) struct Flood {
    counts: Arc<Counts>,
    state: watch::Sender<State>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Silent,
    Loud,
    Ended,
}

impl Flood {
    pub(super) fn new(endpoint: Endpoint, callers: Vec<Callers>) -> Self {
        let (state, counts) = (watch::Sender::new(State::Silent), Arc::<Counts>::default());
        let (seen, counted) = (state.subscribe(), Arc::clone(&counts));
        let thread = std::thread::spawn(move || run(&endpoint, callers, &seen, &counted));
        Self { counts, state, thread: Some(thread) }
    }

    pub(super) fn set_loud(&self, loud: bool) {
        self.state.send_replace(if loud { State::Loud } else { State::Silent });
    }

    /// Calls made, calls answered with what was asked for, and calls refused because one caller has too many.
    pub(super) fn counts(&self) -> [u64; 3] {
        let Counts { made, answered, crowded } = &*self.counts;
        [made, answered, crowded].map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn end(mut self) -> Result<()> {
        self.state.send_replace(State::Ended);
        let thread = self.thread.take().context("it runs")?;
        thread.join().map_err(|_| anyhow!("the flood panicked"))?
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.state.send_replace(State::Ended);
    }
}

fn run(
    endpoint: &Endpoint,
    callers: Vec<Callers>,
    state: &watch::Receiver<State>,
    counts: &Arc<Counts>,
) -> Result<()> {
    yield_to_others()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut calling = JoinSet::new();
        for callers in callers {
            for _ in 0..callers.connections {
                let channel = endpoint.connect().await.context("connect")?;
                for _ in 0..callers.at_once {
                    let (call, state, counts) = (callers.call.clone(), state.clone(), counts.clone());
                    calling.spawn(call_without_end(call, channel.clone(), callers.every, state, counts));
                }
            }
        }
        while calling.join_next().await.is_some() {}
        Ok(())
    })
}

/// On Linux a thread has a priority of its own.
fn yield_to_others() -> Result<()> {
    let path = std::fs::read_link("/proc/thread-self").context("find this thread")?;
    let thread = path.file_name().context("<process>/task/<thread>")?;
    let mut command = Command::new("renice");
    command.args(["-n", "19", "-p"]).arg(thread).stdout(Stdio::null());
    ensure!(command.status().context("run renice")?.success(), "{command:?} failed");
    Ok(())
}

async fn call_without_end(
    call: Call,
    channel: Channel,
    every: Duration,
    mut state: watch::Receiver<State>,
    counts: Arc<Counts>,
) {
    let mut pace = tokio::time::interval(every);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        match state.wait_for(|state| *state != State::Silent).await {
            Ok(state) if *state == State::Loud => {}
            _ => return,
        }
        pace.tick().await;
        let number = counts.made.fetch_add(1, Ordering::Relaxed);
        let ended = state.wait_for(|state| *state == State::Ended);
        let count = match unless(ended, call(channel.clone(), number)).await {
            Some(Ok(())) => &counts.answered,
            Some(Err(status)) if status.code() == Code::ResourceExhausted => &counts.crowded,
            Some(Err(_)) => continue,
            None => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The answer, unless the flood ends before it comes.
async fn unless(
    ended: impl Future,
    answer: impl Future<Output = Result<(), Status>>,
) -> Option<Result<(), Status>> {
    tokio::select! {
        biased;
        _ = ended => None,
        answer = tokio::time::timeout(SLOWEST, answer) => {
            Some(answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))))
        }
    }
}
