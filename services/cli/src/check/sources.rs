//! What the services get from AWS, as they say themselves: prices and the queue. Rights in AWS that are missing show here and in the
//! conditions of node classes.

use proto::interruptionwatcher::v1::interruption_watcher_client::InterruptionWatcherClient;
use proto::interruptionwatcher::v1::{GetStatsRequest, GetStatsResponse};
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{GetPricesRequest, PriceSource};
use runtime::Service;

use super::finding::Finding;
use crate::connect::Connection;

const AREA: &str = "AWS";
/// One type is enough to learn where prices come from.
const ANY_TYPE: &str = "m5.large";

pub(super) async fn check(connection: &Connection) -> Vec<Finding> {
    let (mut findings, queue) = tokio::join!(prices(connection), queue(connection));
    findings.push(queue);
    findings
}

/// Not knowing is a failure: an installation without prices or queue must not pass.
fn unasked(subject: &str, why: &str) -> Finding {
    let fix = "you need the rights of Role karpenter-viewer in the namespace of the services; with them, see the service's log";
    Finding::wrong(AREA, subject, format!("the service does not answer: {why}"), fix)
}

async fn prices(connection: &Connection) -> Vec<Finding> {
    let transport = match connection.open(Service::PricingCache, None).await {
        Ok(transport) => transport,
        Err(error) => return vec![unasked("prices", &format!("{error:#}"))],
    };
    let request =
        GetPricesRequest { instance_types: vec![ANY_TYPE.to_owned()], ..GetPricesRequest::default() };
    match PricingCacheClient::new(transport).get_prices(request).await {
        Err(status) => vec![unasked("prices", status.message())],
        Ok(answer) => {
            let answer = answer.into_inner();
            let on_demand = answer.on_demand_source.unwrap_or_default();
            vec![
                source("on-demand prices", "pricing:GetProducts", &on_demand),
                source(
                    "spot prices",
                    "ec2:DescribeSpotPriceHistory",
                    &answer.spot_source.unwrap_or_default(),
                ),
            ]
        }
    }
}

fn source(subject: &str, permission: &str, source: &PriceSource) -> Finding {
    let fix = format!("give the role of karpenter-pricing-cache {permission}, or a route to that endpoint");
    match (source.kind.as_str(), source.last_error.as_str()) {
        ("api", "") => Finding::good(AREA, subject, "read from AWS"),
        ("api" | "configmap", error) => {
            let error = if error.is_empty() { "not read yet since the start" } else { error };
            Finding::note(AREA, subject, format!("are the last known ones: {error}"), fix)
        }
        (_, "") => Finding::note(AREA, subject, "come from the built-in table", fix),
        (_, error) => Finding::wrong(AREA, subject, format!("come from the built-in table: {error}"), fix),
    }
}

async fn queue(connection: &Connection) -> Finding {
    let transport = match connection.open(Service::InterruptionWatcher, None).await {
        Ok(transport) => transport,
        Err(error) => return unasked("interruption queue", &format!("{error:#}")),
    };
    match InterruptionWatcherClient::new(transport).get_stats(GetStatsRequest {}).await {
        Err(status) => unasked("interruption queue", status.message()),
        Ok(answer) => judge_queue(answer.get_ref()),
    }
}

fn judge_queue(stats: &GetStatsResponse) -> Finding {
    const SUBJECT: &str = "interruption queue";
    if !stats.queue_problem.is_empty() {
        let fix = "create the queue (deploy/aws), give the role of karpenter-interruption-watcher sqs:ReceiveMessage, sqs:DeleteMessage and sqs:GetQueueUrl on it, and check settings.interruptionQueue";
        return Finding::wrong(AREA, SUBJECT, stats.queue_problem.clone(), fix);
    }
    if stats.queue_url.is_empty() {
        let fix = "set settings.interruptionQueue to the queue's name";
        return Finding::note(AREA, SUBJECT, "none is read: spot warnings are missed", fix);
    }
    Finding::good(AREA, SUBJECT, format!("{} is read", stats.queue_url))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn prices_from_the_built_in_table_after_a_failure_are_wrong_and_old_ones_a_note() {
        let judged = |kind: &str, error: &str| {
            let from = PriceSource { kind: kind.into(), last_error: error.into(), ..PriceSource::default() };
            source("spot prices", "ec2:DescribeSpotPriceHistory", &from).verdict
        };
        assert_eq!(judged("api", ""), Verdict::Good);
        assert_eq!(judged("configmap", "throttled"), Verdict::Note);
        assert_eq!(judged("built-in", "UnauthorizedOperation"), Verdict::Wrong);
        // Isolated VPCs never ask.
        assert_eq!(judged("built-in", ""), Verdict::Note);
    }

    #[test]
    fn a_service_that_cannot_be_asked_fails_the_check() {
        assert_eq!(unasked("prices", "no route").verdict, Verdict::Wrong);
    }

    #[test]
    fn a_queue_that_cannot_be_read_is_wrong_and_none_is_noted() {
        let stats = |url: &str, problem: &str| GetStatsResponse {
            queue_url: url.into(),
            queue_problem: problem.into(),
            ..GetStatsResponse::default()
        };
        assert_eq!(judge_queue(&stats("https://sqs/demo", "")).verdict, Verdict::Good);
        assert_eq!(judge_queue(&stats("", "")).verdict, Verdict::Note);
        assert_eq!(judge_queue(&stats("", "AccessDenied")).verdict, Verdict::Wrong);
    }
}
