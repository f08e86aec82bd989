//! Why and how a node is disrupted voluntarily: the closed lists that budgets, commands, metrics and events are keyed by.

use std::fmt;
use std::str::FromStr;

/// What budgets name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Empty,
    Drifted,
    Underutilized,
}

impl Reason {
    pub const ALL: [Self; 3] = [Self::Empty, Self::Drifted, Self::Underutilized];

    /// As the API writes it: in budgets, in the DisruptionReason condition, in budget metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }

    /// As decision and claim metrics label it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Drifted => "drifted",
            Self::Underutilized => "underutilized",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not the name of a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not known here", self.0)
    }
}

impl std::error::Error for Unknown {}

impl FromStr for Reason {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        Self::ALL.into_iter().find(|r| r.as_str() == text).ok_or_else(|| Unknown(text.to_owned()))
    }
}

/// Whether a method may start while pods hold the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Never.
    Graceful,
    /// If the claim's terminationGracePeriod bounds the wait.
    Eventual,
}

/// In the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Emptiness,
    /// Drift of a pool with a fixed number of nodes.
    StaticDrift,
    Drift,
    /// Several nodes by at most one.
    MultiNode,
    /// Any number of nodes by any number, where the pool opted in.
    ManyForMany,
    SingleNode,
}

impl Method {
    pub const ALL: [Self; 6] = [
        Self::Emptiness,
        Self::StaticDrift,
        Self::Drift,
        Self::MultiNode,
        Self::ManyForMany,
        Self::SingleNode,
    ];

    pub const fn reason(self) -> Reason {
        match self {
            Self::Emptiness => Reason::Empty,
            Self::StaticDrift | Self::Drift => Reason::Drifted,
            Self::MultiNode | Self::ManyForMany | Self::SingleNode => Reason::Underutilized,
        }
    }

    pub const fn class(self) -> Class {
        match self {
            Self::StaticDrift | Self::Drift => Class::Eventual,
            _ => Class::Graceful,
        }
    }

    /// Metric label `consolidation_type`. Replacing several by several is a kind of multi-node consolidation.
    pub const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::MultiNode | Self::ManyForMany => "multi",
            Self::SingleNode => "single",
        }
    }

    /// As people and the gRPC contract name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Emptiness => "emptiness",
            Self::StaticDrift => "static-drift",
            Self::Drift => "drift",
            Self::MultiNode => "multi",
            Self::ManyForMany => "n-to-m",
            Self::SingleNode => "single",
        }
    }

    /// Seconds between finding a command and acting on it, at whose end everything is looked at again. Drift needs no
    /// second look: what it removes is wrong, not merely dear.
    pub const fn validation_seconds(self) -> i64 {
        match self {
            Self::StaticDrift | Self::Drift => 0,
            _ => 15,
        }
    }

    /// A part of the proposed nodes may go when the others can no longer: nothing was planned for them together.
    pub const fn may_shrink(self) -> bool {
        matches!(self, Self::Emptiness)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        Self::ALL.into_iter().find(|m| m.as_str() == text).ok_or_else(|| Unknown(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_labelled_as_the_references_metrics_are() {
        let labels = |method: Method| (method.reason().label(), method.consolidation_type());
        assert_eq!(labels(Method::Emptiness), ("empty", "empty"));
        assert_eq!(labels(Method::SingleNode), ("underutilized", "single"));
        assert_eq!(labels(Method::MultiNode), ("underutilized", "multi"));
        assert_eq!(labels(Method::ManyForMany), ("underutilized", "multi"));
        assert_eq!(labels(Method::Drift), ("drifted", ""));
        assert_eq!(labels(Method::StaticDrift), ("drifted", ""));
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for method in Method::ALL {
            assert_eq!(method.as_str().parse(), Ok(method));
        }
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert!("Expired".parse::<Reason>().is_err());
        assert!("empty".parse::<Reason>().is_err(), "the API's spelling counts");
    }

    // Cases: EMP-19, MUL-4
    #[test]
    fn only_drift_may_start_against_pods_and_without_a_second_look() {
        for method in Method::ALL {
            let drift = method.reason() == Reason::Drifted;
            assert_eq!(method.class() == Class::Eventual, drift, "{method}");
            assert_eq!(method.validation_seconds() == 0, drift, "{method}");
        }
    }
}
