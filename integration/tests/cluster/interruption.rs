//! AWS's warnings, end to end: through EventBridge and SQS into drains, with real services and a real API server.

mod accounts;
mod forged;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use integration::{Service, Stack, Test, aws, eventually, jaeger, test};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::interruption_scene::{Interruptions, SERVICE, queue_url, queued, send, spot_warning, sqs};
use crate::removal_scene::Options;
use crate::termination_soak::are_gone;
use accounts::a_message_of_another_account_is_refused_unless_a_setting_names_it;
use forged::a_warning_that_ec2_does_not_confirm_drains_within_budgets;

const RECEIVED: &str = "karpenter_interruption_received_messages_total";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("interruption", alone, a_spot_warning_drains_the_node_by_the_warnings_own_time),
        test!("interruption", alone, every_other_kind_of_message_is_acted_on_or_only_told),
        test!("interruption", alone, bad_messages_are_counted_explained_and_removed)
            .expecting(&["message removed without being handled"]),
        test!("interruption", alone, a_message_of_another_account_is_refused_unless_a_setting_names_it),
        test!("interruption", alone, a_warning_that_ec2_does_not_confirm_drains_within_budgets),
        test!("interruption", alone, a_message_waits_for_a_termination_service_that_is_away),
        test!("interruption", alone, a_queue_deleted_and_made_again_is_read_again)
            .expecting(&["the interruption queue cannot be read"]),
        test!("interruption", alone, failed_status_checks_and_scheduled_events_are_acted_on_without_a_queue),
        test!("interruption", alone, a_missing_rule_is_named_and_made_only_when_told_so),
        test!("interruption", alone, a_storm_survives_a_kill_and_drains_each_node_once)
            .expecting(&["message removed without being handled"]),
    ]
}

async fn a_spot_warning_drains_the_node_by_the_warnings_own_time(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "warned", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    all.scene.node_is_ready(&name, true).await?;
    // Holds the drain, so that its deadline can be seen.
    all.scene.budget("held", json!({"maxUnavailable": 0})).await?;
    all.scene.pod("held", &name, json!({})).await?;
    all.warn("spot", &instance)?;
    let event = all.told_once(&instance, "MESSAGE_KIND_SPOT_INTERRUPTED").await?;
    ensure!(event["action"] == "ACTION_DRAIN", "{event}");
    let nodes: Api<Node> = Api::all(all.scene.client.clone());
    eventually("the node to be tainted", || async {
        let taints = nodes.get(&name).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
        Ok(taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted").then_some(()))
    })
    .await?;
    let claim = all.claims().await?.get(&name).await?;
    let annotations = claim.metadata.annotations.unwrap_or_default();
    let deadline: jiff::Timestamp =
        annotations["karpenter.sh/nodeclaim-termination-timestamp"].parse().context("deadline")?;
    let warned: jiff::Timestamp = event["eventTime"].as_str().context("eventTime")?.parse()?;
    ensure!(deadline.duration_since(warned).as_secs() == 120, "{deadline} is not two minutes after {warned}");
    ensure!(annotations["karpenter.sh/termination-reason"] == "spot_interrupted", "{annotations:?}");
    for (object, reason) in [(&name, "SpotInterrupted"), (&name, "TerminatingOnInterruption")] {
        all.scene.event("default", object, reason).await?;
    }
    let budgets = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                         "metadata": {"namespace": all.scene.namespace}});
    let budgets = integration::kubernetes::api_of(&all.scene.client, &budgets).await?;
    budgets.delete("held", &DeleteParams::default()).await?;
    all.scene.is_gone(&name, &instance).await?;
    all.queue_is_empty().await?;
    let count = |name: &str, labels: &str| all.watcher.metric(name, labels);
    ensure!(count("karpenter_interruption_received_messages_total", "spot_interrupted")? == 1.0);
    ensure!(count("karpenter_nodeclaims_disrupted_total", "reason=\"spot_interrupted\"")? == 1.0);
    ensure!(count("karpenter_interruption_message_queue_duration_seconds_count", "")? >= 1.0);
    // Its own end comes back as state changes, which are no news.
    ensure!(count("karpenter_nodeclaims_disrupted_total", "")? == 1.0);
    one_trace(&all).await?;
    all.end()
}

