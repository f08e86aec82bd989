//! What becomes of a message after it was looked at. Pure.

use std::time::Duration;

/// How handling ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Everything it asks for is stored.
    Done,
    /// Nothing is wrong; look again after this time.
    Later(Duration),
    /// Somebody else is away. Not the message's fault, however often it happens.
    Away(String),
    /// Refused for what it asks for.
    Refused(String),
    /// Will never be understood.
    Malformed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disposition {
    Delete,
    /// All is well; visible again after this time.
    Later(Duration),
    /// Handling failed; visible again after this time.
    Return(Duration),
    /// Visible again soon, until SQS has moved it to the queue's dead-letter queue.
    LeaveToSqs(String),
    /// Deleted with its body in the log: it will never be understood.
    Remove(String),
    /// Deleted with its body in the log: it was tried often enough.
    GiveUp(String),
}

/// The first wait; an interruption leaves two minutes.
const QUICKEST: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_secs(20);

/// `deliveries` counts this one; after `most` of them a refused message is given up. With `dead_letters` nothing is deleted
/// unhandled: SQS moves it when it was received as often as the queue's redrive policy says.
pub(crate) fn disposition(handled: Handled, deliveries: u32, most: u32, dead_letters: bool) -> Disposition {
    match handled {
        Handled::Malformed(why) if dead_letters => Disposition::LeaveToSqs(why),
        Handled::Refused(why) if dead_letters && deliveries >= most => Disposition::LeaveToSqs(why),
        Handled::Done => Disposition::Delete,
        Handled::Later(after) => Disposition::Later(after),
        Handled::Malformed(why) => Disposition::Remove(why),
        Handled::Refused(why) if deliveries >= most => {
            Disposition::GiveUp(format!("refused {deliveries} times, last: {why}"))
        }
        Handled::Refused(_) | Handled::Away(_) => Disposition::Return(wait(deliveries)),
    }
}

fn wait(deliveries: u32) -> Duration {
    let doublings = deliveries.saturating_sub(1).min(10);
    (QUICKEST * (1 << doublings)).min(SLOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 5;

    #[test]
    fn what_is_done_is_deleted_and_what_waits_comes_back() {
        assert_eq!(disposition(Handled::Done, 9, MOST, false), Disposition::Delete);
        let after = Duration::from_secs(5);
        assert_eq!(disposition(Handled::Later(after), 500, MOST, false), Disposition::Later(after));
    }

    #[test]
    fn an_absent_peer_never_costs_a_message() {
        for deliveries in [0, 1, 5, 100, u32::MAX] {
            let Disposition::Return(after) =
                disposition(Handled::Away("termination".into()), deliveries, MOST, false)
            else {
                panic!("given up after {deliveries}")
            };
            assert!((QUICKEST..=SLOWEST).contains(&after), "{after:?}");
        }
        assert_eq!(
            disposition(Handled::Away(String::new()), 1, MOST, false),
            Disposition::Return(Duration::from_secs(1))
        );
        assert_eq!(
            disposition(Handled::Away(String::new()), 4, MOST, false),
            Disposition::Return(Duration::from_secs(8))
        );
    }

    #[test]
    fn a_message_that_is_refused_again_and_again_is_given_up_with_the_reason() {
        let refused = || Handled::Refused("no such field".into());
        assert!(matches!(disposition(refused(), MOST - 1, MOST, false), Disposition::Return(_)));
        let Disposition::GiveUp(why) = disposition(refused(), MOST, MOST, false) else { panic!("kept") };
        assert!(why.contains("5 times") && why.contains("no such field"), "{why}");
    }

    #[test]
    fn with_a_dead_letter_queue_nothing_is_deleted_unhandled() {
        let left = |handled, deliveries| disposition(handled, deliveries, MOST, true);
        assert_eq!(left(Handled::Malformed("x".into()), 1), Disposition::LeaveToSqs("x".into()));
        assert!(matches!(left(Handled::Refused("x".into()), MOST - 1), Disposition::Return(_)));
        assert_eq!(left(Handled::Refused("x".into()), MOST), Disposition::LeaveToSqs("x".into()));
        assert_eq!(left(Handled::Done, 9), Disposition::Delete);
    }

    #[test]
    fn a_malformed_message_is_removed_at_once() {
        assert_eq!(
            disposition(Handled::Malformed("x".into()), 1, MOST, false),
            Disposition::Remove("x".into())
        );
    }
}
