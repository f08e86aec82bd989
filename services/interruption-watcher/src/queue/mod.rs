//! The consumer of the queue. Every replica has one; SQS gives each message to one of them at a time.
//!
//! ```text
//! find ──► receive, receive, … ──► batch: handle ──► delete / hide / give up
//!   ▲            │ an error
//!   └── wait ◄───┘
//! ```
//!
//! One receiver polls a quiet queue. A receiver that gets a full batch calls for another, up to a limit; those leave again
//! when the queue is empty.

mod batch;
mod disposition;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use cloud::queue::{QueueInfo, ReceiveOptions};
use cloud::{CloudError, ErrorKind, Queue};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use disposition::Handled;

use crate::decision::Home;
use crate::handler::Handler;
use crate::metrics::{Metrics, Reason};

/// Longest that SQS holds a poll open.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Of receivers beyond the first: they leave a queue that gives nothing for this long.
const SHORT_POLL: Duration = Duration::from_secs(1);
/// How long a message stays hidden unless it is extended: also the time that a killed consumer costs of the two minutes.
const VISIBILITY: Duration = Duration::from_secs(15);
const BATCH: u32 = 10;
const QUICKEST: Duration = Duration::from_secs(1);
/// A queue that is created again is read within this time.
const SLOWEST: Duration = Duration::from_secs(10);

/// What the consumer says about its queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) url: String,
    /// Empty when it is not known.
    pub(crate) arn: String,
    /// Why it is not read now; empty when it is.
    pub(crate) problem: String,
}

pub(crate) struct Consumer {
    pub(crate) queue: Arc<dyn Queue>,
    /// Name or URL.
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) event_accounts: Vec<String>,
    pub(crate) handler: Handler,
    pub(crate) metrics: Metrics,
    pub(crate) most_receivers: usize,
    /// After as many deliveries a message that is refused is given up.
    pub(crate) most_deliveries: u32,
    pub(crate) state: watch::Sender<State>,
    /// Shown by `/readyz`; a queue that is away does not make the service unready.
    pub(crate) note: runtime::readiness::Note,
}

/// Polls one queue.
#[derive(Clone)]
struct Receiver {
    queue: Arc<dyn Queue>,
    url: String,
    home: Arc<Home>,
    handler: Handler,
    metrics: Metrics,
    most_deliveries: u32,
    /// SQS moves what is received too often to a dead-letter queue.
    dead_letters: bool,
}

impl Consumer {
    pub(crate) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut waits = backoff();
        while !stop.is_cancelled() {
            let error = match self.queue.find(&self.name).await {
                Ok(found) => {
                    self.found(&found);
                    let (error, worked) = self.consume(found, &stop).await;
                    if worked {
                        waits = backoff();
                    }
                    error
                }
                Err(error) => Some(error),
            };
            let Some(error) = error else { break };
            self.lost(&error);
            let wait = waits.next().unwrap_or(SLOWEST);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        Ok(())
    }

    fn found(&self, found: &QueueInfo) {
        let recovered = self.state.send_if_modified(|state| {
            let now = State { url: found.url.clone(), arn: found.arn.clone(), problem: String::new() };
            let changed = *state != now;
            *state = now;
            changed
        });
        if recovered {
            tracing::info!(url = found.url, waiting = found.waiting, "reading the interruption queue");
        }
    }

    fn lost(&self, error: &CloudError) {
        let problem = format!("queue {:?}: {} ({})", self.name, advice(error.kind), error);
        for kind in REASONS {
            let labels = Reason { reason: kind };
            self.metrics.queue_problem.get_or_create(&labels).set(i64::from(kind == reason(error.kind)));
        }
        self.note.set(&problem);
        let news = self.state.send_if_modified(|state| {
            let changed = state.problem != problem;
            state.problem.clone_from(&problem);
            changed
        });
        if news {
            tracing::error!(problem, "the interruption queue cannot be read; retrying");
        }
    }

    /// A poll was answered, so the queue is there and ours to read.
    fn answered(&self) {
        self.note.clear();
        for kind in REASONS {
            self.metrics.queue_problem.get_or_create(&Reason { reason: kind }).set(0);
        }
    }

