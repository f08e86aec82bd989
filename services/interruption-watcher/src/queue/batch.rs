//! One batch from the queue, from receipt to deletion. Messages are handled side by side; what is done is deleted soon, also
//! when a neighbour takes long; what takes long stays hidden from other consumers.

use std::time::Duration;

use cloud::queue::Message;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::disposition::{Disposition, disposition};
use super::{QUICKEST, Receiver, VISIBILITY};
use crate::handler::Received;

/// How often what is done is deleted while others of the batch are still being handled.
const FLUSH: Duration = Duration::from_secs(1);
/// Long before other consumers would see it.
const EXTEND: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
/// Of a body that goes into the log.
const LOGGED: usize = 2048;
const REMOVED: &str = "message removed without being handled";

impl Receiver {
    pub(super) async fn work(&self, messages: Vec<Message>) {
        let received = Received::now();
        let mut open: Vec<&str> = messages.iter().map(|message| message.receipt.as_str()).collect();
        let mut done: Vec<String> = Vec::with_capacity(messages.len());
        let mut handling: FuturesUnordered<_> = messages
            .iter()
            .map(|message| async move { (message, self.handler.handle(message, &self.home, received).await) })
            .collect();
        let start = Instant::now();
        let mut flush = interval_at(start + FLUSH, FLUSH);
        let mut extend = interval_at(start + EXTEND, EXTEND);
        for timer in [&mut flush, &mut extend] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                biased;
                next = handling.next() => {
                    let Some((message, handled)) = next else { break };
                    open.retain(|receipt| *receipt != message.receipt);
                    match disposition(handled, message.deliveries, self.most_deliveries, self.dead_letters) {
                        Disposition::Delete => done.push(message.receipt.clone()),
                        Disposition::Later(after) => self.hide(vec![message.receipt.clone()], after).await,
                        Disposition::Return(after) => {
                            self.metrics.failed.inc();
                            self.hide(vec![message.receipt.clone()], after).await;
                        }
                        Disposition::LeaveToSqs(why) => {
                            if message.deliveries <= 1 {
                                log_body(message, &why, "message left to the dead-letter queue");
                            }
                            self.hide(vec![message.receipt.clone()], QUICKEST).await;
                        }
                        Disposition::Remove(why) => {
                            log_body(message, &why, REMOVED);
                            done.push(message.receipt.clone());
                        }
                        Disposition::GiveUp(why) => {
                            self.metrics.poisoned.inc();
                            log_body(message, &why, REMOVED);
                            done.push(message.receipt.clone());
                        }
                    }
                }
                _ = extend.tick() => {
                    self.hide(open.iter().map(|receipt| (*receipt).to_owned()).collect(), VISIBILITY).await;
                }
                _ = flush.tick() => self.delete(std::mem::take(&mut done)).await,
            }
        }
        self.delete(done).await;
    }

    /// A message that cannot be deleted comes back and finds everything done.
    async fn delete(&self, mut receipts: Vec<String>) {
        for _ in 0..TRIES {
            if receipts.is_empty() {
                return;
            }
            let asked = receipts.len();
            match self.queue.delete(&self.url, receipts.clone()).await {
                Ok(failed) => {
                    self.metrics.deleted.inc_by((asked - failed.len().min(asked)) as u64);
                    receipts = failed.into_iter().map(|failed| failed.receipt).collect();
                }
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "messages not deleted yet");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, messages = asked, "messages were handled but not deleted; they will be delivered again");
                    return;
                }
            }
        }
        if !receipts.is_empty() {
            tracing::warn!(
                messages = receipts.len(),
                "messages were handled but not deleted; they will be delivered again"
            );
        }
    }

    /// A message that cannot be hidden is handled by somebody else too, without effect.
    async fn hide(&self, receipts: Vec<String>, time: Duration) {
        if receipts.is_empty() {
            return;
        }
        match self.queue.extend(&self.url, receipts, time).await {
            Ok(failed) => {
                failed.iter().for_each(|one| tracing::debug!(code = one.code, "message not hidden"))
            }
            Err(error) => tracing::debug!(%error, "messages not hidden"),
        }
    }
}

fn log_body(message: &Message, why: &str, what: &'static str) {
    let body: String = message.body.chars().take(LOGGED).collect();
    let (deliveries, bytes) = (message.deliveries, message.body.len());
    tracing::error!(id = message.id, deliveries, why, bytes, body, "{what}");
}
