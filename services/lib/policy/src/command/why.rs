//! Why a command is taken back.

use std::fmt;
use std::sync::Arc;

use super::Invalid;
use crate::candidate::Blocked;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The second look found something else.
    Invalid(Invalid),
    /// Something holds a member now.
    Blocked {
        node: Arc<str>,
        by: Blocked,
    },
    /// A pod that must move came after the decision.
    Landed {
        node: Arc<str>,
        pod: String,
    },
    /// A member was removed by somebody else before its replacement was ready.
    MemberLost,
    /// A replacement failed or was removed.
    ReplacementLost {
        claim: Option<Arc<str>>,
    },
    /// The API server refuses a replacement, or the provisioner does.
    ReplacementRefused {
        error: String,
    },
    /// A write to a member failed as often as it was tried.
    Refused {
        node: Arc<str>,
        error: String,
    },
    /// The members' pods could not be read quickly enough to act on.
    ReadTooSlowly {
        seconds: i64,
    },
    TimedOut {
        minutes: i64,
    },
    /// A person asked for it.
    Cancelled,
    /// Another process began it and left before everything was taken and ordered.
    Abandoned,
}

impl Why {
    /// Stable name, for metrics and programs.
    pub const fn rule(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "validation",
            Self::Blocked { .. } => "blocked",
            Self::Landed { .. } => "pod-landed",
            Self::MemberLost => "member-lost",
            Self::ReplacementLost { .. } => "replacement-lost",
            Self::ReplacementRefused { .. } => "replacement-refused",
            Self::Refused { .. } => "write-refused",
            Self::ReadTooSlowly { .. } => "read-too-slowly",
            Self::TimedOut { .. } => "timed-out",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }

    /// The pool needs a cool-down before the same is tried again: what failed is likely to fail again.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::ReplacementLost { .. } | Self::ReplacementRefused { .. } | Self::TimedOut { .. })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => write!(f, "the second look: {invalid}"),
            Self::Blocked { node, by } => write!(f, "node {node}: {by}"),
            Self::Landed { node, pod } => {
                write!(f, "pod {pod} landed on node {node} after the decision")
            }
            Self::MemberLost => f.write_str("one of its nodes was removed by somebody else"),
            Self::ReplacementLost { claim: Some(claim) } => {
                write!(f, "replacement {claim} failed or was removed")
            }
            Self::ReplacementLost { claim: None } => f.write_str("a replacement is gone"),
            Self::ReplacementRefused { error } => write!(f, "its replacement was refused: {error}"),
            Self::Refused { node, error } => {
                write!(f, "node {node} or its NodeClaim cannot be written: {error}")
            }
            Self::ReadTooSlowly { seconds } => {
                write!(f, "the pods of its nodes could not be read within {seconds} seconds")
            }
            Self::TimedOut { minutes } => {
                write!(f, "replacements were not initialized within {minutes} minutes")
            }
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Abandoned => f.write_str("it was begun by a process that is gone, and is not complete"),
        }
    }
}
