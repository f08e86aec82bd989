//! What the owner of a pod should hear about its do-not-disrupt annotation.

use std::fmt;

use jiff::Timestamp;
use model::do_not_disrupt::{DoNotDisrupt, Protection};
use model::labels;

use crate::drain::Pod;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Neither `true` nor a positive duration; it protects nothing.
    Invalid(String),
    /// A duration that still runs.
    Until(Timestamp),
    /// A duration that is over.
    Elapsed(Timestamp),
}

impl Notice {
    /// Reason of the event.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "InvalidDoNotDisruptAnnotation",
            Self::Until(_) => "DoNotDisruptUntil",
            Self::Elapsed(_) => "DoNotDisruptGracePeriodElapsed",
        }
    }

    pub const fn is_warning(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = labels::DO_NOT_DISRUPT;
        match self {
            Self::Invalid(value) => write!(
                f,
                "{key}: {value:?} protects nothing; write \"true\" or a positive duration such as \"30m\""
            ),
            Self::Until(end) => write!(f, "{key} protects this pod until {end}"),
            Self::Elapsed(end) => write!(f, "{key} protected this pod until {end}; it may be disrupted now"),
        }
    }
}

pub fn notice(pod: &Pod, now: Timestamp) -> Option<Notice> {
    let time = |nanos| Timestamp::from_nanosecond(nanos).ok();
    match (&pod.do_not_disrupt, pod.protection(now)) {
        (DoNotDisrupt::Invalid(value), _) => Some(Notice::Invalid(value.clone())),
        (_, Protection::Until(end)) => time(end).map(Notice::Until),
        (_, Protection::Elapsed(end)) => time(end).map(Notice::Elapsed),
        (_, Protection::None | Protection::Open) => None,
    }
}
