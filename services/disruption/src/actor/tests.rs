//! The actor's own rules, with a scripted API server: what a new leader knows before it acts, what it makes of notes that others
//! wrote, what it leaves alone after a command was taken back, and repairs of claims that are leaving already.

use std::sync::{Arc, Mutex};

use api::NodeClaim;
use api::conditions;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use model::labels;
use policy::candidate::Blocked;
use policy::command::Why;
use runtime::watch::Streamed;
use serde_json::{Value, json};

use super::*;
use crate::command::Stage;
use crate::testing::{Asked, Log, actor, api_server, failure};

pub(super) fn node(conditions: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "uid-n", "resourceVersion": "5", "labels": {
            labels::NODEPOOL: "general", labels::EC2NODECLASS: "default", labels::REGISTERED: "true",
            labels::INITIALIZED: "true", labels::INSTANCE_TYPE: "m5.large", labels::ZONE: "zone-a",
            labels::CAPACITY_TYPE: "on-demand"}},
        "spec": {"providerID": "aws:///z/i-1"}, "status": {"conditions": conditions},
    }))
    .unwrap()
}

pub(super) fn claim(metadata: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "c", "uid": "uid-c", "resourceVersion": "9", "labels": {labels::NODEPOOL: "general"}},
        "spec": {"requirements": [], "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"providerID": "aws:///z/i-1", "conditions": []},
    });
    for (key, value) in metadata.as_object().into_iter().flatten() {
        claim["metadata"][key] = value.clone();
    }
    claim
}

fn noted(method: &str) -> Value {
    let note =
        json!({"id": "c1", "method": method, "removes": 1, "needs": 0, "proposed": "2026-01-01T00:00:00Z"});
    let mut claim = claim(json!({"annotations": {labels::COMMAND: note.to_string()}}));
    let holds = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    claim["status"]["conditions"] = json!([holds("Initialized"), holds("Consolidatable")]);
    claim
}

/// Everything is listed, and nothing is there.
pub(super) fn sees_nothing(actor: &mut Actor) {
    actor.learn(Change::<Node>::Reset(Vec::new()).into());
    actor.learn(Change::<NodeClaim>::Reset(Vec::new()).into());
    actor.learn(Change::<k8s_openapi::api::policy::v1::PodDisruptionBudget>::Reset(Vec::new()).into());
    actor.learn(Change::<api::NodePool>::Reset(Vec::new()).into());
    actor.learn(Change::<api::EC2NodeClass>::Reset(Vec::new()).into());
    actor.learn(Streamed::<Pod>::Listed.into());
}

fn shows(actor: &mut Actor, claim: Value, node: Node) {
    actor.learn(crate::cluster::applied(serde_json::from_value::<NodeClaim>(claim).unwrap()));
    actor.learn(crate::cluster::applied(node));
}

fn is_list_of_claims(asked: &Asked) -> bool {
    asked.method == "GET" && asked.target.starts_with("/apis/karpenter.sh/v1/nodeclaims?")
}

/// What an API server says whose claims are these.
fn lists(claims: Value) -> impl Fn(&Asked) -> (u16, Value) {
    move |asked: &Asked| match is_list_of_claims(asked) {
        true => (
            200,
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList", "metadata": {"resourceVersion": "9"}, "items": claims}),
        ),
        false => failure(404, "not scripted"),
    }
}

async fn leading(claims: Value) -> Actor {
    let (client, _) = api_server(lists(claims));
    let mut actor = actor(client, &[]);
    sees_nothing(&mut actor);
    actor.lead_or_follow().await;
    assert!(actor.term.is_some(), "it leads");
    actor
}

#[tokio::test]
async fn a_new_leader_lists_claims_before_it_acts_and_finds_what_no_watch_has_shown() {
    let actor = leading(json!([noted("drift")])).await;
    let command = actor.commands.get("c1").expect("the command of the leader before");
    assert_eq!((command.method(), command.members().len()), (policy::Method::Drift, 1));
    assert_eq!(command.memory.giving_up, None);
}

#[tokio::test]
async fn a_new_leader_that_cannot_list_claims_decides_nothing() {
    let (client, log) = api_server(|_| failure(500, "no storage"));
    let mut actor = actor(client, &[]);
    sees_nothing(&mut actor);
    actor.lead_or_follow().await;
    assert!(actor.term.is_none());
    assert!(log.lock().unwrap().iter().any(is_list_of_claims), "it was asked");
    actor.act(Timestamp::now());
    assert!(actor.commands.is_empty() && actor.marking.is_empty());
}

