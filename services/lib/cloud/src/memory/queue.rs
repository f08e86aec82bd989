use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout_at};

use super::{MemoryCloud, client_error};
use crate::Answer;
use crate::error::CloudError;
use crate::queue::{Message, Queue, QueueInfo, ReceiptError, ReceiveOptions, Rule, RuleTarget, Rules};

/// Messages in order of arrival.
#[derive(Debug, Default)]
pub struct MemoryQueue {
    messages: Vec<Stored>,
    /// Received as often, a message is moved to `dead`.
    pub dead_letters_after: Option<u32>,
    /// Bodies in the dead-letter queue.
    pub dead: Vec<String>,
}

#[derive(Debug)]
struct Stored {
    id: String,
    body: String,
    sent_at: jiff::Timestamp,
    deliveries: u32,
    receipt: String,
    hidden_until: Option<Instant>,
}

impl MemoryQueue {
    /// Messages not yet deleted, hidden ones included.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl MemoryCloud {
    pub fn create_queue(&self, name: &str) {
        self.state().queues.insert(name.to_owned(), MemoryQueue::default());
    }

    /// Puts a message into the queue; nothing happens when there is no such queue.
    pub fn send(&self, name: &str, body: &str) {
        let mut guard = self.state();
        let state = &mut *guard;
        let (id, sent_at) = (state.id("message"), state.now);
        if let Some(queue) = state.queues.get_mut(name) {
            queue.messages.push(Stored {
                receipt: String::new(),
                id,
                body: body.to_owned(),
                sent_at,
                deliveries: 0,
                hidden_until: None,
            });
        }
        drop(guard);
        self.arrivals.notify_waiters();
    }

    fn take(&self, name: &str, options: &ReceiveOptions) -> Result<Vec<Message>, CloudError> {
        let mut state = self.state();
        let queue = state.queues.get_mut(name).ok_or_else(|| missing("ReceiveMessage", name))?;
        let now = Instant::now();
        if let Some(most) = queue.dead_letters_after {
            let is_dead = |m: &mut Stored| m.deliveries >= most && m.hidden_until.is_none_or(|at| at <= now);
            queue.dead.extend(queue.messages.extract_if(.., is_dead).map(|m| m.body));
        }
        let visible = queue.messages.iter_mut().filter(|m| m.hidden_until.is_none_or(|until| until <= now));
        Ok(visible
            .take(options.max_messages as usize)
            .map(|m| {
                m.deliveries += 1;
                m.receipt = format!("{}#{}", m.id, m.deliveries);
                m.hidden_until = Some(now + options.visibility);
                Message {
                    id: m.id.clone(),
                    receipt: m.receipt.clone(),
                    body: m.body.clone(),
                    sent_at: Some(m.sent_at),
                    deliveries: m.deliveries,
                }
            })
            .collect())
    }

    /// When the next hidden message comes back.
    fn next_visible(&self, name: &str) -> Option<Instant> {
        self.state().queues.get(name)?.messages.iter().filter_map(|m| m.hidden_until).min()
    }
}

impl Queue for MemoryCloud {
    fn find<'a>(&'a self, name_or_url: &'a str) -> Answer<'a, QueueInfo> {
        self.answer("GetQueueUrl", |state| {
            let name = name_of(name_or_url);
            let queue = state.queues.get(name).ok_or_else(|| missing("GetQueueUrl", name))?;
            Ok(QueueInfo {
                url: format!("memory://queue/{name}"),
                arn: format!("arn:aws:sqs:memory:123456789012:{name}"),
                waiting: Some(queue.messages.len() as u64),
                dead_letters: queue.dead_letters_after.is_some(),
            })
        })
    }

