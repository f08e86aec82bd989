use std::time::Duration;

use cloud::ErrorKind;
use cloud::Launcher;
use cloud::Queue;
use cloud::Rules;
use cloud::launch::FleetTarget;
use cloud::queue::{Message, ReceiveOptions, RuleTarget};
use serde_json::{Value, json};

use crate::server::{CLUSTER, Local, REGION, connect};

const SHORT: ReceiveOptions =
    ReceiveOptions { max_messages: 10, wait: Duration::from_secs(1), visibility: Duration::from_secs(30) };

/// Sends spot warnings for `count` instances through EventBridge, as EC2 would.
async fn interrupt(local: &Local, name: &str, count: u32) -> Vec<String> {
    let network = local.template(name).await;
    let mut request = network.fleet(name, FleetTarget::Spot, &["m5.large"]);
    request.count = count;
    let launched = local.aws.create_fleet(request).await.expect("the fleet is launched").launched;
    let ids: Vec<String> = launched.into_iter().map(|l| l.id).collect();
    let body = json!({"ids": ids, "kind": "spot", "terminate": false});
    local.control("POST", "/interrupt", body).await;
    ids
}

/// Events take a moment from EC2 into the queue; a minute without any means that none will come.
async fn receive(local: &Local, url: &str) -> Vec<Message> {
    for _ in 0..60 {
        let received = local.aws.receive(url, SHORT).await.expect("the queue answers");
        if !received.is_empty() {
            return received;
        }
    }
    panic!("nothing more came out of the queue");
}

#[tokio::test]
async fn a_queue_is_found_by_name_and_by_url() {
    let local = connect(REGION, "find").await;
    let by_name = local.aws.find(CLUSTER).await.unwrap();
    assert!(by_name.arn.ends_with(CLUSTER), "{by_name:?}");
    assert_eq!(local.aws.find(&by_name.url).await.unwrap().arn, by_name.arn);
    let missing = local.aws.find("no-such-queue").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound, "{missing}");
}

#[tokio::test]
async fn warnings_arrive_are_hidden_extended_and_deleted() {
    let local = connect(REGION, "consume").await;
    let url = local.aws.find(CLUSTER).await.unwrap().url;
    let ids = interrupt(&local, "consume", 13).await;
    let is_mine = |m: &Message| ids.iter().any(|id| m.body.contains(id));
    let mut mine: Vec<Message> = Vec::new();
    while mine.len() < ids.len() {
        mine.extend(receive(&local, &url).await.into_iter().filter(is_mine));
    }
    let body: Value = serde_json::from_str(&mine[0].body).unwrap();
    assert_eq!(body["detail-type"], "EC2 Spot Instance Interruption Warning");
    assert_eq!(mine[0].deliveries, 1);
    assert!(mine[0].sent_at.is_some());

    let receipts: Vec<String> = mine.iter().map(|m| m.receipt.clone()).collect();
    assert_eq!(local.aws.extend(&url, receipts[..1].to_vec(), Duration::ZERO).await.unwrap(), []);
    // Other tests' instances put their ends into the same queue.
    let again = loop {
        let back = receive(&local, &url).await;
        if let Some(found) = back.into_iter().find(|m| m.id == mine[0].id) {
            break found;
        }
    };
    assert_eq!(again.deliveries, 2);
    let mut all = receipts[1..].to_vec();
    all.push(again.receipt.clone());
    assert_eq!(local.aws.delete(&url, all).await.unwrap(), []);
}

#[tokio::test]
async fn receipts_that_make_no_sense_are_told_one_by_one() {
    let local = connect(REGION, "receipts").await;
    let url = local.aws.find(CLUSTER).await.unwrap().url;
    let failed = local.aws.extend(&url, vec!["nonsense".into()], Duration::from_secs(5)).await;
    match failed {
        Ok(failed) => assert_eq!(failed.len(), 1),
        Err(error) => assert!(!error.is_retryable(), "{error}"),
    }
}

#[tokio::test]
async fn rules_are_created_repaired_listed_and_deleted() {
    let local = connect("us-east-2", "rules").await;
    let arn = "arn:aws:sqs:us-east-2:123456789012:adapter".to_owned();
    let name = "adapter-SpotInterruptionRule";
    assert_eq!(local.aws.rule(name).await.unwrap(), None);
    let pattern = r#"{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}"#;
    local.aws.put_rule(name, pattern).await.unwrap();
    let target = RuleTarget { id: "KarpenterInterruptionQueueTarget".into(), arn };
    local.aws.put_target(name, target.clone()).await.unwrap();
    local.aws.put_rule(name, pattern).await.unwrap();
    let found = local.aws.rule(name).await.unwrap().unwrap();
    assert!(found.enabled);
    assert_eq!(found.targets, [target]);
    let read: Value = serde_json::from_str(&found.pattern).unwrap();
    assert_eq!(read["source"][0], "aws.ec2");
    let listed = local.aws.rules("adapter-Spot").await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&found));
    let arn = &found.targets[0].arn;
    assert_eq!(local.aws.rules_of_target(arn).await.unwrap(), std::slice::from_ref(&found));
    assert_eq!(local.aws.rules_of_target(&format!("{arn}-other")).await.unwrap(), []);
    local.aws.delete_rule(name).await.unwrap();
    local.aws.delete_rule(name).await.unwrap();
    assert_eq!(local.aws.rule(name).await.unwrap(), None);
}
