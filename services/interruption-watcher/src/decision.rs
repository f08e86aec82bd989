//! What a warning about one of our nodes asks for. Pure: the warning, the claim and the policy in, a decision out, with the reason
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
    /// Drain after a rebalance recommendation, once a replacement is ready. Otherwise it only causes an event.
    pub(crate) drain_on_rebalance: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing is done; the text says why.
    Nothing(&'static str),
    /// The claim is to be deleted and drained; at `deadline` PodDisruptionBudgets no longer hold.
    Drain { deadline: Option<Timestamp> },
    /// The same with a deadline of now.
    TerminateNow { at: Timestamp },
    /// A replacement first, then a drain.
    Replace,
}

/// Deletion is there already, and with it everything this decision would add.
pub(crate) const REMOVED_ALREADY: &str = "it is being removed already";

/// `at`: when the warning was given, never later than now. `past_budgets`: PodDisruptionBudgets may be passed, because EC2
/// itself says that the instance ends; a message alone never suffices for that.
pub(crate) fn decide(
    kind: Kind,
    at: Timestamp,
    claim: &Claim,
    policy: Policy,
    past_budgets: bool,
) -> Decision {
    if !claim.managed {
        return Decision::Nothing("its NodeClaim is not of an EC2NodeClass and not ours to end");
    }
    let decision = match kind {
        Kind::NoOp => return Decision::Nothing("the message needs no action"),
        Kind::RebalanceRecommendation if policy.drain_on_rebalance => Decision::Replace,
        Kind::RebalanceRecommendation => {
            return Decision::Nothing(
                "rebalance recommendations only cause an event (--drain-on-rebalance is off)",
            );
        }
        Kind::InstanceStatus | Kind::SystemStatus if past_budgets => Decision::TerminateNow { at },
        _ => Decision::Drain { deadline: kind.end(at).filter(|_| past_budgets) },
    };
    if !claim.deleting {
        return decision;
    }
    // What our own drains end comes back as a state change; it needs nothing more.
    let deadline = match (&decision, kind) {
        (_, Kind::InstanceStopped | Kind::InstanceTerminated) => None,
        (Decision::Drain { deadline }, _) => *deadline,
        (Decision::TerminateNow { at }, _) => Some(*at),
        (Decision::Replace | Decision::Nothing(_), _) => None,
    };
    match deadline {
        // A drain that is under way must hurry now.
        Some(new) if claim.deadline.is_none_or(|old| whole_seconds(new) < whole_seconds(old)) => decision,
        _ => Decision::Nothing(REMOVED_ALREADY),
    }
}

/// Deadlines are stored in whole seconds.
fn whole_seconds(at: Timestamp) -> i64 {
    at.as_second()
}

/// The offering that EC2 has shown to be short of, with the reason to report.
pub(crate) fn shortage(kind: Kind, claim: &Claim) -> Option<(Scope, &'static str)> {
    let named = !claim.instance_type.is_empty() && !claim.zone.is_empty();
    let spot = || Scope::offering(CapacityType::Spot, &claim.instance_type, &claim.zone);
    match kind {
        Kind::SpotInterrupted if named => Some((spot(), "SpotInterruption")),
        // None of our services ended it, so EC2 took it back without (or before) a warning.
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

/// Where messages for us come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Home {
    /// The queue's account; empty when its ARN cannot be read, and then no account is refused.
    pub(crate) account: String,
    pub(crate) region: String,
    /// Other accounts whose messages count, for an event bus that serves several.
    pub(crate) also: Vec<String>,
}

/// Why a message is not acted on although it names an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `account` or `region`, for the metric.
    pub(crate) reason: &'static str,
    pub(crate) words: String,
}

impl Home {
    /// The account that a queue's ARN names: `arn:aws:sqs:<region>:<account>:<name>`.
    pub(crate) fn account_of(arn: &str) -> &str {
        arn.split(':').nth(4).unwrap_or_default()
    }

    /// A message of another region or account cannot be about our instances, and one that names none proves nothing.
    pub(crate) fn refuses(&self, message: &Message) -> Option<Refusal> {
        if message.region != self.region {
            let words = format!("it is from region {:?}, this cluster is in {}", message.region, self.region);
            return Some(Refusal { reason: "region", words });
        }
        let accepted = self.account.is_empty()
            || message.account == self.account
            || self.also.contains(&message.account);
        (!accepted).then(|| {
            let words = format!(
                "it is from account {:?}, the queue is of {}; --event-accounts names accounts that are accepted too",
                message.account, self.account
            );
            Refusal { reason: "account", words }
        })
    }
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
