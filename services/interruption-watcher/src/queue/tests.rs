use proto::provisioner::v1::SimulateResponse;
use proto::types::v1::PlannedNode;
use serde_json::json;
use tonic::Status;

use super::*;
use crate::decision::Policy;
use crate::testing::{QUEUE, Scene, message, rebalance, spot_warning};

const PLAIN: Policy = Policy { drain_on_rebalance: false };

#[tokio::test(start_paused = true)]
async fn a_spot_warning_removes_the_claim_by_its_time_reports_the_offering_and_leaves_the_queue() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.consume(4);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    let taken = scene.termination.taken.lock().unwrap().clone();
    assert_eq!(taken.len(), 1);
    let claim = taken[0].node_claim.clone().unwrap();
    assert_eq!((claim.name.as_str(), claim.uid.as_str()), ("a", "uid-a"));
    assert_eq!(taken[0].reason, "spot_interrupted");
    let deadline = taken[0].deadline.unwrap().seconds;
    let warned: jiff::Timestamp = "2026-02-16T08:00:00Z".parse().unwrap();
    assert_eq!(deadline, warned.as_second() + 120, "two minutes after the warning");
    let reported = scene.pricing_cache.0.lock().unwrap().clone();
    assert_eq!((reported[0].instance_type.as_str(), reported[0].zone.as_str()), ("m5.large", "us-west-2a"));
    assert_eq!(scene.metrics.deleted.get(), 1);
}