#[tokio::test]
async fn a_command_by_a_method_that_nobody_here_knows_is_taken_back() {
    let actor = leading(json!([noted("by-moonlight")])).await;
    let command = actor.commands.get("c1").expect("the command of another version");
    assert_eq!(command.memory.giving_up, Some(Why::Abandoned));
    assert!(!command.method().may_shrink(), "it goes back as a whole");
}

/// The command of a noted claim, begun by this process.
async fn begun() -> Actor {
    let mut actor = leading(json!([noted("emptiness")])).await;
    shows(&mut actor, noted("emptiness"), node(&json!([])));
    let name: Arc<str> = Arc::from("n");
    let command = actor.commands.get_mut("c1").unwrap();
    for member in &mut command.proposal.members {
        member.node = Arc::clone(&name);
    }
    actor.learn(crate::cluster::applied(pool(false, None)));
    actor
}

/// Nodes that a search could take if there were no commands, nor notes of any.
fn free(actor: &mut Actor, now: Timestamp) -> Vec<Arc<str>> {
    let mut plain = claim(json!({"resourceVersion": "10"}));
    plain["status"]["conditions"] = noted("emptiness")["status"]["conditions"].clone();
    actor.learn(crate::cluster::applied(serde_json::from_value::<NodeClaim>(plain).unwrap()));
    let commands = std::mem::take(&mut actor.commands);
    let budgets = actor.budgets(now);
    let (situation, _) = actor.situation(&budgets, now);
    actor.commands = commands;
    situation.entries.into_iter().map(|entry| entry.candidate.node).collect()
}

#[tokio::test]
async fn a_node_is_left_alone_for_a_while_after_a_command_for_it_was_taken_back() {
    let now = Timestamp::now();
    let landed = Why::Landed { node: Arc::from("n"), pod: "default/late".to_owned() };
    let blocked = Why::Blocked { node: Arc::from("n"), by: Blocked::NodeAnnotation };
    for why in [landed, blocked] {
        let mut actor = begun().await;
        assert_eq!(free(&mut actor, now), [Arc::from("n")], "it is empty");
        actor.given_up(&Arc::from("c1"), &why, now);
        let until = actor.node_backoff.resting_until("n", now).expect("a rest");
        assert!(until > plus(now, SignedDuration::from_secs(15)), "{until}");
        assert_eq!(
            actor.resting.resting_until("general", now),
            None,
            "nothing was launched, so the pool goes on"
        );
        assert!(free(&mut actor, now).is_empty(), "no search may take it");
        assert_eq!(free(&mut actor, until), [Arc::from("n")], "until its time is over");
    }
}

#[tokio::test]
async fn that_a_process_ended_is_no_reason_to_leave_a_node_alone() {
    let now = Timestamp::now();
    let mut actor = begun().await;
    actor.given_up(&Arc::from("c1"), &Why::Abandoned, now);
    assert_eq!(free(&mut actor, now), [Arc::from("n")]);
}

#[tokio::test]
async fn a_pool_cools_down_when_what_was_launched_is_not_used() {
    let now = Timestamp::now();
    let mut actor = begun().await;
    let command = actor.commands.get_mut("c1").unwrap();
    command.ordered.insert(Arc::from("r"), Arc::from("uid-r"));
    actor.given_up(&Arc::from("c1"), &Why::Cancelled, now);
    assert!(actor.resting.resting_until("general", now).is_some());
}

/// An API server with one claim, on which patches of its annotations are done.
fn with_claim(claim: Value) -> impl Fn(&Asked) -> (u16, Value) {
    let claim = Mutex::new(claim);
    move |asked: &Asked| {
        let mut claim = claim.lock().unwrap();
        match (asked.method.as_str(), asked.target.split('?').next()) {
            ("GET", Some("/apis/karpenter.sh/v1/nodeclaims/c")) => (200, claim.clone()),
            ("PATCH", Some("/apis/karpenter.sh/v1/nodeclaims/c")) => {
                for (key, value) in asked.body["metadata"]["annotations"].as_object().into_iter().flatten() {
                    claim["metadata"]["annotations"][key] = value.clone();
                }
                claim["metadata"]["resourceVersion"] = "10".into();
                (200, claim.clone())
            }
            _ => failure(404, "not scripted"),
        }
    }
}

