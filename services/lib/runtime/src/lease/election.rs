//! The rules of leader election, without clock or network: what to do with the Lease that was read, and until when this
//! replica may call itself leader.
//!
//! Why there is never more than one leader: a leader's claim ends `renew_deadline` after it *began* its last successful
//! write, by its own clock. Another replica takes a Lease over only when it has seen it unchanged for the whole
//! `lease_duration`, counted from when it *noticed* that write, which is later than its beginning. So claims overlap only if one
//! clock runs faster than another by more than `lease_duration / renew_deadline` (one and a half). Clocks are compared with
//! themselves only, so it does not matter what time they show. Every write names the version that was read, and the API server
//! refuses it when somebody else was quicker.

use std::time::Duration;

/// A reading of a clock that only goes forward; the zero is anywhere.
pub(super) type Moment = Duration;

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry: Duration,
}

impl Default for Timing {
    /// As in client-go.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease_duration: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

/// What matters of a Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Empty when its holder gave it back.
    pub holder: String,
    /// Changes with every write.
    pub version: String,
    /// As its holder wrote it; a holder with other settings than ours is given the time it counts on.
    pub duration: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Create,
    /// Write ourselves in, over the version that was read. `taking`: the holder changes with it.
    Write {
        taking: bool,
    },
    /// Someone else holds it. Look again after the retry period.
    Wait,
}

#[derive(Clone, Debug)]
pub struct Election {
    me: String,
    timing: Timing,
    /// The last version seen of somebody else's Lease, and when it was first seen.
    watched: Option<(String, Moment)>,
    renewed: Option<Moment>,
}

impl Election {
    pub fn new(me: impl Into<String>, timing: Timing) -> Self {
        Self { me: me.into(), timing, watched: None, renewed: None }
    }

    /// What to do about the Lease as it was just read.
    pub fn decide(&mut self, now: Moment, lease: Option<&Seen>) -> Move {
        let Some(lease) = lease else {
            self.renewed = None;
            return Move::Create;
        };
        if lease.holder == self.me {
            return Move::Write { taking: false };
        }
        // Whatever we thought before, it is not ours.
        self.renewed = None;
        if lease.holder.is_empty() {
            return Move::Write { taking: true };
        }
        match &self.watched {
            Some((version, since)) if *version == lease.version => {
                let patience = lease.duration.max(self.timing.lease_duration);
                if now.saturating_sub(*since) >= patience { Move::Write { taking: true } } else { Move::Wait }
            }
            _ => {
                self.watched = Some((lease.version.clone(), now));
                Move::Wait
            }
        }
    }

    /// The write that began at `began` was accepted.
    pub fn written(&mut self, began: Moment) {
        self.renewed = Some(began);
        self.watched = None;
    }

    /// The Lease was given back, or is no longer wanted.
    pub fn resign(&mut self) {
        self.renewed = None;
    }

    /// Until when this replica leads, if nothing else happens.
    pub fn leads_until(&self) -> Option<Moment> {
        self.renewed.map(|renewed| renewed + self.timing.renew_deadline)
    }

    pub fn leads(&self, now: Moment) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held_by(holder: &str, version: u64) -> Seen {
        Seen { holder: holder.into(), version: version.to_string(), duration: seconds(15) }
    }

    #[test]
    fn a_missing_lease_is_created_and_a_returned_one_taken_at_once() {
        let mut me = Election::new("me", Timing::default());
        assert_eq!(me.decide(seconds(0), None), Move::Create);
        assert_eq!(me.decide(seconds(0), Some(&held_by("", 4))), Move::Write { taking: true });
    }

