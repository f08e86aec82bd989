//! What a refusal costs whom. Answered at once, refusals cost a stranger nothing and this service all the processor time that the
//! stranger likes: so beyond a rate each is held back before it is answered, and whoever waits for the answer calls no faster. An
//! address that does not wait, and has more refusals held than it may, loses its connection.

use std::time::Duration;

use super::{listen::Peer, places::Places, rate::PerSecond};

#[derive(Clone, Copy, Debug)]
pub(crate) struct PacingLimits {
    /// Refusals that are answered at once, in a second.
    pub(crate) at_once: u32,
    pub(crate) held_for: Duration,
    pub(crate) most_held: usize,
    /// Of the calls of one address. Less than [`super::server`] allows on one connection, as a held call costs memory.
    pub(crate) held_of_one: usize,
}

impl Default for PacingLimits {
    fn default() -> Self {
        Self { at_once: 50, held_for: Duration::from_secs(1), most_held: 1024, held_of_one: 256 }
    }
}

pub(crate) struct Pacing {
    at_once: PerSecond,
    held: Places,
    held_for: Duration,
}

impl Pacing {
    pub(crate) fn new(limits: PacingLimits) -> Self {
        Self {
            at_once: PerSecond::new(limits.at_once),
            held: Places::new(limits.most_held, limits.held_of_one),
            held_for: limits.held_for,
        }
    }

    /// Returns when the refusal of a call of `peer` may be answered. Closes the connection where no more calls may be held.
    pub(crate) async fn hold(&self, peer: &Peer) {
        if self.at_once.take() {
            return;
        }
        match self.held.take(peer.address()) {
            Some(_place) => tokio::time::sleep(self.held_for).await,
            None if peer.close() => {
                tracing::debug!(from = %peer.address(), "connection closed: too many refused calls");
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use tokio::{task::JoinSet, time::Instant};

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::new(IpAddr::from([10, 0, 0, last]))
    }

    /// As many callers as one address may have held, each calling again as soon as it is answered.
    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_are_slowed_to_about_one_call_a_second_each() {
        let limits = PacingLimits::default();
        let (pacing, began) = (Arc::new(Pacing::new(limits)), Instant::now());
        let mut callers = JoinSet::new();
        for _ in 0..limits.held_of_one {
            let pacing = Arc::clone(&pacing);
            callers.spawn(async move {
                let (peer, mut answered) = (peer(1), 0);
                while began.elapsed() < Duration::from_secs(60) {
                    pacing.hold(&peer).await;
                    answered += 1;
                }
                assert!(!peer.is_closed(), "whoever waits keeps the connection");
                answered
            });
        }
        let answered: usize = callers.join_all().await.into_iter().sum();
        let most = 61 * (limits.held_of_one + 50);
        assert!(answered <= most, "{answered} refusals in a minute, {most} at most");
    }

    #[tokio::test(start_paused = true)]
    async fn who_calls_on_without_waiting_loses_the_connection_and_nobody_else_does() {
        let limits = PacingLimits::default();
        let pacing = Arc::new(Pacing::new(limits));
        let (flood, other) = (peer(1), peer(2));
        let mut held = JoinSet::new();
        for _ in 0..limits.held_of_one + 50 {
            let (pacing, flood) = (Arc::clone(&pacing), flood.clone());
            held.spawn(async move { pacing.hold(&flood).await });
        }
        // All of them are on their way, none is answered yet but those at once.
        tokio::task::yield_now().await;
        while held.try_join_next().is_some() {}
        assert!(!flood.is_closed());
        pacing.hold(&flood).await;
        assert!(flood.is_closed());
        pacing.hold(&other).await;
        assert!(!other.is_closed());
        let again = Peer::new(flood.address());
        pacing.hold(&again).await;
        assert!(!again.is_closed(), "the held calls were answered meanwhile");
    }
}
