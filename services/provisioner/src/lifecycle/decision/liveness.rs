//! How long a claim may take. Counted from the last change of the condition's status, which for a fresh claim is its creation:
//! new reasons of failure do not start it anew.

use jiff::{SignedDuration, Timestamp};

/// How long launch and registration may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) launch: SignedDuration,
    pub(crate) registration: SignedDuration,
}

impl Default for Limits {
    /// The reference's.
    fn default() -> Self {
        Self { launch: SignedDuration::from_mins(5), registration: SignedDuration::from_mins(15) }
    }
}

/// Which limit was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    Launch,
    Registration,
}

impl Expired {
    /// Value of label `reason` of the metric of disrupted claims.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Launch => "launch_timeout",
            Self::Registration => "registration_timeout",
        }
    }
}

pub(super) fn deadline(since: Option<Timestamp>, limit: SignedDuration) -> Option<Timestamp> {
    since.and_then(|since| since.checked_add(limit).ok())
}