fn writes(log: &Log) -> Vec<Asked> {
    let log = log.lock().unwrap();
    let of_claims = log.iter().filter(|asked| asked.target.contains("/nodeclaims/") && asked.method != "GET");
    of_claims.cloned().collect()
}

// Cases: HLT-5, HLT-6, HLT-7
#[tokio::test]
async fn a_repair_reaches_a_claim_that_is_being_deleted_and_leaves_it_alone_afterwards() {
    let now = Timestamp::now();
    let leaving = json!({"deletionTimestamp": now.to_string(), "finalizers": ["karpenter.sh/termination"],
        "annotations": {labels::TERMINATION_TIMESTAMP: plus(now, SignedDuration::from_hours(1)).to_string()}});
    let (client, log) = api_server(with_claim(claim(leaving.clone())));
    let mut actor = actor(client, &["--feature-gates=NodeRepair=true"]);
    sees_nothing(&mut actor);
    let since = plus(now, SignedDuration::from_mins(-31)).to_string();
    let sick = json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
    shows(&mut actor, claim(leaving), node(&sick));
    let name: Arc<str> = Arc::from("c");
    actor.mark(&name, now);
    let done = actor.tasks.join_next().await.expect("a write");
    actor.done(done).unwrap();
    let written = writes(&log);
    let [stamped] = written.as_slice() else { panic!("{written:?}") };
    let deadline = &stamped.body["metadata"]["annotations"][labels::TERMINATION_TIMESTAMP];
    let deadline: Timestamp = deadline.as_str().unwrap_or_default().parse().unwrap();
    assert!(stamped.method == "PATCH" && deadline <= now, "{stamped:?}");
    assert!(actor.cluster.claim("c").unwrap().deleting, "and nobody deletes it again");
    // As after every later event about it.
    actor.mark(&name, plus(now, SignedDuration::from_secs(5)));
    assert!(actor.tasks.is_empty(), "the deadline that is over stays as it is");
}

fn pool(asks: bool, granted: Option<Timestamp>) -> api::NodePool {
    let annotations =
        if asks { json!({labels::EVALUATE_NOW: labels::MANUAL_CONSOLIDATION}) } else { json!({}) };
    let condition = |at: Timestamp| {
        json!({"type": super::pools::EVALUATED, "status": "True", "reason": "ManualConsolidation",
        "message": "", "lastTransitionTime": at.to_string()})
    };
    let listed: Vec<Value> = granted.into_iter().map(condition).collect();
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "uid-p", "annotations": annotations},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
            "disruption": {"consolidateAfter": "1h"}},
        "status": {"conditions": listed},
    }))
    .unwrap()
}

#[tokio::test]
async fn a_request_to_evaluate_a_pool_is_granted_once_whoever_leads() {
    let now = Timestamp::now();
    let (long_ago, soon) =
        (plus(now, SignedDuration::from_mins(-5)), plus(now, SignedDuration::from_secs(-20)));
    for (granted, evaluated) in [(None, true), (Some(long_ago), false), (Some(soon), true)] {
        let (client, _) = api_server(lists(json!([])));
        let mut actor = actor(client, &[]);
        sees_nothing(&mut actor);
        actor.learn(crate::cluster::applied(pool(true, granted)));
        actor.lead_or_follow().await;
        actor.notice_requests(now);
        assert_eq!(actor.is_evaluated_now("general", now), evaluated, "granted {granted:?}");
        // Taken off and set again, it asks anew, although the condition is there yet.
        actor.learn(crate::cluster::applied(pool(false, granted)));
        actor.notice_requests(now);
        assert!(!actor.is_evaluated_now("general", now));
        actor.learn(crate::cluster::applied(pool(true, granted)));
        actor.notice_requests(now);
        assert!(actor.is_evaluated_now("general", now));
    }
}