    /// Polls until `stop` (no error) or until a poll fails; tells also whether any poll was answered.
    async fn consume(&self, found: QueueInfo, stop: &CancellationToken) -> (Option<CloudError>, bool) {
        let home = Home {
            account: Home::account_of(&found.arn).to_owned(),
            region: self.region.clone(),
            also: self.event_accounts.clone(),
        };
        let receiver = Receiver {
            queue: Arc::clone(&self.queue),
            url: found.url,
            home: Arc::new(home),
            handler: self.handler.clone(),
            metrics: self.metrics.clone(),
            most_deliveries: self.most_deliveries,
            dead_letters: found.dead_letters,
        };
        let enough = stop.child_token();
        let signals = Arc::new(Signals::default());
        let mut receivers = JoinSet::new();
        let start = |receivers: &mut JoinSet<_>, is_first| {
            receivers.spawn(receiver.clone().poll(is_first, Arc::clone(&signals), enough.clone()));
            self.metrics.receivers.set(receivers.len() as i64);
        };
        start(&mut receivers, true);
        let (mut failure, mut worked) = (None, false);
        loop {
            tokio::select! {
                biased;
                ended = receivers.join_next() => {
                    self.metrics.receivers.set(receivers.len() as i64);
                    match ended {
                        None => break,
                        Some(Ok(Ok(()))) => {}
                        Some(Ok(Err(error))) => {
                            // The others finish what they have.
                            enough.cancel();
                            failure.get_or_insert(error);
                        }
                        // A panic ends the process, with its message.
                        Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
                    }
                }
                () = signals.answered.notified() => {
                    worked = true;
                    self.answered();
                }
                () = signals.busy.notified() => {
                    if receivers.len() < self.most_receivers && !enough.is_cancelled() {
                        start(&mut receivers, false);
                    }
                }
            }
        }
        (failure, worked)
    }
}

/// From the receivers to their owner.
#[derive(Default)]
struct Signals {
    /// A first poll came back, with or without messages.
    answered: Notify,
    /// A full batch: there is more.
    busy: Notify,
}

impl Receiver {
    async fn poll(
        self,
        is_first: bool,
        signals: Arc<Signals>,
        stop: CancellationToken,
    ) -> Result<(), CloudError> {
        let wait = if is_first { LONG_POLL } else { SHORT_POLL };
        // The first poll only proves that the queue can be read.
        let mut options =
            ReceiveOptions { max_messages: BATCH, wait: Duration::ZERO, visibility: VISIBILITY };
        loop {
            let messages = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                answer = self.queue.receive(&self.url, options) => answer?,
            };
            if options.wait.is_zero() {
                signals.answered.notify_one();
            } else if messages.is_empty() && !is_first {
                return Ok(());
            }
            options.wait = wait;
            if messages.len() >= BATCH as usize {
                signals.busy.notify_one();
            }
            self.work(messages).await;
        }
    }
}

const REASONS: [&str; 4] = ["not_found", "forbidden", "unreachable", "other"];

fn reason(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not_found",
        ErrorKind::Unauthorized => "forbidden",
        ErrorKind::Unreachable | ErrorKind::ServerFault | ErrorKind::Throttled => "unreachable",
        _ => "other",
    }
}

/// What a reader can do about it.
fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => {
            "there is no such queue in this region and account; create it, or correct settings.interruptionQueue"
        }
        ErrorKind::Unauthorized => {
            "this service's role may not read it; it needs sqs:GetQueueUrl, sqs:ReceiveMessage, sqs:DeleteMessage, sqs:ChangeMessageVisibility"
        }
        _ => "SQS does not answer as it should; nothing to do but wait",
    }
}

fn backoff() -> backon::ExponentialBackoff {
    // The library's jitter adds up to the delay itself.
    let builder =
        backon::ExponentialBuilder::default().with_min_delay(QUICKEST / 2).with_max_delay(SLOWEST / 2);
    builder.with_factor(2.0).without_max_times().with_jitter().build()
}
