//! The annotation `karpenter.sh/do-not-disrupt` of a pod: for good, for a while after its start, or not understood.
//!
//! Only what the value means. Who asks, and which events are published, belongs to disruption. On nodes the annotation
//! knows `true` only.

use crate::duration::GoDuration;
use crate::labels;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// No annotation.
    Absent,
    /// `true`.
    Always,
    /// A positive span, counted from the pod's start.
    For(GoDuration),
    /// Anything else. It protects nothing, and its owner should be told.
    Invalid(String),
}

/// Whether a pod is protected at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    None,
    /// For good, or with a span whose start is not known yet.
    Open,
    /// Until this moment, in nanoseconds of the caller's clock.
    Until(i128),
    /// A span that was over at this moment.
    Elapsed(i128),
}

impl Protection {
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Open | Self::Until(_))
    }
}

impl DoNotDisrupt {
    /// From the annotation's value, if there is one.
    #[must_use]
    pub fn parse(value: Option<&str>) -> Self {
        match value {
            None => Self::Absent,
            Some(labels::TRUE) => Self::Always,
            Some(text) => match text.parse::<GoDuration>() {
                Ok(span) if span.nanos() > 0 => Self::For(span),
                _ => Self::Invalid(text.to_owned()),
            },
        }
    }

    /// `started` and `now` are nanoseconds since the same moment. The end itself is no longer protected.
    #[must_use]
    pub fn at(&self, started: Option<i128>, now: i128) -> Protection {
        match self {
            Self::Absent | Self::Invalid(_) => Protection::None,
            Self::Always => Protection::Open,
            Self::For(span) => match started.map(|start| start.saturating_add(i128::from(span.nanos()))) {
                None => Protection::Open,
                Some(end) if now < end => Protection::Until(end),
                Some(end) => Protection::Elapsed(end),
            },
        }
    }
}
