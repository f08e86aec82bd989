//! What a warning about one of our nodes asks for. Pure: the warning, the claim and the policy in, an order out, with the reason
//! wherever nothing is done.

use cloud::unavailable::Scope;
use jiff::Timestamp;
use model::catalog::CapacityType;
use model::labels;

use crate::claims::Claim;
use crate::message::{Kind, Message};

/// What may be chosen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    /// Drain after a rebalance recommendation, once a replacement is ready. Otherwise it is only told.
    pub(crate) drain_on_rebalance: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Only told; the words say why.
    Nothing(&'static str),
    /// The claim is to be deleted and drained; at `deadline` budgets stop to count.
    Drain { deadline: Option<Timestamp> },
    /// The same with a deadline of now.
    TerminateNow { at: Timestamp },
    /// A replacement first, then a drain.
    Replace,
}

/// Deletion is there already, and with it everything this order would add.
pub(crate) const REMOVED_ALREADY: &str = "it is being removed already";

/// `at`: when the warning was given, never later than now.
pub(crate) fn order(kind: Kind, at: Timestamp, claim: &Claim, policy: Policy) -> Order {
    if !claim.managed {
        return Order::Nothing("its NodeClaim is not of an EC2NodeClass and not ours to end");
    }
    let order = match kind {
        Kind::NoOp => return Order::Nothing("the message asks for nothing"),
        Kind::RebalanceRecommendation if policy.drain_on_rebalance => Order::Replace,
        Kind::RebalanceRecommendation => {
            return Order::Nothing("a recommendation is only told (--drain-on-rebalance is off)");
        }
        Kind::InstanceStatus | Kind::SystemStatus => Order::TerminateNow { at },
        _ => Order::Drain { deadline: kind.end(at) },
    };
    if !claim.deleting {
        return order;
    }
    // What our own drains end comes back as a state change; it is no news.
    let deadline = match (&order, kind) {
        (_, Kind::InstanceStopped | Kind::InstanceTerminated) => None,
        (Order::Drain { deadline }, _) => *deadline,
        (Order::TerminateNow { at }, _) => Some(*at),
        (Order::Replace | Order::Nothing(_), _) => None,
    };
    match deadline {
        // A drain that is under way must hurry now.
        Some(new) if claim.deadline.is_none_or(|old| whole_seconds(new) < whole_seconds(old)) => order,
        _ => Order::Nothing(REMOVED_ALREADY),
    }
}

/// Deadlines are stored in whole seconds.
fn whole_seconds(at: Timestamp) -> i64 {
    at.as_second()
}

/// What EC2 has shown to be short of, with the reason for the mark.
pub(crate) fn shortage(kind: Kind, claim: &Claim) -> Option<(Scope, &'static str)> {
    let named = !claim.instance_type.is_empty() && !claim.zone.is_empty();
    let spot = || Scope::offering(CapacityType::Spot, &claim.instance_type, &claim.zone);
    match kind {
        Kind::SpotInterrupted if named => Some((spot(), "SpotInterruption")),
        // Nobody of ours ended it, so EC2 took it back without (or before) a warning.
        Kind::InstanceStopped | Kind::InstanceTerminated
            if named && &*claim.capacity_type == labels::SPOT && !claim.deleting =>
        {
            Some((spot(), "SpotInterruption"))
        }
        Kind::CapacityReservationInterrupted if !claim.reservation.is_empty() => {
            Some((Scope::reservation(&claim.reservation), "CapacityReservationInterruption"))
        }
        _ => None,
    }
}

/// Where messages for us come from; empty fields are not known and match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) account: String,
    pub(crate) region: String,
}

impl Home {
    /// The account that a queue's ARN names: `arn:aws:sqs:<region>:<account>:<name>`.
    pub(crate) fn account_of(arn: &str) -> &str {
        arn.split(':').nth(4).unwrap_or_default()
    }

    /// Why a message cannot be about our instances, although it names one.
    pub(crate) fn rejects(&self, message: &Message) -> Option<String> {
        let differs = |own: &str, its: &str| !own.is_empty() && !its.is_empty() && own != its;
        if differs(&self.region, &message.region) {
            return Some(format!("it is from region {}, we are in {}", message.region, self.region));
        }
        if differs(&self.account, &message.account) {
            return Some(format!("it is from account {}, the queue is of {}", message.account, self.account));
        }
        None
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