/// Anybody who may write to the queue can claim anything: EC2 is asked before budgets are passed.
#[tokio::test(start_paused = true)]
async fn a_warning_that_ec2_does_not_confirm_drains_within_budgets() {
    let mut scene = Scene::new(PLAIN);
    let bodies = [
        spot_warning("i-1"),
        message("EC2 Instance State-change Notification", json!({"instance-id": "i-2", "state": "stopping"})),
        spot_warning("i-3"),
    ];
    for (name, instance) in [("forged", "i-1"), ("runs", "i-2"), ("taken-back", "i-3")] {
        scene.claim(name, instance, json!({})).await;
    }
    scene.cloud.state().alive.extend(["i-1".to_owned(), "i-2".to_owned()]);
    bodies.iter().for_each(|body| scene.cloud.send(QUEUE, body));
    scene.consume(1);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    let taken = scene.termination.taken.lock().unwrap().clone();
    let mut deadlines: Vec<(String, bool)> = taken
        .into_iter()
        .map(|request| (request.node_claim.unwrap_or_default().name, request.deadline.is_some()))
        .collect();
    deadlines.sort();
    let expected = [("forged", false), ("runs", false), ("taken-back", true)];
    assert_eq!(deadlines, expected.map(|(name, deadline)| (name.to_owned(), deadline)));
    assert_eq!(scene.metrics.unconfirmed.get(), 2);
    let events = scene.journal.list(10, "i-1".to_owned()).await;
    assert!(events[0].detail.contains("not confirmed"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ec2_that_does_not_answer_is_no_confirmation() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.cloud.fail("DescribeInstances", "RequestLimitExceeded", "slow down");
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.consume(1);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    let taken = scene.termination.taken.lock().unwrap().clone();
    assert_eq!((taken.len(), taken[0].deadline), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_poison_message_goes_to_the_dead_letter_queue_where_there_is_one() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    if let Some(queue) = scene.cloud.state().queues.get_mut(QUEUE) {
        queue.dead_letters_after = Some(5);
    }
    scene.termination.failures.lock().unwrap().extend((0..9).map(|_| Status::internal("cannot")));
    scene.cloud.send(QUEUE, "{");
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.consume(1);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    let mut dead = scene.cloud.state().queues[QUEUE].dead.clone();
    dead.sort_by_key(String::len);
    assert_eq!(dead, ["{".to_owned(), spot_warning("i-1")]);
    assert_eq!(scene.metrics.deleted.get(), 0);
    let malformed = scene.metrics.received_by_type().into_iter().find(|(kind, _)| *kind == "malformed");
    assert_eq!(malformed, Some(("malformed", 1)), "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_until_termination_has_stored_the_removal() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    let away = || Status::unavailable("nobody leads");
    scene.termination.failures.lock().unwrap().extend((0..12).map(|_| away()));
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.consume(4);
    scene.until("many failures", |scene| scene.metrics.failed.get() >= 11).await;
    assert_eq!(scene.left_in_queue(), 1, "however often it failed");
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    assert_eq!(scene.taken(), ["a"]);
    assert_eq!(scene.metrics.poisoned.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_again_and_again_is_given_up_and_counted() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.termination.failures.lock().unwrap().extend((0..9).map(|_| Status::internal("cannot")));
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.consume(4);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    assert_eq!((scene.metrics.poisoned.get(), scene.metrics.failed.get()), (1, 2));
    assert!(scene.taken().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_understood_or_is_not_about_us_is_counted_and_deleted() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.claim("theirs", "i-2", json!({})).await;
    let elsewhere = spot_warning("i-1").replace("us-west-2\"", "eu-west-1\"");
    let bodies = [
        "{".to_owned(),
        spot_warning("i-404"),
        elsewhere,
        message("EC2 Spot Instance Interruption Warning", json!({"instance-id": 5})),
        message("EC2 AMI State Change", json!({})),
        String::new(),
    ];
    bodies.iter().for_each(|body| scene.cloud.send(QUEUE, body));
    scene.consume(4);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    assert!(scene.taken().is_empty(), "{:?}", scene.taken());
    let counts = scene.metrics.received_by_type();
    assert_eq!(counts, [("spot_interrupted", 2), ("no_op", 2), ("malformed", 2)]);
    let entries = scene.journal.list(10, String::new()).await;
    assert_eq!(entries.len(), 6);
    assert!(entries.iter().any(|entry| entry.detail.contains("eu-west-1")), "{entries:?}");
    assert_eq!(scene.metrics.refused.get_or_create(&Reason { reason: "region" }).get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_storm_with_duplicates_removes_every_claim_exactly_once() {
    let mut scene = Scene::new(PLAIN);
    *scene.termination.takes.lock().unwrap() = Duration::from_millis(40);
    for n in 0..300 {
        scene.claim(&format!("c{n:03}"), &format!("i-{n}"), json!({})).await;
    }
    for n in 0..1000 {
        scene.cloud.send(QUEUE, &spot_warning(&format!("i-{}", (n * 7) % 300)));
    }
    scene.consume(8);
    scene.until("several receivers", |scene| scene.metrics.receivers.get() > 4).await;
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    let taken = scene.taken();
    assert_eq!(taken.len(), 300);
    assert!(taken.is_sorted_by(|a, b| a < b), "each once");
    assert_eq!(scene.metrics.deleted.get(), 1000);
    scene.until("one receiver again", |scene| scene.metrics.receivers.get() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_stays_hidden_and_does_not_hold_up_its_neighbours() {
    let mut scene = Scene::new(PLAIN);
    *scene.termination.takes.lock().unwrap() = Duration::from_secs(95);
    scene.claim("slow", "i-1", json!({})).await;
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    (0..5).for_each(|n| scene.cloud.send(QUEUE, &spot_warning(&format!("i-99{n}"))));
    scene.consume(1);
    scene.until("the neighbours to be deleted", |scene| scene.left_in_queue() == 1).await;
    assert!(scene.taken().is_empty());
    scene.until("the slow one", |scene| scene.left_in_queue() == 0).await;
    let received: u64 = scene.metrics.received_by_type().iter().map(|(_, count)| count).sum();
    assert_eq!(received, 6, "nobody saw it a second time");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_vanishes_is_reported_and_read_again_when_it_is_back() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.consume(4);
    scene.until("the queue to be read", |scene| !scene.state.borrow().url.is_empty()).await;
    scene.cloud.state().queues.remove(QUEUE);
    scene.until("the problem", |scene| scene.state.borrow().problem.contains("create it")).await;
    let gauge =
        |scene: &Scene| scene.metrics.queue_problem.get_or_create(&Reason { reason: "not_found" }).get();
    assert_eq!(gauge(&scene), 1);
    assert!(scene.readiness.is_ready() && scene.readiness.notes()[0].contains("no such queue"));
    scene.cloud.create_queue(QUEUE);
    scene.cloud.send(QUEUE, &spot_warning("i-1"));
    scene.until("the claim to be removed", |scene| scene.taken() == ["a"]).await;
    assert_eq!(gauge(&scene), 0);
    assert!(scene.readiness.notes().is_empty() && scene.state.borrow().problem.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_may_not_be_read_says_which_rights_are_missing() {
    let mut scene = Scene::new(PLAIN);
    scene.cloud.fail_times("ReceiveMessage", "AccessDenied", "no", 3);
    scene.consume(4);
    scene.until("the problem", |scene| scene.state.borrow().problem.contains("sqs:ReceiveMessage")).await;
    assert_eq!(scene.metrics.queue_problem.get_or_create(&Reason { reason: "forbidden" }).get(), 1);
    scene
        .until("recovery", |scene| {
            scene.readiness.notes().is_empty() && scene.state.borrow().problem.is_empty()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_recommendation_only_causes_an_event_unless_the_setting_is_on_and_then_a_replacement_comes_first() {
    let mut scene = Scene::new(PLAIN);
    scene.claim("a", "i-1", json!({})).await;
    scene.cloud.send(QUEUE, &rebalance("i-1"));
    scene.consume(1);
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    assert!(scene.taken().is_empty() && scene.planner.created.lock().unwrap().is_empty());

    let mut scene = Scene::new(Policy { drain_on_rebalance: true });
    scene.claim("a", "i-1", json!({})).await;
    *scene.planner.plan.lock().unwrap() =
        SimulateResponse { new_nodes: vec![PlannedNode::default()], ..SimulateResponse::default() };
    scene.cloud.send(QUEUE, &rebalance("i-1"));
    scene.consume(1);
    scene.until("a replacement", |scene| !scene.planner.created.lock().unwrap().is_empty()).await;
    let request = scene.planner.created.lock().unwrap()[0].clone();
    assert_eq!(request.command_id, "rebalance-uid-a");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.taken().is_empty(), "not before the replacement is ready");
    assert_eq!(scene.left_in_queue(), 1);
    scene
        .claim("b", "i-2", json!({"annotations": {"karpenter.sh/disruption-command": "rebalance-uid-a"}}))
        .await;
    scene.until("the drain", |scene| scene.taken() == ["a"]).await;
    scene.until("the queue to be empty", |scene| scene.left_in_queue() == 0).await;
    assert_eq!((scene.metrics.failed.get(), scene.metrics.poisoned.get()), (0, 0));
}
