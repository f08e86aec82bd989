//! Handing claims over to termination. One actor, so that duplicates of a warning, which arrive together, become one call:
//! a caller who wants what is under way already waits for the same answer, and one who comes soon after gets it at once.
//!
//! An answer means that the deletion is stored in the API server.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proto::termination::v1::termination_client::TerminationClient;
use proto::termination::v1::{TerminateRequest, TerminateResponse};
use proto::types::v1::ObjectRef;
use runtime::grpc::{Caller, errors};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tracing::{Instrument as _, Span};

use crate::claims::Claim;

const MAILBOX: usize = 1024;
/// Calls under way at once; more would only wait in termination.
const AT_ONCE: usize = 64;
const DEADLINE: Duration = Duration::from_secs(10);
/// Answers that are remembered for those who ask again before the watch has shown the deletion.
const REMEMBERED: usize = 4096;

/// Where the calls go; the real one is termination's leader.
pub(crate) trait Termination: Send + Sync + 'static {
    fn terminate(
        &self,
        request: TerminateRequest,
    ) -> impl Future<Output = Result<TerminateResponse, Status>> + Send;
}

impl Termination for Caller {
    async fn terminate(&self, request: TerminateRequest) -> Result<TerminateResponse, Status> {
        let mut client = TerminationClient::new(self.clone().deadline(DEADLINE));
        client.terminate(request).await.map(tonic::Response::into_inner)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Removal {
    pub(crate) claim: Arc<Claim>,
    pub(crate) reason: &'static str,
    pub(crate) deadline: Option<Timestamp>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The deletion is stored, and this removal caused it.
    Removed,
    /// It had been deleted before.
    Already,
    /// There is no such claim any more; a namesake was left alone.
    Gone,
}

/// Why it was not done.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// Termination is away, or has no leader: the same call may succeed soon.
    Away(String),
    /// It was refused, and may be refused again.
    Refused(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Away(words) | Self::Refused(words)) = self;
        f.write_str(words)
    }
}

type Answer = Result<Outcome, Failure>;
/// In whole seconds, as it is stored. `None`: the claim's own grace period decides.
type Deadline = Option<i64>;

struct Request {
    removal: Removal,
    span: Span,
    reply: oneshot::Sender<Answer>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handover {
    mailbox: mpsc::Sender<Request>,
}

impl Handover {
    /// Returns when the deletion is stored, or cannot be now. The call is part of the current span's trace.
    pub(crate) async fn remove(&self, removal: Removal) -> Answer {
        let stopping = || Failure::Away("the process is stopping".to_owned());
        let (reply, answer) = oneshot::channel();
        let asked = Request { removal, span: Span::current(), reply };
        self.mailbox.send(asked).await.map_err(|_| stopping())?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }
}

/// A call under way for one claim.
struct Call {
    deadline: Deadline,
    waiting: Vec<oneshot::Sender<Answer>>,
    /// Those who want an earlier end than this call asks for.
    next: Vec<Request>,
}

pub(crate) struct Actor<T> {
    termination: Arc<T>,
    mailbox: mpsc::Receiver<Request>,
    /// By uid of the claim.
    under_way: HashMap<Arc<str>, Call>,
    done: HashMap<Arc<str>, (Outcome, Deadline)>,
    /// Keys of `done`, oldest first.
    order: VecDeque<Arc<str>>,
    calls: JoinSet<(Arc<str>, Answer)>,
}

impl<T: Termination> Actor<T> {
    pub(crate) fn new(termination: T) -> (Self, Handover) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let actor = Self {
            termination: Arc::new(termination),
            mailbox,
            under_way: HashMap::new(),
            done: HashMap::new(),
            order: VecDeque::new(),
            calls: JoinSet::new(),
        };
        (actor, Handover { mailbox: sender })
    }

