//! Why a claim was not launched, in the terms its owner acts on.

use cloud::error::{CloudError, ErrorKind};
use cloud::unavailable::Scope;

/// Conditions hold no more of a message.
const LONGEST_MESSAGE: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct LaunchError {
    pub kind: Failure,
    /// Of condition Launched, in the reference's words.
    pub reason: &'static str,
    pub message: String,
    /// What was found to be unavailable and has been reported already.
    pub unavailable: Vec<Scope>,
}

/// What is to be done with the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nothing that the claim allows can be had: delete it, its pods are planned anew.
    InsufficientCapacity,
    /// The class cannot be used: delete the claim; the pool is not ready either.
    NodeClassNotReady,
    /// Keep the claim with Launched=Unknown and try again with backoff.
    Retryable,
    /// The claim itself can never be launched: delete it.
    Terminal,
}

impl LaunchError {
    pub fn new(kind: Failure, reason: &'static str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > LONGEST_MESSAGE {
            let end = (0..=LONGEST_MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
        }
        Self { kind, reason, message, unavailable: Vec::new() }
    }

    pub fn insufficient(message: impl Into<String>) -> Self {
        Self::new(Failure::InsufficientCapacity, "InsufficientCapacity", message)
    }

    pub fn not_ready(message: impl Into<String>) -> Self {
        Self::new(Failure::NodeClassNotReady, "NodeClassNotReady", message)
    }

    pub fn retryable(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Failure::Retryable, reason, message)
    }

    /// A call failed as a whole: the claim is kept and tried again, whatever the cause.
    pub fn of_call(error: &CloudError) -> Self {
        let (reason, advice) = error.launch_reason();
        let told = match reason.as_str() {
            "LaunchFailed" => error.to_string(),
            _ => format!("{error} ({advice})"),
        };
        Self::retryable(reason.as_str(), told)
    }
}

/// Whether a failed call may have launched something all the same.
pub(super) fn outcome_unknown(error: &CloudError) -> bool {
    matches!(error.kind, ErrorKind::ServerFault | ErrorKind::Unreachable | ErrorKind::Malformed)
}
