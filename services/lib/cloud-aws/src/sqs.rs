//! The interruption queue.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    MessageSystemAttributeName, QueueAttributeName,
};
use cloud::error::CloudError;
use cloud::queue::{Message, QueueInfo, ReceiptError, ReceiveOptions};
use jiff::Timestamp;

use crate::connect::Aws;
use crate::convert::owned;
use crate::error::cloud_error;

/// Most entries SQS takes in one batch.
const BATCH: usize = 10;
/// Longest that SQS holds a poll open, and most messages it gives, by its own rules.
const MAX_WAIT: Duration = Duration::from_secs(20);
const MAX_MESSAGES: u32 = 10;

impl Aws {
    pub(crate) async fn find_queue(&self, name_or_url: &str) -> Result<QueueInfo, CloudError> {
        let url = if name_or_url.contains("://") {
            name_or_url.to_owned()
        } else {
            let call = self.sqs().get_queue_url().queue_name(name_or_url);
            let answer = call.send().await.map_err(|e| cloud_error("GetQueueUrl", &e))?;
            let url = answer.queue_url().ok_or_else(|| {
                CloudError::malformed("GetQueueUrl", format!("the answer for {name_or_url} holds no URL"))
            })?;
            url.to_owned()
        };
        let call = self
            .sqs()
            .get_queue_attributes()
            .queue_url(&url)
            .attribute_names(QueueAttributeName::QueueArn)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessages)
            .attribute_names(QueueAttributeName::RedrivePolicy);
        match call.send().await.map_err(|e| cloud_error("GetQueueAttributes", &e)) {
            Ok(answer) => {
                let read = |name| answer.attributes().and_then(|all| all.get(&name));
                Ok(QueueInfo {
                    arn: read(QueueAttributeName::QueueArn).cloned().unwrap_or_default(),
                    waiting: read(QueueAttributeName::ApproximateNumberOfMessages)
                        .and_then(|n| n.parse().ok()),
                    dead_letters: read(QueueAttributeName::RedrivePolicy)
                        .is_some_and(|text| !text.is_empty()),
                    url,
                })
            }
            // Consuming needs no attributes; roles that allow only that are fine.
            Err(error) if error.kind == cloud::ErrorKind::Unauthorized => {
                Ok(QueueInfo { url, arn: String::new(), waiting: None, dead_letters: false })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn receive_messages(
        &self,
        url: &str,
        options: ReceiveOptions,
    ) -> Result<Vec<Message>, CloudError> {
        let call = self
            .sqs()
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(bounded(options.max_messages.clamp(1, MAX_MESSAGES)))
            .wait_time_seconds(seconds(options.wait.min(MAX_WAIT)))
            .visibility_timeout(seconds(options.visibility))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = call.send().await.map_err(|e| cloud_error("ReceiveMessage", &e))?;
        Ok(answer.messages().iter().filter_map(message).collect())
    }

    pub(crate) async fn delete_messages(
        &self,
        url: &str,
        receipts: Vec<String>,
    ) -> Result<Vec<ReceiptError>, CloudError> {
        const OPERATION: &str = "DeleteMessageBatch";
        let mut failed = Vec::new();
        for some in receipts.chunks(BATCH) {
            let mut call = self.sqs().delete_message_batch().queue_url(url);
            for (n, receipt) in some.iter().enumerate() {
                let entry =
                    DeleteMessageBatchRequestEntry::builder().id(n.to_string()).receipt_handle(receipt);
                call =
                    call.entries(entry.build().map_err(|e| CloudError::invalid(OPERATION, e.to_string()))?);
            }
            let answer = call.send().await.map_err(|e| cloud_error(OPERATION, &e))?;
            failed.extend(failures(some, answer.failed()));
        }
        Ok(failed)
    }

    pub(crate) async fn extend_messages(
        &self,
        url: &str,
        receipts: Vec<String>,
        visibility: Duration,
    ) -> Result<Vec<ReceiptError>, CloudError> {
        const OPERATION: &str = "ChangeMessageVisibilityBatch";
        if let [receipt] = receipts.as_slice() {
            return self.extend_message(url, receipt, visibility).await;
        }
        let mut failed = Vec::new();
        for some in receipts.chunks(BATCH) {
            let mut call = self.sqs().change_message_visibility_batch().queue_url(url);
            for (n, receipt) in some.iter().enumerate() {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(n.to_string())
                    .receipt_handle(receipt)
                    .visibility_timeout(seconds(visibility));
                call =
                    call.entries(entry.build().map_err(|e| CloudError::invalid(OPERATION, e.to_string()))?);
            }
            let answer = call.send().await.map_err(|e| cloud_error(OPERATION, &e))?;
            failed.extend(failures(some, answer.failed()));
        }
        Ok(failed)
    }
}

impl Aws {
    /// A receipt that SQS refuses is told as in a batch.
    async fn extend_message(
        &self,
        url: &str,
        receipt: &str,
        visibility: Duration,
    ) -> Result<Vec<ReceiptError>, CloudError> {
        let call = self
            .sqs()
            .change_message_visibility()
            .queue_url(url)
            .receipt_handle(receipt)
            .visibility_timeout(seconds(visibility));
        match call.send().await.map_err(|e| cloud_error("ChangeMessageVisibility", &e)) {
            Ok(_) => Ok(Vec::new()),
            Err(error) if error.kind == cloud::ErrorKind::Invalid => Ok(vec![ReceiptError {
                receipt: receipt.to_owned(),
                code: error.code,
                message: error.message,
            }]),
            Err(error) => Err(error),
        }
    }
}

fn bounded(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

/// `None` for a delivery that could not be deleted later.
fn message(found: &aws_sdk_sqs::types::Message) -> Option<Message> {
    let attribute = |name| found.attributes().and_then(|all| all.get(&name));
    let sent = attribute(MessageSystemAttributeName::SentTimestamp).and_then(|t| t.parse().ok());
    let deliveries = attribute(MessageSystemAttributeName::ApproximateReceiveCount);
    Some(Message {
        id: owned(found.message_id()),
        receipt: found.receipt_handle()?.to_owned(),
        body: owned(found.body()),
        sent_at: sent.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
        deliveries: deliveries.and_then(|n| n.parse().ok()).unwrap_or(1),
    })
}

fn failures(receipts: &[String], failed: &[BatchResultErrorEntry]) -> Vec<ReceiptError> {
    let by_id: BTreeMap<String, &String> =
        receipts.iter().enumerate().map(|(n, receipt)| (n.to_string(), receipt)).collect();
    let error = |entry: &BatchResultErrorEntry| {
        Some(ReceiptError {
            receipt: (*by_id.get(entry.id())?).clone(),
            code: entry.code().to_owned(),
            message: owned(entry.message()),
        })
    };
    failed.iter().filter_map(error).collect()
}