/// Warning and drain continue the trace that the claim carries.
async fn one_trace(all: &Interruptions) -> Result<()> {
    eventually("warning and drain in the node's trace", || async {
        let spans = jaeger::trace(all.stack(), Interruptions::trace_id())?;
        let has = |service: &str, operation: &str| {
            spans.iter().any(|span| span.service.ends_with(service) && span.operation == operation)
        };
        Ok((has("interruption-watcher", "interruption")
            && has("termination", "drain node")
            && has("termination", "terminate nodeclaim"))
        .then_some(()))
    })
    .await
}

async fn every_other_kind_of_message_is_acted_on_or_only_told(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "kinds", &[]).await?;
    let kinds = [
        (
            "capacity-reservation",
            "CAPACITY_RESERVATION_INTERRUPTED",
            "CapacityReservationInstanceInterrupted",
            true,
        ),
        ("state-change", "INSTANCE_STOPPED", "InstanceStopping", true),
        ("scheduled-change", "SCHEDULED_CHANGE", "InstanceUnhealthy", true),
        ("rebalance", "REBALANCE_RECOMMENDATION", "SpotRebalanceRecommendation", false),
    ];
    let mut nodes = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let name = all.scene.name(number);
        let instance = all.spot_node(&name).await?;
        all.warn(kind.0, &instance)?;
        nodes.push((name, instance));
    }
    for ((name, instance), (_, kind, reason, goes)) in nodes.iter().zip(kinds) {
        let event = all.told_once(instance, &format!("MESSAGE_KIND_{kind}")).await?;
        let action = if goes { "ACTION_DRAIN" } else { "ACTION_NONE" };
        ensure!(event["action"] == action, "{event}");
        all.scene.event("default", name, reason).await?;
        if goes {
            all.scene.is_gone(name, instance).await?;
        }
    }
    all.queue_is_empty().await?;
    let (stays, instance) = nodes.last().context("four nodes")?;
    let claim = all.claims().await?.get(stays).await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "a recommendation is only told");
    all.remove(stays, instance).await?;
    all.end()
}

async fn bad_messages_are_counted_explained_and_removed(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "bad", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    let good = spot_warning(all.stack(), &instance)?;
    let with = |pointer: &str, value: Value| -> Result<String> {
        let mut body: Value = serde_json::from_str(&good)?;
        *body.pointer_mut(pointer).context("a place")? = value;
        Ok(body.to_string())
    };
    let bad = [
        (good[..60].to_owned(), "MALFORMED", "no JSON"),
        (with("/detail", json!(null))?, "MALFORMED", "detail: expected an object"),
        (with("/detail/instance-id", json!({"a": 1}))?, "MALFORMED", "detail.instance-id"),
        (with("/time", json!(17))?, "MALFORMED", "time"),
        (with("/source", json!(["aws.ec2"]))?, "MALFORMED", "source"),
        (with("/region", json!("eu-central-1"))?, "SPOT_INTERRUPTED", "eu-central-1"),
        (with("/account", json!("999999999999"))?, "SPOT_INTERRUPTED", "from account \"999999999999\""),
        (with("/detail/instance-id", json!("i-0123456789abcdef0"))?, "SPOT_INTERRUPTED", "no NodeClaim"),
        (with("/detail-type", json!("Something New"))?, "NO_OP", "Something New"),
        (
            with("/id", json!("x".repeat(200_000)))?.replace(&instance, "i-1"),
            "SPOT_INTERRUPTED",
            "no NodeClaim",
        ),
    ];
    for (body, kind, words) in &bad {
        let answer = all.call("Replay", &json!({"body": body}))?;
        ensure!(answer["kind"] == format!("MESSAGE_KIND_{kind}"), "{words}: {answer}");
        let explained = answer["explanation"].as_str().unwrap_or_default();
        ensure!(explained.contains(words), "{words}: {explained}");
    }
    let answer = all.call("Replay", &json!({"body": good}))?;
    ensure!(answer["action"] == "ACTION_DRAIN" && answer["nodeClaims"][0]["name"] == name, "{answer}");

    let bodies: Vec<String> = bad.iter().map(|(body, ..)| body.clone()).collect();
    send(all.stack(), &bodies)?;
    all.queue_is_empty().await?;
    // Counted after they are removed, and SQS may deliver a message more than once.
    eventually("the statistics to show all of them", || async {
        let counted = all.watcher.metric("karpenter_interruption_received_messages_total", "malformed")?;
        let stats = all.call("GetStats", &json!({}))?;
        let count = |kind: &str| stats["received"][kind].as_str().and_then(|text| text.parse::<u64>().ok());
        Ok((counted >= 5.0 && count("malformed") >= Some(5) && count("no_op") >= Some(1)).then_some(()))
    })
    .await?;
    let claim = all.claims().await?.get(&name).await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "Replay and bad messages do nothing");
    all.remove(&name, &instance).await?;
    all.end()
}