#[tokio::test]
async fn a_request_that_was_granted_is_told_on_the_pool() {
    let now = Timestamp::now();
    let asking = serde_json::to_value(pool(true, None)).unwrap();
    let (client, log) = api_server(move |asked| match asked.method.as_str() {
        "GET" if asked.target.contains("/nodepools/general") => (200, asking.clone()),
        "PATCH" => (200, asking.clone()),
        _ => lists(json!([]))(asked),
    });
    let mut actor = actor(client, &[]);
    sees_nothing(&mut actor);
    actor.learn(crate::cluster::applied(pool(true, None)));
    actor.lead_or_follow().await;
    actor.notice_requests(now);
    actor.mark_pools(now);
    let done = actor.tasks.join_next().await.expect("a write");
    actor.done(done).unwrap();
    let log = log.lock().unwrap();
    let written = log.iter().find(|asked| asked.method == "PATCH").expect("a patch");
    assert!(written.target.contains("/nodepools/general/status"), "{written:?}");
    let all: Vec<conditions::Condition> =
        serde_json::from_value(written.body["status"]["conditions"].clone()).unwrap();
    assert!(conditions::is_true(&all, super::pools::EVALUATED), "{all:?}");
}

/// As after a roll-back that is over: nothing of the command is left.
async fn rolled_back(log_of: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Actor, Log) {
    let (client, log) = api_server(log_of);
    let mut actor = actor(client, &[]);
    sees_nothing(&mut actor);
    actor.lead_or_follow().await;
    shows(&mut actor, noted("drift"), node(&json!([])));
    let now = Timestamp::now();
    actor.resume(now);
    let mut command = actor.commands.remove("c1").expect("the noted command");
    command.proposal.members[0].node = Arc::from("n");
    command.stage = Stage::RolledBack;
    actor.ended.push_back(command);
    let mut plain = claim(json!({"resourceVersion": "10"}));
    plain["status"]["conditions"] = noted("drift")["status"]["conditions"].clone();
    shows(&mut actor, plain, node(&json!([])));
    (actor, log)
}

/// A claim that was made for a command.
fn made_for(command: &str) -> NodeClaim {
    let mut late = claim(json!({"name": "r", "uid": "uid-r", "annotations": {labels::COMMAND: command}}));
    late["status"] = json!({"conditions": []});
    serde_json::from_value(late).unwrap()
}