    #[test]
    fn a_holder_that_stops_renewing_is_replaced_after_the_lease_duration_and_not_before() {
        let mut me = Election::new("me", Timing::default());
        let lease = held_by("other", 1);
        assert_eq!(me.decide(seconds(100), Some(&lease)), Move::Wait);
        assert_eq!(me.decide(seconds(114), Some(&lease)), Move::Wait);
        assert_eq!(me.decide(seconds(115), Some(&lease)), Move::Write { taking: true });
        assert_eq!(me.decide(seconds(116), Some(&held_by("other", 2))), Move::Wait, "it renewed after all");
        assert_eq!(
            me.decide(seconds(130), Some(&held_by("other", 2))),
            Move::Wait,
            "and the count starts over"
        );
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_leading_before_anybody_may_take_over() {
        let mut me = Election::new("me", Timing::default());
        me.written(seconds(50));
        assert!(me.leads(seconds(59)));
        assert!(!me.leads(seconds(60)));
    }

    #[test]
    fn a_leader_that_sees_another_holder_stops_leading_at_once() {
        let mut me = Election::new("me", Timing::default());
        me.written(seconds(50));
        assert_eq!(me.decide(seconds(51), Some(&held_by("other", 9))), Move::Wait);
        assert!(!me.leads(seconds(51)));
    }

    #[test]
    fn a_holder_that_asked_for_more_time_gets_it() {
        let mut me = Election::new("me", Timing::default());
        let lease = Seen { duration: seconds(60), ..held_by("other", 1) };
        me.decide(seconds(0), Some(&lease));
        assert_eq!(me.decide(seconds(59), Some(&lease)), Move::Wait);
        assert_eq!(me.decide(seconds(60), Some(&lease)), Move::Write { taking: true });
    }

    /// A replica in the model: its election, its clock (rate in percent, offset), and a request that is on its way.
    struct Replica {
        election: Election,
        rate: u64,
        offset: u64,
        request: Option<Request>,
        answer: Option<Answer>,
    }

    struct Request {
        began: Moment,
        kind: Kind,
    }

    enum Kind {
        Read,
        Write { over: Option<u64> },
        Release { over: u64 },
    }

    enum Answer {
        Lease(Option<Seen>),
        Written(Moment),
        Refused,
        Lost,
    }

    impl Replica {
        fn clock(&self, now: u64) -> Moment {
            Duration::from_millis(self.offset + now * self.rate / 100)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Real time passes.
        Pass(u64),
        /// A replica that is doing nothing reads the Lease.
        Read(usize),
        /// The API server handles the replica's request.
        Handle(usize),
        /// ... and its answer does, or does not, arrive.
        Deliver(usize, bool),
        /// A replica gives the Lease back, having stopped its work first.
        Resign(usize),
    }

    const REPLICAS: usize = 3;

    fn step() -> impl Strategy<Value = Step> {
        let who = 0..REPLICAS;
        prop_oneof![
            3 => (0u64..6_000).prop_map(Step::Pass),
            4 => who.clone().prop_map(Step::Read),
            5 => who.clone().prop_map(Step::Handle),
            5 => (who.clone(), prop::bool::weighted(0.85)).prop_map(|(who, arrives)| Step::Deliver(who, arrives)),
            1 => who.prop_map(Step::Resign),
        ]
    }

    /// The API server: one object, and writes that must name the version they replace.
    #[derive(Default)]
    struct Server {
        lease: Option<(String, u64)>,
        versions: u64,
    }

    impl Server {
        fn write(&mut self, holder: &str, over: Option<u64>) -> bool {
            let accepted = self.lease.as_ref().map(|(_, version)| *version) == over;
            if accepted {
                self.versions += 1;
                self.lease = Some((holder.to_owned(), self.versions));
            }
            accepted
        }
    }

    fn run(steps: &[Step], clocks: &[(u64, u64)]) -> Result<usize, TestCaseError> {
        let mut server = Server::default();
        let mut replicas: Vec<Replica> = clocks
            .iter()
            .enumerate()
            .map(|(number, (rate, offset))| Replica {
                election: Election::new(format!("r{number}"), Timing::default()),
                rate: *rate,
                offset: *offset,
                request: None,
                answer: None,
            })
            .collect();
        let (mut now, mut terms) = (0u64, 0);
        for step in steps {
            match *step {
                Step::Pass(millis) => now += millis,
                Step::Read(who) => {
                    let replica = &mut replicas[who];
                    if replica.request.is_none() && replica.answer.is_none() {
                        replica.request = Some(Request { began: replica.clock(now), kind: Kind::Read });
                    }
                }
                Step::Handle(who) => {
                    let replica = &mut replicas[who];
                    if let Some(Request { began, kind }) = replica.request.take() {
                        let me = format!("r{who}");
                        replica.answer = Some(match kind {
                            Kind::Read => Answer::Lease(server.lease.as_ref().map(|(h, v)| held_by(h, *v))),
                            Kind::Write { over } if server.write(&me, over) => Answer::Written(began),
                            Kind::Release { over } => {
                                server.write("", Some(over));
                                Answer::Refused
                            }
                            Kind::Write { .. } => Answer::Refused,
                        });
                    }
                }
                Step::Deliver(who, arrives) => {
                    let clock = replicas[who].clock(now);
                    let replica = &mut replicas[who];
                    let answer =
                        replica.answer.take().map(|answer| if arrives { answer } else { Answer::Lost });
                    match answer {
                        Some(Answer::Lease(lease)) => {
                            let over = lease.as_ref().map(|lease| lease.version.parse().unwrap());
                            if replica.election.decide(clock, lease.as_ref()) != Move::Wait {
                                replica.request = Some(Request { began: clock, kind: Kind::Write { over } });
                            }
                        }
                        Some(Answer::Written(began)) => {
                            terms += usize::from(!replica.election.leads(clock));
                            replica.election.written(began);
                        }
                        Some(Answer::Refused | Answer::Lost) | None => {}
                    }
                }
                Step::Resign(who) => {
                    let clock = replicas[who].clock(now);
                    let replica = &mut replicas[who];
                    let version = server.lease.as_ref().filter(|(holder, _)| *holder == format!("r{who}"));
                    if let (true, None, Some((_, over))) =
                        (replica.election.leads(clock), &replica.request, version)
                    {
                        // Whoever gives it back waits for no answer any more.
                        replica.answer = None;
                        replica.election.resign();
                        replica.request = Some(Request { began: clock, kind: Kind::Release { over: *over } });
                    }
                }
            }
            let leaders: Vec<usize> = (0..replicas.len())
                .filter(|who| replicas[*who].election.leads(replicas[*who].clock(now)))
                .collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?} lead at the same time, {now} ms");
        }
        Ok(terms)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// Requests may be slow, reordered between replicas, refused, or answered into the void; clocks differ by up to 20 %
        /// in rate and by anything in what they show.
        #[test]
        fn there_is_never_more_than_one_leader(
            steps in prop::collection::vec(step(), 1..200),
            clocks in prop::collection::vec((90u64..110, 0u64..1_000_000), REPLICAS),
        ) {
            run(&steps, &clocks)?;
        }
    }

    #[test]
    fn the_model_elects_somebody_so_the_property_is_not_empty() {
        let round = |who| {
            [
                Step::Read(who),
                Step::Handle(who),
                Step::Deliver(who, true),
                Step::Handle(who),
                Step::Deliver(who, true),
            ]
        };
        let mut steps = round(0).to_vec();
        steps.extend([Step::Resign(0), Step::Handle(0), Step::Deliver(0, true)]);
        steps.extend(round(1));
        steps.extend(round(2));
        steps.push(Step::Pass(16_000));
        steps.extend(round(2));
        assert_eq!(run(&steps, &[(100, 0); REPLICAS]).unwrap(), 3, "first, after release, after expiry");
    }
}
