//! Carrying out what a warning asks for, about one claim: Events, reports of unavailable offerings, hand-over. Every step may be repeated without effect,
//! so that a message may come twice and this process may die between any two of them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tracing::Instrument as _;

use crate::claims::Claim;
use crate::decision::{self, Decision};
use crate::events::Events;
use crate::handover::{Failure, Handover, Outcome, Removal};
use crate::journal::Done;
use crate::message::Kind;
use crate::metrics::{Disrupted, Metrics};
use crate::replacements::{Replacements, Step};
use crate::unavailable::UnavailableReports;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Actions {
    pub(crate) handover: Handover,
    pub(crate) unavailable: UnavailableReports,
    pub(crate) replacements: Replacements,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
}

/// A warning about one claim.
pub(crate) struct Warning<'a> {
    pub(crate) kind: Kind,
    pub(crate) claim: &'a Arc<Claim>,
    pub(crate) decision: Decision,
    /// EventBridge's id; empty for polled status.
    pub(crate) id: &'a str,
    /// What else AWS said.
    pub(crate) words: &'a str,
}

/// How far it is.
#[derive(Debug)]
pub(crate) struct ActionResult {
    pub(crate) done: Done,
    pub(crate) detail: String,
    pub(crate) progress: Result<Progress, Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// What was to be done is stored.
    Finished,
    /// Look again after this time.
    Later(Duration),
}

impl Actions {
    /// One span of the node's trace.
    pub(crate) async fn carry_out(&self, warning: Warning<'_>) -> ActionResult {
        let Warning { kind, claim, .. } = &warning;
        let span = tracing::info_span!(
            parent: None,
            "interruption",
            kind = kind.as_str(),
            instance = &*claim.instance,
            nodeclaim = &*claim.name,
            message = warning.id,
        );
        if let Some(traceparent) = &claim.traceparent {
            runtime::trace::set_parent(&span, traceparent);
        }
        self.steps(warning).instrument(span).await
    }

    async fn steps(&self, warning: Warning<'_>) -> ActionResult {
        let Warning { kind, claim, decision, words, .. } = warning;
        self.events.warned(kind, claim, words);
        let report: OptionFuture<_> = decision::shortage(kind, claim)
            .map(|(scope, reason)| self.unavailable.report(scope, reason))
            .into();
        // Side by side: the provisioner gathers for a second before it decides, so the report is there in time.
        let (reported, mut acted) = tokio::join!(report, self.follow(kind, claim, decision));
        if reported == Some(false) {
            acted.detail.push_str("; the unavailable offering could not be reported to pricing-cache yet");
        }
        acted
    }

    async fn follow(&self, kind: Kind, claim: &Arc<Claim>, decision: Decision) -> ActionResult {
        let (done, deadline) = match decision {
            Decision::Nothing(why) => return finished(Done::Nothing, why.to_owned()),
            Decision::Drain { deadline } => (Done::Drain, deadline),
            Decision::TerminateNow { at } => (Done::TerminateNow, Some(at)),
            Decision::Replace => match self.replacements.step(claim).await {
                Ok(Step::Ready) => (Done::Drain, None),
                Ok(Step::Waiting(after)) => {
                    let detail = "waiting for its replacement to be ready".to_owned();
                    return ActionResult {
                        done: Done::Nothing,
                        detail,
                        progress: Ok(Progress::Later(after)),
                    };
                }
                Ok(Step::Impossible(why)) => return finished(Done::Nothing, why),
                Err(failure) => return failed(failure),
            },
        };
        let removal = Removal { claim: Arc::clone(claim), reason: kind.as_str(), deadline };
        match self.handover.remove(removal).await {
            Ok(Outcome::Removed) => {
                self.events.removing(kind, claim);
                let labels = Disrupted {
                    reason: kind.as_str(),
                    nodepool: claim.nodepool.to_string(),
                    capacity_type: claim.capacity_type.to_string(),
                };
                self.metrics.disrupted.get_or_create(&labels).inc();
                tracing::info!(
                    kind = kind.as_str(),
                    nodeclaim = &*claim.name,
                    instance = &*claim.instance,
                    "nodeclaim handed over to termination"
                );
                finished(done, until(deadline))
            }
            Ok(Outcome::Already) => {
                finished(done, format!("{}{}", decision::REMOVED_ALREADY, hurried(deadline)))
            }
            Ok(Outcome::Gone) => finished(Done::Nothing, "its NodeClaim is gone".to_owned()),
            Err(failure) => failed(failure),
        }
    }
}

fn until(deadline: Option<jiff::Timestamp>) -> String {
    deadline.map_or_else(String::new, |at| format!("budgets count until {}", seconds(at)))
}

fn hurried(deadline: Option<jiff::Timestamp>) -> String {
    deadline.map_or_else(String::new, |at| format!(", by {} at the latest", seconds(at)))
}

fn seconds(at: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn finished(done: Done, detail: String) -> ActionResult {
    ActionResult { done, detail, progress: Ok(Progress::Finished) }
}

fn failed(failure: Failure) -> ActionResult {
    ActionResult { done: Done::Nothing, detail: failure.to_string(), progress: Err(failure) }
}