async fn a_message_waits_for_a_termination_service_that_is_away(stack: Stack) -> Result<()> {
    let mut all = Interruptions::new(stack, "away", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    all.scene.service.kill(all.stack())?;
    all.warn("spot", &instance)?;
    eventually("failed tries", || async {
        Ok((all.watcher.metric("karpenter_interruption_failed_messages_total", "")? >= 2.0).then_some(()))
    })
    .await?;
    ensure!(queued(all.stack())? == 1, "the message must stay");
    let again =
        integration::Service::start(all.stack(), "termination", 1, &["--garbage-collection-interval=3s"])?;
    all.scene.service = again;
    all.scene.is_gone(&name, &instance).await?;
    all.queue_is_empty().await?;
    all.end()
}

async fn a_queue_deleted_and_made_again_is_read_again(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "requeued", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    let url = queue_url(all.stack())?;
    sqs(all.stack(), "DeleteQueue", &json!({"QueueUrl": url}))?;
    eventually("the problem to be told", || async {
        let stats = all.call("GetStats", &json!({}))?;
        let problem = stats["queueProblem"].as_str().unwrap_or_default();
        Ok(problem.contains("no such queue").then_some(()))
    })
    .await?;
    ensure!(all.watcher.metric("karpenter_interruption_queue_problem", "not_found")? == 1.0);
    // Ready nevertheless, with the trouble in the detail.
    let detail = all.watcher.admin_get("/readyz")?;
    ensure!(detail.starts_with("ok") && detail.contains("settings.interruptionQueue"), "{detail}");
    let told = all.scene.event("kube-system", &all.watcher.identity(), "Degraded").await?;
    ensure!(told.contains("no such queue"), "{told}");
    let queue = all.stack().var("INTERRUPTION_QUEUE")?;
    sqs(all.stack(), "CreateQueue", &json!({"QueueName": queue}))?;
    send(all.stack(), &[spot_warning(all.stack(), &instance)?])?;
    all.scene.is_gone(&name, &instance).await?;
    ensure!(all.watcher.metric("karpenter_interruption_queue_problem", "")? == 0.0);
    all.scene.event("kube-system", &all.watcher.identity(), "Recovered").await?;
    all.end()
}

async fn failed_status_checks_and_scheduled_events_are_acted_on_without_a_queue(stack: Stack) -> Result<()> {
    let arguments = ["--interruption-queue=", "--instance-status-interval=1s"];
    let all = Interruptions::new(stack, "status", &arguments).await?;
    let mut nodes = Vec::new();
    for number in 0..5 {
        let name = all.scene.name(number);
        nodes.push((all.scene.node(&name, &Options::default()).await?, name));
    }
    let (impaired, retired, young) = (&nodes[0], &nodes[1], &nodes[2]);
    let set = |body: Value| aws::put(all.stack(), "/status-event", &body);
    set(json!({"id": impaired.0, "impaired": ["instance"], "sinceSeconds": 300}))?;
    set(json!({"id": retired.0, "code": "instance-retirement", "notBeforeSeconds": 3600}))?;
    set(json!({"id": young.0, "impaired": ["system"], "sinceSeconds": 5}))?;
    for ((instance, name), kind, action) in
        [(impaired, "INSTANCE_STATUS", "TERMINATE_NOW"), (retired, "EVENT_STATUS", "DRAIN")]
    {
        let event = all.told_once(instance, &format!("MESSAGE_KIND_{kind}")).await?;
        ensure!(event["action"] == format!("ACTION_{action}"), "{event}");
        all.scene.event("default", name, "InstanceUnhealthy").await?;
        all.scene.is_gone(name, instance).await?;
    }
    for category in ["InstanceStatus", "EventStatus"] {
        let count = all.watcher.metric("karpenter_interruption_instance_status_unhealthy_total", category)?;
        ensure!(count == 1.0, "{category}: {count}");
    }
    ensure!(
        all.claims().await?.get(&young.1).await?.metadata.deletion_timestamp.is_none(),
        "two minutes first"
    );
    aws::put(all.stack(), "/status-event", &json!({"id": young.0, "impaired": []}))?;
    for (instance, name) in &nodes[2..] {
        all.remove(name, instance).await?;
    }
    all.end()
}

async fn a_missing_rule_is_named_and_made_only_when_told_so(stack: Stack) -> Result<()> {
    let mut all = Interruptions::new(stack, "rules", &[]).await?;
    let cluster = all.stack().var("CLUSTER_NAME")?.to_owned();
    let problem = |stats: &Value| -> Vec<String> {
        let rules = stats["rules"].as_array().cloned().unwrap_or_default();
        let broken = rules.iter().filter(|rule| rule["ok"] != true);
        broken.map(|rule| rule["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    eventually("all five rules to be found", || async {
        let stats = all.call("GetStats", &json!({}))?;
        let known = stats["rules"].as_array().map_or(0, Vec::len) == 5;
        Ok((known && problem(&stats).is_empty()).then_some(()))
    })
    .await?;
    let rule = format!("{cluster}-RebalanceRule");
    events(
        all.stack(),
        "RemoveTargets",
        &json!({"Rule": rule, "Ids": ["KarpenterInterruptionQueueTarget"]}),
    )?;
    events(all.stack(), "DeleteRule", &json!({"Name": rule}))?;
    // It looks at its start; a later look is minutes away.
    all.watcher.stop(all.stack())?;
    let watcher = integration::Service::start(all.stack(), "interruption-watcher", 1, &[])?;
    eventually("the missing rule in the readiness detail", || async {
        let detail = watcher.admin_get("/readyz")?;
        Ok((detail.starts_with("ok") && detail.contains("RebalanceRule: no rule sends")).then_some(()))
    })
    .await?;
    ensure!(watcher.metric("karpenter_interruption_rule_missing", "RebalanceRule")? == 1.0);
    watcher.stop(all.stack())?;
    let watcher = integration::Service::start(all.stack(), "interruption-watcher", 1, &["--manage-rules"])?;
    eventually("the rule to be made", || async {
        let found = events(all.stack(), "ListTargetsByRule", &json!({"Rule": rule}))?;
        let arn = found["Targets"][0]["Arn"].as_str().unwrap_or_default().to_owned();
        Ok(arn.ends_with(&cluster).then_some(()))
    })
    .await?;
    all.watcher = watcher;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    all.warn("rebalance", &instance)?;
    all.told_once(&instance, "MESSAGE_KIND_REBALANCE_RECOMMENDATION")
        .await
        .context("through the new rule")?;
    all.remove(&name, &instance).await?;
    all.end()
}

fn events(stack: &Stack, action: &str, body: &Value) -> Result<Value> {
    let region = stack.var("AWS_REGION")?;
    let scope = format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/{region}/events/aws4_request, SignedHeaders=host, Signature=0"
    );
    let mut answer = ureq::post(stack.var("AWS_ENDPOINT_URL")?)
        .header("authorization", scope)
        .header("x-amz-target", format!("AWSEvents.{action}"))
        .header("content-type", "application/x-amz-json-1.1")
        .send(body.to_string())
        .with_context(|| format!("{action} {body}"))?;
    let text = answer.body_mut().read_to_string()?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn a_storm_survives_a_kill_and_drains_each_node_once(stack: Stack) -> Result<()> {
    storm(stack, "storm", 40, 400, &[Duration::from_millis(700)]).await
}

/// Messages with a fifth of duplicates, a twentieth malformed and others' instances, in no order, for all nodes but ten; the
/// one of two watchers is killed after each of `kills`.
pub(crate) async fn storm(
    stack: Stack,
    name: &str,
    nodes: usize,
    messages: usize,
    kills: &[Duration],
) -> Result<()> {
    let mut all = Interruptions::new(stack, name, &[]).await?;
    let beside = Service::start(all.stack(), SERVICE, 2, &[])?;
    let make = |number: usize| {
        let all = &all;
        async move {
            let name = all.scene.name(number);
            let instance = all.spot_node(&name).await?;
            anyhow::Ok((name, instance))
        }
    };
    let made: Vec<(String, String)> =
        futures::stream::iter(0..nodes + 10).map(make).buffer_unordered(16).try_collect().await?;
    let (leaving, staying) = made.split_at(nodes);
    let mut bodies = Vec::with_capacity(messages);
    for (_, instance) in leaving {
        bodies.push(spot_warning(all.stack(), instance)?);
    }
    let foreign = spot_warning(all.stack(), "i-0ffffffffffffffff")?;
    for number in nodes..messages {
        bodies.push(match number % 20 {
            0 => foreign[..number % foreign.len()].to_owned() + "{",
            1..=4 => bodies[(number * 31) % nodes].clone(),
            _ => foreign.replace("0ffff", &format!("{:05x}", number % 0xf_ffff)),
        });
    }
    shuffle(&mut bodies);
    let began = std::time::Instant::now();
    send(all.stack(), &bodies)?;
    println!("{messages} messages sent in {:?}", began.elapsed());
    let mut own = 0.0;
    for wait in kills {
        tokio::time::sleep(*wait).await;
        own += all.watcher.metric(RECEIVED, "")?;
        all.kill_and_restart()?;
    }
    are_gone(&all.scene, leaving).await?;
    println!("{nodes} nodes gone after {:?}", began.elapsed());
    all.queue_is_empty().await?;
    println!("queue empty after {:?}", began.elapsed());
    // What a killed one had in hand is delivered again, so that together they may receive more than was sent.
    let shared = beside.metric(RECEIVED, "")?;
    println!("received before each kill {own}, by the watcher beside it {shared}");
    ensure!(own > 0.0 && shared > 0.0, "replicas share the work");
    all.scene.no_drain_is_left().await?;
    let pool = format!("nodepool=\"{}\"", all.scene.namespace);
    let drained = all.scene.service.metric("karpenter_nodes_drained_total", &pool)?;
    ensure!(drained == nodes as f64, "{drained} drains of {nodes} nodes");
    for (name, instance) in staying {
        let claim = all.claims().await?.get(name).await?;
        ensure!(claim.metadata.deletion_timestamp.is_none(), "nobody warned about {name}");
        ensure!(all.scene.instance_lives(instance)?, "{instance}");
    }
    for (name, _) in staying {
        all.scene.delete_claim(name).await?;
    }
    are_gone(&all.scene, staying).await?;
    beside.stop(all.stack())?;
    all.end()
}

/// The same order in every run.
fn shuffle(bodies: &mut [String]) {
    let mut seed = 0x9e37_79b9_u64;
    for at in (1..bodies.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bodies.swap(at, (seed >> 33) as usize % (at + 1));
    }
}