    fn receive<'a>(&'a self, url: &'a str, options: ReceiveOptions) -> Answer<'a, Vec<Message>> {
        async move {
            self.state().begin("ReceiveMessage")?;
            let name = name_of(url);
            let end = Instant::now() + options.wait;
            loop {
                let arrival = self.arrivals.notified();
                let found = self.take(name, &options)?;
                if !found.is_empty() || Instant::now() >= end {
                    return Ok(found);
                }
                let wake = self.next_visible(name).map_or(end, |at| at.min(end));
                // Either way the queue is looked at again.
                let _ = timeout_at(wake, arrival).await;
            }
        }
        .boxed()
    }

    fn delete<'a>(&'a self, url: &'a str, receipts: Vec<String>) -> Answer<'a, Vec<ReceiptError>> {
        self.answer("DeleteMessageBatch", |state| {
            let name = name_of(url);
            let queue = state.queues.get_mut(name).ok_or_else(|| missing("DeleteMessageBatch", name))?;
            queue.messages.retain(|m| m.receipt.is_empty() || !receipts.contains(&m.receipt));
            Ok(Vec::new())
        })
    }

    fn extend<'a>(
        &'a self,
        url: &'a str,
        receipts: Vec<String>,
        visibility: Duration,
    ) -> Answer<'a, Vec<ReceiptError>> {
        let answer = self.answer("ChangeMessageVisibilityBatch", |state| {
            let name = name_of(url);
            let queue =
                state.queues.get_mut(name).ok_or_else(|| missing("ChangeMessageVisibilityBatch", name))?;
            let mut failed = Vec::new();
            for receipt in receipts {
                match queue.messages.iter_mut().find(|m| m.receipt == receipt) {
                    Some(message) => message.hidden_until = Some(Instant::now() + visibility),
                    None => failed.push(ReceiptError {
                        receipt,
                        code: "ReceiptHandleIsInvalid".into(),
                        message: "no such delivery".into(),
                    }),
                }
            }
            Ok(failed)
        });
        self.arrivals.notify_waiters();
        answer
    }
}

impl Rules for MemoryCloud {
    fn rule<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Rule>> {
        self.answer("DescribeRule", |state| Ok(state.rules.get(name).cloned()))
    }

    fn rules<'a>(&'a self, name_prefix: &'a str) -> Answer<'a, Vec<Rule>> {
        self.answer("ListRules", |state| {
            Ok(state.rules.values().filter(|r| r.name.starts_with(name_prefix)).cloned().collect())
        })
    }

    fn rules_of_target<'a>(&'a self, arn: &'a str) -> Answer<'a, Vec<Rule>> {
        self.answer("ListRuleNamesByTarget", |state| {
            let aims = |rule: &&Rule| rule.targets.iter().any(|target| target.arn == arn);
            Ok(state.rules.values().filter(aims).cloned().collect())
        })
    }

    fn put_rule<'a>(&'a self, name: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        self.answer("PutRule", |state| {
            let targets = state.rules.remove(name).map(|r| r.targets).unwrap_or_default();
            let rule = Rule { name: name.into(), pattern: pattern.into(), enabled: true, targets };
            state.rules.insert(name.to_owned(), rule);
            Ok(())
        })
    }

    fn put_target<'a>(&'a self, rule: &'a str, target: RuleTarget) -> Answer<'a, ()> {
        self.answer("PutTargets", |state| {
            let found = state.rules.get_mut(rule);
            let found = found.ok_or_else(|| client_error("PutTargets", "ResourceNotFoundException", rule))?;
            found.targets.retain(|t| t.id != target.id);
            found.targets.push(target);
            found.targets.sort();
            Ok(())
        })
    }

    fn delete_rule<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.answer("DeleteRule", |state| {
            state.rules.remove(name);
            Ok(())
        })
    }
}

fn name_of(name_or_url: &str) -> &str {
    name_or_url.rsplit('/').next().unwrap_or(name_or_url)
}

fn missing(operation: &'static str, name: &str) -> CloudError {
    client_error(operation, "QueueDoesNotExist", format!("no queue {name}"))
}
