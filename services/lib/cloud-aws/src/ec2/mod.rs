//! EC2: one file for each kind of thing.

mod fleet;
mod health;
mod images;
mod instances;
mod networks;
mod offerings;
mod placement_groups;
mod reservations;
mod spot;
mod templates;
mod types;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use cloud::error::CloudError;

use crate::calls::CallMetrics;
use crate::error::cloud_error;
use crate::pace::{Pace, Paces};
use health::EndingBatcher;
use instances::{DescribeBatcher, TerminateBatcher};

/// The EC2 client with its rate limits and batches.
pub(crate) struct Ec2 {
    calls: Calls,
    describes: DescribeBatcher,
    terminations: TerminateBatcher,
    endings: EndingBatcher,
}

/// What batches need to make calls of their own.
#[derive(Clone)]
pub(crate) struct Calls {
    client: aws_sdk_ec2::Client,
    paces: Arc<Paces>,
}

impl Ec2 {
    pub(crate) fn new(client: aws_sdk_ec2::Client, paces: Arc<Paces>, metrics: &CallMetrics) -> Self {
        let calls = Calls { client, paces };
        let metrics = || metrics.clone();
        Self {
            describes: instances::describe_batcher(calls.clone()).counted(metrics(), "describe_instances"),
            terminations: instances::terminate_batcher(calls.clone())
                .counted(metrics(), "terminate_instances"),
            endings: health::ending_batcher(calls.clone()),
            calls,
        }
    }
}

/// One call, at its class's pace.
pub(crate) async fn paced<T, E>(
    pace: &Pace,
    operation: &'static str,
    call: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> Result<T, CloudError>
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if let Some(refusal) = pace.refusal(operation) {
        return Err(refusal);
    }
    let turn = pace.turn().await;
    let result = call.await.map_err(|error| cloud_error(operation, &error));
    pace.learn(turn, &result);
    result
}

/// All pages of a listing, each at its class's pace; the error of any page is the error of the listing.
macro_rules! pages {
    ($pace:expr, $operation:expr, $paginator:expr, |$page:ident| $take:expr) => {{
        let mut paginator = $paginator;
        loop {
            let turn = $pace.turn().await;
            let Some(answer) = paginator.next().await else { break };
            let answer = answer.map_err(|error| $crate::error::cloud_error($operation, &error));
            $pace.learn(turn, &answer);
            let $page = answer?;
            $take
        }
    }};
}
pub(crate) use pages;

/// Without the SDK's retries: the answer to a dry run is the question's, not the network's, and CreateFleet waits for its turn.
fn unretried() -> aws_sdk_ec2::config::Builder {
    aws_sdk_ec2::config::Builder::new().retry_config(RetryConfig::disabled())
}
