//! One message from the queue: read, looked up, judged, carried out, written into the journal. Also `Replay`, which stops
//! before the carrying out.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use cloud::queue::Message as Delivery;
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::actions::{ActionResult, Actions, Progress, Warning};
use crate::claims::{Claim, Claims};
use crate::confirm::Confirmations;
use crate::decision::{self, Decision, Home, Policy, Refusal};
use crate::handover::Failure;
use crate::journal::{Done, Entry, Journal};
use crate::message::{Kind, Message, parse};
use crate::metrics::{MessageType, Metrics, Reason};
use crate::queue::Handled;

const MALFORMED: &str = "malformed";
/// Malformed messages whose ids are remembered: each comes at least twice, and is counted once.
const REMEMBERED: usize = 1024;
const UNCONFIRMED: &str = "EC2 has not confirmed it, so budgets hold";

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) claims: Claims,
    pub(crate) actions: Actions,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) policy: Policy,
    pub(crate) confirmations: Confirmations,
    pub(crate) malformed: Malformed,
}

/// Ids of malformed messages that were counted, the newest last. How often SQS has delivered one does not tell: a delivery can be
/// lost on its way. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Malformed(Arc<Mutex<VecDeque<String>>>);

impl Malformed {
    fn is_news(&self, id: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|other| other == id) {
            return false;
        }
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back(id.to_owned());
        true
    }
}

/// When a batch arrived, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) at: Timestamp,
    pub(crate) on: Instant,
}

impl Received {
    pub(crate) fn now() -> Self {
        Self { at: Timestamp::now(), on: Instant::now() }
    }
}

impl Handler {
    /// Returns when everything the message asks for is stored, or cannot be now.
    pub(crate) async fn handle(&self, delivery: &Delivery, home: &Home, received: Received) -> Handled {
        let message = match parse(&delivery.body) {
            Ok(message) => message,
            Err(malformed) => {
                let detail = malformed.to_string();
                // It comes again until SQS moves it to a dead-letter queue.
                if self.malformed.is_news(&delivery.id) {
                    self.count(MALFORMED);
                    self.journal.record(Entry { detail: detail.clone(), ..blank(received) }).await;
                }
                return Handled::Malformed(detail);
            }
        };
        self.count(message.kind.as_str());
        let entry = Entry {
            id: message.id.clone(),
            kind: Some(message.kind),
            instances: message.instances.clone(),
            event_time: message.time,
            ..blank(received)
        };
        let claims = match self.concerned(&message, home).await {
            Ok(claims) => claims,
            Err(Unconcerned::Because(detail)) => {
                self.finish(&message, Entry { detail, ..entry }, received).await;
                return Handled::Done;
            }
            Err(Unconcerned::Refused(refusal)) => {
                self.refused(&message, &refusal);
                self.finish(&message, Entry { detail: refusal.words, ..entry }, received).await;
                return Handled::Done;
            }
            Err(Unconcerned::Stopping) => return Handled::Away("the process is stopping".to_owned()),
        };
        let at = message.time.or(delivery.sent_at).unwrap_or(received.at).min(received.at);
        let confirmed = self.confirmed(message.kind, &claims).await;
        let is_unconfirmed = message.kind.ends_instance() && confirmed.len() < claims.len();
        if is_unconfirmed {
            self.metrics.unconfirmed.inc();
        }
        let acts = claims.iter().map(|claim| {
            let past_budgets = confirmed.contains(&*claim.instance);
            let decision = decision::decide(message.kind, at, claim, self.policy, past_budgets);
            let (id, words) = (message.id.as_str(), message.words.as_str());
            self.actions.carry_out(Warning { kind: message.kind, claim, decision, id, words })
        });
        let acted = join_all(acts).await;
        let (done, mut detail) = summary(&claims, &acted);
        if is_unconfirmed && done != Done::Nothing {
            detail = [detail.as_str(), UNCONFIRMED]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("; ");
        }
        let handled = together(acted);
        let entry = Entry { claims, done, detail, ..entry };
        match handled {
            Handled::Done => {
                if done != Done::Nothing {
                    self.metrics.handling.observe(received.on.elapsed().as_secs_f64());
                }
                self.finish(&message, entry, received).await;
            }
            _ => self.journal.record(Entry { handled_in: received.on.elapsed(), ..entry }).await,
        }
        handled
    }

    /// What a body means and what would be done about it. Does nothing.
    pub(crate) async fn explain(&self, body: &str, home: &Home) -> Explained {
        let nothing = |kind, instances, words| Explained {
            kind,
            instances,
            claims: Vec::new(),
            done: Done::Nothing,
            words,
        };
        let message = match parse(body) {
            Ok(message) => message,
            Err(malformed) => {
                let words = format!("Malformed: {malformed}. It would be counted, logged once and removed.");
                return nothing(None, Vec::new(), words);
            }
        };
        let kind = Some(message.kind);
        let claims = match self.concerned(&message, home).await {
            Ok(claims) => claims,
            Err(Unconcerned::Because(why) | Unconcerned::Refused(Refusal { words: why, .. })) => {
                return nothing(kind, message.instances, format!("Nothing would be done: {why}."));
            }
            Err(Unconcerned::Stopping) => {
                return nothing(kind, message.instances, "This replica is stopping; ask another.".to_owned());
            }
        };
        let now = Timestamp::now();
        let at = message.time.unwrap_or(now).min(now);
        let mut most = Done::Nothing;
        let mut words = Vec::new();
        let confirmed = self.confirmed(message.kind, &claims).await;
        for claim in &claims {
            let past_budgets = confirmed.contains(&*claim.instance);
            let decision = decision::decide(message.kind, at, claim, self.policy, past_budgets);
            let (done, verdict) = match decision {
                Decision::Nothing(why) => (Done::Nothing, format!("nothing would be done: {why}")),
                Decision::Drain { deadline: None } => (Done::Drain, "it would be drained".to_owned()),
                Decision::Drain { deadline: Some(at) } => {
                    (Done::Drain, format!("it would be drained, with budgets respected until {at}"))
                }
                Decision::TerminateNow { .. } => {
                    (Done::TerminateNow, "it would be terminated now".to_owned())
                }
                Decision::Replace => {
                    (Done::Drain, "it would be drained once a replacement is ready".to_owned())
                }
            };
            most = stronger(most, done);
            let mark = decision::shortage(message.kind, claim);
            let mark = mark
                .map_or_else(String::new, |(scope, _)| format!(", and {} marked unavailable", scope.key()));
            words.push(format!("NodeClaim {}: {verdict}{mark}.", claim.name));
        }
        let words = format!("{}: {}", message.kind.as_str(), words.join(" "));
        Explained { kind, instances: message.instances, claims, done: most, words }
    }