    /// Ends when no caller is left, so that what was asked for before `stop` is still done.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                Some(ended) = self.calls.join_next() => {
                    let (uid, answer) = ended?;
                    self.ended(uid, &answer);
                }
                asked = self.mailbox.recv(), if self.calls.len() < AT_ONCE => match asked {
                    Some(asked) => self.asked(asked),
                    None => break,
                },
            }
        }
        while let Some(ended) = self.calls.join_next().await {
            let (uid, answer) = ended?;
            self.ended(uid, &answer);
        }
        stop.cancelled().await;
        Ok(())
    }

    fn asked(&mut self, asked: Request) {
        let uid = Arc::clone(&asked.removal.claim.uid);
        let deadline = asked.removal.deadline.map(|at| at.as_second());
        if let Some((outcome, in_force)) = self.done.get(&uid)
            && (*outcome == Outcome::Gone || is_met(deadline, *in_force))
        {
            // The first to ask was the one who removed it.
            answer(asked.reply, &Ok(again(*outcome)));
            return;
        }
        if let Some(call) = self.under_way.get_mut(&uid) {
            if is_met(deadline, call.deadline) {
                call.waiting.push(asked.reply);
            } else {
                call.next.push(asked);
            }
            return;
        }
        let Request { removal, span, reply } = asked;
        self.under_way.insert(Arc::clone(&uid), Call { deadline, waiting: vec![reply], next: Vec::new() });
        let termination = Arc::clone(&self.termination);
        let call = async move {
            let answered = termination.terminate(request(&removal)).await;
            (uid, answered.map(|response| stored(&response)).or_else(failed))
        };
        self.calls.spawn(call.instrument(span));
    }

    fn ended(&mut self, uid: Arc<str>, ended: &Answer) {
        let Some(call) = self.under_way.remove(&uid) else { return };
        if let Ok(outcome) = ended {
            if self.done.insert(Arc::clone(&uid), (*outcome, call.deadline)).is_none() {
                self.order.push_back(uid);
            }
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.done.remove(&oldest);
            }
        }
        let others = ended.clone().map(again);
        for (at, reply) in call.waiting.into_iter().enumerate() {
            answer(reply, if at == 0 { ended } else { &others });
        }
        for asked in call.next {
            self.asked(asked);
        }
    }
}

/// Whether a removal with a deadline `in_force` does all that one with `required` would.
fn is_met(required: Deadline, in_force: Deadline) -> bool {
    match (required, in_force) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(required), Some(in_force)) => in_force <= required,
    }
}

fn again(outcome: Outcome) -> Outcome {
    if outcome == Outcome::Removed { Outcome::Already } else { outcome }
}

fn answer(reply: oneshot::Sender<Answer>, outcome: &Answer) {
    // The caller may have gone away.
    let _ = reply.send(outcome.clone());
}

fn request(removal: &Removal) -> TerminateRequest {
    let claim = &removal.claim;
    let timestamp = |at: Timestamp| prost_types::Timestamp { seconds: at.as_second(), nanos: 0 };
    TerminateRequest {
        node_claim: Some(ObjectRef { name: claim.name.to_string(), uid: claim.uid.to_string() }),
        reason: removal.reason.to_owned(),
        deadline: removal.deadline.map(timestamp),
    }
}

fn stored(response: &TerminateResponse) -> Outcome {
    if response.already_deleting { Outcome::Already } else { Outcome::Removed }
}

/// Which refusals are an answer, which are a matter of time, and which are about this claim.
fn failed(status: Status) -> Answer {
    let words = format!("termination: {}", status.message());
    match (status.code(), errors::reason(&status).as_deref()) {
        // The claim that was meant is gone. (NOT_FOUND is not that: its watch may be behind ours.)
        (Code::FailedPrecondition, Some("UID_MISMATCH")) => Ok(Outcome::Gone),
        (Code::FailedPrecondition, Some("NOT_LEADER"))
        | (
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::ResourceExhausted
            // Rights and tokens are not the message's fault.
            | Code::Unauthenticated
            | Code::PermissionDenied,
            _,
        ) => Err(Failure::Away(words)),
        _ => Err(Failure::Refused(words)),
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