fn deletes(asked: &Asked) -> (u16, Value) {
    match asked.method.as_str() {
        "DELETE" => (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        _ => lists(json!([]))(asked),
    }
}

#[tokio::test]
async fn a_replacement_that_comes_after_its_command_was_taken_back_is_deleted() {
    let now = Timestamp::now();
    let (mut actor, log) = rolled_back(deletes).await;
    actor.learn(crate::cluster::applied(made_for("c1")));
    let (name, other): (Arc<str>, Arc<str>) = (Arc::from("r"), Arc::from("c"));
    actor.mark(&name, now);
    actor.mark(&name, now);
    let done = actor.tasks.join_next().await.expect("a deletion");
    actor.done(done).unwrap();
    actor.mark(&other, now);
    let written = writes(&log);
    let deleted: Vec<&Asked> = written.iter().filter(|asked| asked.method == "DELETE").collect();
    let [asked] = deleted.as_slice() else { panic!("{written:?}") };
    assert!(asked.target.ends_with("/nodeclaims/r?") || asked.target.ends_with("/nodeclaims/r"), "{asked:?}");
    assert_eq!(asked.body["preconditions"]["uid"], "uid-r", "never a namesake");
}

#[tokio::test]
async fn a_replacement_is_left_alone_that_is_needed_or_of_a_command_nobody_remembers() {
    let now = Timestamp::now();
    let name: Arc<str> = Arc::from("r");
    let (mut actor, log) = rolled_back(deletes).await;
    actor.learn(crate::cluster::applied(made_for("c2")));
    actor.mark(&name, now);
    // The node that it stands for goes all the same, and its pods will need it.
    actor.learn(crate::cluster::applied(made_for("c1")));
    let leaving = claim(json!({"resourceVersion": "11", "deletionTimestamp": now.to_string()}));
    actor.learn(crate::cluster::applied(serde_json::from_value::<NodeClaim>(leaving).unwrap()));
    actor.mark(&name, now);
    // And stays when that node is gone.
    actor.learn(Change::<NodeClaim>::Reset(vec![Arc::new(made_for("c1"))]).into());
    actor.mark(&name, now);
    while let Some(done) = actor.tasks.join_next().await {
        actor.done(done).unwrap();
    }
    assert!(writes(&log).iter().all(|asked| asked.method != "DELETE"), "{log:?}");
}

/// A command whose traces are on the objects, taken back by a person, where every change of the Node is refused.
async fn stuck() -> (Actor, Log) {
    let (client, log) = api_server(|asked| match asked.method.as_str() {
        "GET" if asked.target.contains("/nodeclaims/c") => (200, noted("drift")),
        "GET" if asked.target.contains("/nodes/n") => (200, serde_json::to_value(tainted()).unwrap()),
        "PATCH" if asked.target.contains("/nodeclaims/c") => (200, noted("drift")),
        "PATCH" => failure(403, "a policy forbids it"),
        _ => lists(json!([noted("drift")]))(asked),
    });
    let mut actor = actor(client, &[]);
    sees_nothing(&mut actor);
    shows(&mut actor, noted("drift"), tainted());
    actor.lead_or_follow().await;
    actor.learn(crate::cluster::applied(pool(false, None)));
    actor.cancel(&Arc::from("c1")).expect("it can be taken back");
    (actor, log)
}

fn tainted() -> Node {
    let mut node = node(&json!([]));
    let taints = json!([{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}]);
    node.spec.as_mut().unwrap().taints = Some(serde_json::from_value(taints).unwrap());
    node
}

/// Lets the commands go on, with as much time between as they ask for.
async fn carry_on(actor: &mut Actor, mut now: Timestamp) -> Timestamp {
    for _ in 0..40 {
        now = plus(now, SignedDuration::from_mins(3));
        for command in actor.commands.values_mut() {
            command.hold = None;
        }
        actor.carry_on(now);
        while let Some(done) = actor.tasks.join_next().await {
            actor.done(done).unwrap();
        }
    }
    now
}

#[tokio::test]
async fn a_taint_that_cannot_be_taken_off_ends_the_command_after_a_bounded_number_of_tries() {
    let now = Timestamp::now();
    let (mut actor, log) = stuck().await;
    carry_on(&mut actor, now).await;
    assert!(actor.commands.is_empty(), "{:?}", actor.commands);
    assert_eq!(actor.ended.back().map(|command| command.stage), Some(Stage::RolledBack));
    let tries = |log: &Log| {
        log.lock().unwrap().iter().filter(|a| a.method == "PATCH" && a.target.contains("/nodes/")).count()
    };
    assert_eq!(tries(&log), 4, "a refusal is final after four");
    let until =
        actor.left_behind.resting_until("c", Timestamp::now()).expect("a pause before it is tried again");
    assert!(until > plus(Timestamp::now(), SignedDuration::from_secs(15)));
    let budgets = actor.budgets(Timestamp::now());
    assert!(budgets["general"].values().all(|state| state.away == 1), "it counts until then: {budgets:?}");
    // Its note tells of it, yet nothing is tried before that.
    let claim = Arc::clone(actor.cluster.claim("c").unwrap());
    actor.clean(&claim, Timestamp::now());
    assert!(actor.commands.is_empty() && actor.tasks.is_empty());
    actor.clean(&claim, until);
    let again = actor.commands.get("c1").expect("it is taken up again");
    assert_eq!(again.memory.giving_up, Some(Why::Abandoned), "only to be taken back, whatever it was for");
}

#[tokio::test]
async fn a_second_look_that_nobody_answers_is_given_up_after_a_bounded_number_of_tries() {
    let mut actor = leading(json!([noted("single")])).await;
    shows(&mut actor, noted("single"), tainted());
    let now = Timestamp::now();
    let id: Arc<str> = Arc::from("c1");
    let mut pauses = Vec::new();
    for _ in 0..20 {
        let Some(command) = actor.commands.get_mut("c1") else { break };
        if command.memory.giving_up.is_some() {
            break;
        }
        command.open = 1;
        actor.checked(&id, Err(Status::unavailable("nobody is there")), now);
        pauses.extend(actor.commands["c1"].hold.map(|until| until.duration_since(now).as_secs()));
    }
    let why = actor.commands["c1"].memory.giving_up.clone();
    assert!(matches!(&why, Some(Why::Invalid(policy::command::Invalid::Unanswered(_)))), "{why:?}");
    pauses.dedup();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64], "each pause is longer");
}