    async fn concerned(&self, message: &Message, home: &Home) -> Result<Vec<Arc<Claim>>, Unconcerned> {
        if message.kind == Kind::NoOp {
            return Err(Unconcerned::Because(message.words.clone()));
        }
        if let Some(refusal) = home.refuses(message) {
            return Err(Unconcerned::Refused(refusal));
        }
        if message.instances.is_empty() {
            return Err(Unconcerned::Because("it names no instance".to_owned()));
        }
        let claims = self.claims.of_instances(message.instances.clone()).await;
        let claims = claims.map_err(|_| Unconcerned::Stopping)?;
        if claims.is_empty() {
            return Err(Unconcerned::Because("no NodeClaim of this cluster has that instance".to_owned()));
        }
        Ok(claims)
    }

    /// Instances of these claims that may be ended past their budgets.
    async fn confirmed(&self, kind: Kind, claims: &[Arc<Claim>]) -> BTreeSet<String> {
        let asked = claims.iter().filter(|claim| kind.ends_instance() && claim.managed);
        self.confirmations.ending(asked.map(|claim| claim.instance.to_string()).collect()).await
    }

    /// Seen in the log, in a metric and in `ListEvents`: somebody expects it to be acted on.
    fn refused(&self, message: &Message, refusal: &Refusal) {
        tracing::info!(
            id = message.id,
            kind = message.kind.as_str(),
            account = message.account,
            region = message.region,
            instances = message.instances.join(","),
            why = refusal.words,
            "message refused"
        );
        self.metrics.refused.get_or_create(&Reason { reason: refusal.reason }).inc();
    }

    fn count(&self, message_type: &'static str) {
        self.metrics.received.get_or_create(&MessageType { message_type }).inc();
    }

    async fn finish(&self, message: &Message, entry: Entry, received: Received) {
        if let Some(time) = message.time {
            let late = Timestamp::now().duration_since(time).as_secs_f64();
            self.metrics.queue_duration.observe(late.max(0.0));
        }
        self.journal.record(Entry { handled_in: received.on.elapsed(), ..entry }).await;
    }
}

/// The answer of `Replay`.
pub(crate) struct Explained {
    /// `None`: malformed.
    pub(crate) kind: Option<Kind>,
    pub(crate) instances: Vec<String>,
    pub(crate) claims: Vec<Arc<Claim>>,
    pub(crate) done: Done,
    pub(crate) words: String,
}

enum Unconcerned {
    Because(String),
    /// Of another account or region.
    Refused(Refusal),
    Stopping,
}

fn blank(received: Received) -> Entry {
    Entry {
        id: String::new(),
        kind: None,
        instances: Vec::new(),
        claims: Vec::new(),
        done: Done::Nothing,
        detail: String::new(),
        event_time: None,
        received_at: received.at,
        handled_in: received.on.elapsed(),
    }
}

fn stronger(one: Done, other: Done) -> Done {
    let rank = |done| match done {
        Done::Nothing => 0,
        Done::Drain => 1,
        Done::TerminateNow => 2,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// The strongest action, and every word that adds something.
fn summary(claims: &[Arc<Claim>], acted: &[ActionResult]) -> (Done, String) {
    let done = acted.iter().fold(Done::Nothing, |most, one| stronger(most, one.done));
    let details = claims.iter().zip(acted).filter(|(_, one)| !one.detail.is_empty());
    let details: Vec<String> = match claims.len() {
        1 => details.map(|(_, one)| one.detail.clone()).collect(),
        _ => details.map(|(claim, one)| format!("{}: {}", claim.name, one.detail)).take(20).collect(),
    };
    (done, details.join("; "))
}

/// A message is done when all of it is; a refusal weighs more than an absence, and both more than a wait.
fn together(acted: Vec<ActionResult>) -> Handled {
    let rank = |handled: &Handled| match handled {
        Handled::Done => 0,
        Handled::Later(_) => 1,
        Handled::Away(_) => 2,
        Handled::Refused(_) | Handled::Malformed(_) => 3,
    };
    let each = acted.into_iter().map(|one| match one.progress {
        Ok(Progress::Finished) => Handled::Done,
        Ok(Progress::Later(after)) => Handled::Later(after),
        Err(Failure::Away(words)) => Handled::Away(words),
        Err(Failure::Refused(words)) => Handled::Refused(words),
    });
    each.max_by_key(rank).unwrap_or(Handled::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_message_is_news_once_and_few_are_remembered() {
        let malformed = Malformed::default();
        assert!(malformed.is_news("a") && !malformed.is_news("a"));
        assert!((0..2 * REMEMBERED).all(|number| malformed.is_news(&number.to_string())));
        assert_eq!(malformed.0.lock().unwrap().len(), REMEMBERED);
        assert!(malformed.is_news("a"));
    }
}
