//! The cluster's state driven by objects as watches deliver them: what counts as capacity, who waits, and what a decision on it
//! would be.

mod excerpts;
mod exclusive;
mod forced;
mod launches;
mod left_over;
mod overlays;
mod rebuilt;
mod refusals;
mod volumes;

use std::sync::Arc;

use api::{NodeClaim, NodePool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use model::catalog::{CapacityType, InstanceType, LabelMap, Offering};
use model::labels;
use model::node::NodeState;
use model::price::MicroDollars;
use model::resources::Resources;
use runtime::watch::{Change, Streamed};
use serde_json::{Value, json};
use solver::{Options, Plan, Snapshot};

use super::pods::{PodKey, Shown};
use super::state::State;
use crate::catalog::Offer;

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn kind(name: &str, cpu: i64) -> InstanceType {
    let amounts = |cpu: i64| {
        let gib = |n: i64| model::quantity::Quantity::from_bytes(n << 30);
        Resources::new()
            .with("cpu", model::quantity::Quantity::from_units(cpu))
            .with("memory", gib(4 * cpu))
            .with("pods", model::quantity::Quantity::from_units(110))
    };
    let offering = |zone: &str, price: i64| Offering {
        zone: Arc::from(zone),
        zone_id: None,
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars::new(price * cpu),
        available: true,
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    };
    let own: LabelMap = [
        (labels::ARCH.to_owned(), labels::AMD64.to_owned()),
        (labels::OS.to_owned(), labels::LINUX.to_owned()),
    ]
    .into();
    InstanceType::new(
        name,
        &own,
        amounts(cpu),
        Resources::new(),
        vec![offering("z1", 40_000), offering("z2", 41_000)],
    )
}

fn pool(limit: Option<&str>) -> Arc<NodePool> {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "pool-uid", "generation": 1},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        }}, "disruption": {"consolidateAfter": "30s"}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    });
    if let Some(cpu) = limit {
        pool["spec"]["limits"] = json!({"cpu": cpu});
    }
    Arc::new(serde_json::from_value(pool).unwrap())
}

fn state() -> State {
    let mut state = State { window: SignedDuration::from_secs(20), ..State::default() };
    let types = Arc::new(vec![kind("a.large", 2), kind("a.xlarge", 4), kind("a.2xlarge", 8)]);
    let offer =
        Offer { version: 1, types: Arc::new([(Arc::from("default"), types)].into()), ..Offer::default() };
    state.offer_changed(offer, at(0));
    state.pool(Change::Reset(vec![pool(None)]), at(0));
    state.triggers.clear();
    state
}

fn uid(number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

fn pod(number: u32, patch: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": format!("pod-{number}"), "uid": uid(number),
            "labels": {"app": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    });
    merge(&mut pod, patch);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn bound(number: u32, node: &str) -> Arc<Pod> {
    pod(number, json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": []}}))
}

fn claim(name: &str, nominated: &[u32], patch: Value) -> Arc<NodeClaim> {
    let uids: Vec<String> = nominated.iter().map(|n| uid(*n)).collect();
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {labels::NODEPOOL: "general"},
            "annotations": {labels::NOMINATED_PODS: super::nomination_text(uids.iter().map(String::as_str))}},
        "spec": {
            "requirements": [
                {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["a.xlarge", "a.2xlarge"]},
                {"key": labels::ZONE, "operator": "In", "values": ["z1", "z2"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        }
    });
    merge(&mut claim, patch);
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn launched(name: &str, nominated: &[u32]) -> Arc<NodeClaim> {
    claim(
        name,
        nominated,
        json!({
            "metadata": {"labels": {labels::NODEPOOL: "general", labels::ZONE: "z1", labels::INSTANCE_TYPE: "a.xlarge",
                labels::CAPACITY_TYPE: "on-demand", labels::ARCH: "amd64", labels::OS: "linux"}},
            "status": {"providerID": format!("aws:///z1/{name}"),
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
        }),
    )
}

fn initialized(name: &str, nominated: &[u32], since: i64) -> Arc<NodeClaim> {
    let mut claim = serde_json::to_value(&*launched(name, nominated)).unwrap();
    claim["status"]["conditions"] = json!([{"type": "Initialized", "status": "True", "reason": "Initialized",
        "message": "", "lastTransitionTime": at(since).to_string()}]);
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn disrupted(name: &str, since: i64) -> Arc<NodeClaim> {
    let mut claim = serde_json::to_value(&*initialized(name, &[], since)).unwrap();
    let reason = json!({"type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": "Drifted",
        "lastTransitionTime": at(since).to_string()});
    claim["status"]["conditions"].as_array_mut().unwrap().push(reason);
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn node(name: &str, claim: &str, patch: Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "labels": {labels::NODEPOOL: "general", labels::ZONE: "z1",
            labels::INSTANCE_TYPE: "a.xlarge", labels::CAPACITY_TYPE: "on-demand", labels::HOSTNAME: name,
            labels::ARCH: "amd64", labels::OS: "linux",
            labels::REGISTERED: "true", labels::INITIALIZED: "true"}},
        "spec": {"providerID": format!("aws:///z1/{claim}")},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}
    });
    merge(&mut node, patch);
    Arc::new(serde_json::from_value(node).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn shown(state: &State, number: u32) -> Shown {
    let key = PodKey { namespace: Arc::from("default"), name: Arc::from(format!("pod-{number}")) };
    state.pods.records.get(&key).map(|r| r.shown.clone()).unwrap_or_default()
}

fn on(name: &str) -> Shown {
    Shown::On(Arc::from(name))
}

fn decide(state: &State) -> Plan {
    solver::solve(&Snapshot::build(state.input()), &Options::default(), &|| true)
}

#[test]
fn a_pod_that_waits_is_pending_and_triggers_once() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.pod(
        Streamed::Applied(pod(
            2,
            json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
        )),
        at(0),
    );
    assert_eq!(state.triggers.len(), 1);
    assert_eq!((shown(&state, 1), shown(&state, 2)), (Shown::Pending, Shown::No));
    assert_eq!(decide(&state).new_nodes.len(), 1);
    state.triggers.clear();
    state.pod(Streamed::Applied(pod(1, json!({"status": {"message": "again"}}))), at(1));
    assert!(state.triggers.is_empty(), "nothing new about it");
}

#[test]
fn a_pod_that_starts_on_its_node_changes_nothing_for_decisions() {
    let mut state = state();
    state.node(Change::Applied(node("ip-1", "other", json!({}))), at(0));
    let running = |more: Value| {
        let mut patch =
            json!({"spec": {"nodeName": "ip-1"}, "status": {"phase": "Running", "conditions": []}});
        merge(&mut patch, json!({"status": more}));
        Streamed::Applied(pod(1, patch))
    };
    state.pod(running(json!({})), at(0));
    state.delta = Default::default();
    let ready = json!({"startTime": at(1).to_string(), "conditions": [{"type": "Ready", "status": "True"}]});
    state.pod(running(ready), at(1));
    assert!(!state.delta.any && state.delta.changes.is_empty(), "no new view for it");
    state.pod(Streamed::Deleted(pod(1, json!({}))), at(2));
    assert!(state.delta.any, "but it is missed when it is gone");
}

// Cases: SCH-B.8-18, SCH-B.10-1, SCH-H.1-6
#[test]
fn pods_of_an_unlaunched_claim_are_not_provided_for_again_wherever_it_may_come_to_be() {
    let mut state = state();
    // It accepts two zones, as the claim does: no label of the claim says which it will be.
    let zones = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": labels::ZONE, "operator": "In", "values": ["z1", "z2"]}]}]}}}}});
    state.pod(Streamed::Applied(pod(1, zones)), at(0));
    assert_eq!(decide(&state).new_nodes.len(), 1);
    state.assume(claim("general-x", &[1], json!({})), at(0));
    assert_eq!(shown(&state, 1), on("general-x"));
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty() && plan.unschedulable.is_empty(), "{plan:?}");
}

// Cases: SCH-B.8-18
#[test]
fn a_restart_in_the_middle_of_a_launch_comes_to_the_same() {
    let mut state = state();
    // Claims before pods, pods before claims: lists arrive in any order.
    list_pods(&mut state, vec![pod(1, json!({})), pod(2, json!({}))], at(0));
    state.claim(Change::Reset(vec![claim("general-x", &[1, 2], json!({}))]), at(0));
    assert_eq!((shown(&state, 1), shown(&state, 2)), (on("general-x"), on("general-x")));
    assert!(decide(&state).new_nodes.is_empty());
}

// Cases: SCH-B.8-1, SCH-B.8-3, SCH-B.8-8
#[test]
fn room_that_is_certain_on_an_unlaunched_claim_is_given_to_others() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.assume(claim("general-x", &[1], json!({})), at(0));
    // Three more cores are certain: it becomes at least an a.xlarge.
    for number in 2..=4 {
        state.pod(Streamed::Applied(pod(number, json!({}))), at(0));
    }
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty(), "{plan:?}");
    state.pod(Streamed::Applied(pod(5, json!({}))), at(0));
    assert_eq!(decide(&state).new_nodes.len(), 1);
}

// Cases: SCH-B.8-5, SCH-H.1-7
#[test]
fn when_a_launch_fails_its_pods_are_decided_about_at_once() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.claim(Change::Applied(claim("general-x", &[1], json!({}))), at(0));
    state.triggers.clear();
    state.claim(Change::Deleted(claim("general-x", &[1], json!({}))), at(3));
    assert_eq!(shown(&state, 1), Shown::Pending);
    assert_eq!(state.triggers.iter().map(|(_, urgent)| *urgent).collect::<Vec<_>>(), [true]);
    assert!(state.nodes.entries.is_empty());
}

// Cases: CST-95, SCH-H.5-9, SCH-H.10-9
#[test]
fn a_claim_that_no_watch_shows_counts_until_the_api_server_denies_it() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    let created = claim("general-x", &[1], json!({"metadata": {"uid": "claim-uid"}}));
    state.assume(Arc::clone(&created), at(0));
    state.claim(Change::Reset(vec![]), at(5));
    assert_eq!(shown(&state, 1), on("general-x"), "a list may be older than the claim");
    state.pass_time(at(16));
    assert_eq!(shown(&state, 1), on("general-x"), "the watch may be late");
    assert_eq!(state.overdue_claims(at(16)), [Arc::from("general-x")]);
    assert!(state.overdue_claims(at(17)).is_empty(), "it is being looked up");
    state.pass_time(at(32));
    assert_eq!(state.overdue_claims(at(32)).len(), 1, "the lookup failed, so it comes due again");
    state.claim_absent(&Arc::from("general-x"), at(33));
    assert_eq!(shown(&state, 1), Shown::Pending);
}

// Cases: CST-96, SCH-H.10-10, SCH-H.10-11
#[test]
fn a_claim_whose_create_was_not_answered_counts_until_the_request_can_no_longer_be_carried_out() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.assume(claim("general-x", &[1], json!({})), at(0));
    state.pass_time(at(60));
    assert!(state.overdue_claims(at(60)).is_empty() && decide(&state).new_nodes.is_empty());
    state.pass_time(at(76));
    assert_eq!(state.overdue_claims(at(76)).len(), 1);
    // It was created after all.
    state.claim(Change::Applied(claim("general-x", &[1], json!({}))), at(77));
    state.claim_absent(&Arc::from("general-x"), at(78));
    assert_eq!(shown(&state, 1), on("general-x"), "what a watch has shown is there");
}

// Cases: CST-21, SCH-H.3-7
#[test]
fn node_and_claim_are_one_from_launch_to_initialisation() {
    let mut state = state();
    state.claim(Change::Applied(launched("general-x", &[])), at(0));
    assert_eq!(state.nodes.entries.keys().map(|k| &**k).collect::<Vec<_>>(), ["general-x"]);
    let starting =
        json!({"metadata": {"labels": {labels::REGISTERED: "false", labels::INITIALIZED: "false"}}});
    state.node(Change::Applied(node("ip-1", "general-x", starting)), at(1));
    state.pod(Streamed::Applied(bound(1, "ip-1")), at(1));
    assert_eq!(shown(&state, 1), on("general-x"), "still known by its claim");
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(2));
    assert_eq!(state.nodes.entries.keys().map(|k| &**k).collect::<Vec<_>>(), ["ip-1"]);
    assert_eq!(shown(&state, 1), on("ip-1"));
    assert_eq!(state.nodes.entries["ip-1"].node.state, NodeState::Ready);
    state.node(Change::Deleted(node("ip-1", "general-x", json!({}))), at(3));
    assert_eq!(state.nodes.entries.keys().map(|k| &**k).collect::<Vec<_>>(), ["general-x"]);
    state.claim(Change::Deleted(launched("general-x", &[])), at(3));
    assert!(state.nodes.entries.is_empty() && state.on.values().all(|pods| pods.is_empty()));
}

// Cases: CST-27, SCH-H.3-13
#[test]
fn room_is_kept_for_a_moment_after_initialisation_and_then_given_up() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[1], 0)), at(0));
    assert_eq!(shown(&state, 1), on("ip-1"));
    state.pass_time(at(19));
    assert_eq!(shown(&state, 1), on("ip-1"));
    state.pass_time(at(20));
    assert_eq!(shown(&state, 1), Shown::Pending, "the scheduler did not agree; decide again");
}

// Cases: SIM-4, PAR-1, SCH-B.12-1
#[test]
fn pods_of_a_node_that_goes_need_a_place_and_count_where_one_was_made() {
    let mut state = state();
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[], -100)), at(0));
    for number in 1..=3 {
        state.pod(Streamed::Applied(bound(number, "ip-1")), at(0));
    }
    assert!(decide(&state).new_nodes.is_empty());
    state.triggers.clear();
    let tainted = json!({"spec": {"taints": [{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
    state.node(Change::Applied(node("ip-1", "general-x", tainted)), at(1));
    assert!(decide(&state).new_nodes.is_empty(), "its replacements are being ordered by whoever tainted it");
    state.claim(Change::Applied(disrupted("general-x", -100)), at(1));
    let plan = decide(&state);
    assert_eq!(plan.new_nodes.iter().map(|n| n.pods.len()).sum::<usize>(), 3, "{plan:?}");
    assert_eq!(state.triggers.len(), 1, "somebody must decide about them at once");
    state.triggers.clear();
    state.trigger_again(at(11));
    assert_eq!(state.triggers.len(), 1, "and again while they have no place");

    state.assume(claim("general-y", &[1, 2, 3], json!({})), at(2));
    assert_eq!(shown(&state, 2), on("general-y"));
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty() && plan.unschedulable.is_empty(), "{plan:?}");
}

// Cases: SCH-A.3-6
#[test]
fn unlaunched_claims_count_against_limits_with_the_most_they_may_become() {
    let mut state = state();
    state.pool(Change::Reset(vec![pool(Some("10"))]), at(0));
    state.assume(claim("general-x", &[], json!({})), at(0));
    assert_eq!(state.usage()["general"].capacity.get("cpu"), "8".parse().unwrap());
    assert_eq!(state.usage()["general"].launched.get("cpu"), "0".parse().unwrap());
    // Eight cores may be used already: no room for the four that this pod needs on a node of its own.
    let large = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3500m", "memory": "1Gi"}}}]}});
    state.pod(Streamed::Applied(pod(1, large.clone())), at(0));
    state.pod(Streamed::Applied(pod(2, large)), at(0));
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty(), "{plan:?}");
    state.claim(Change::Applied(launched("general-x", &[])), at(1));
    assert_eq!(decide(&state).new_nodes.len(), 1, "it became a smaller one: {:?}", decide(&state));
}

// Cases: PDB-14, PDB-17, SCH-B.12-6, SCH-K-58, SCH-K-59, SCH-K-60, SCH-K-61
#[test]
fn a_budget_that_forbids_all_evictions_keeps_pods_where_they_are() {
    let mut state = state();
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[], -100)), at(0));
    state.pod(Streamed::Applied(bound(1, "ip-1")), at(0));
    let budget = |most: i32| {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"namespace": "default", "name": "b"},
                "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "a"}}}
            }))
            .unwrap(),
        )
    };
    let moves = |state: &State| state.pods.records.values().next().unwrap().pod.reschedulable;
    assert!(moves(&state));
    state.budget(Change::Applied(budget(0)), at(1));
    assert!(!moves(&state));
    state.budget(Change::Applied(budget(1)), at(2));
    assert!(moves(&state));
}

// Cases: PDB-19, SCH-K-63
#[test]
fn protection_for_a_limited_time_ends_by_itself() {
    let mut state = state();
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[], -100)), at(0));
    let protected = json!({"metadata": {"annotations": {labels::DO_NOT_DISRUPT: "10m"}},
        "spec": {"nodeName": "ip-1"}, "status": {"phase": "Running", "startTime": at(0).to_string()}});
    state.pod(Streamed::Applied(pod(1, protected)), at(1));
    let moves = |state: &State| state.pods.records.values().next().unwrap().pod.reschedulable;
    assert!(!moves(&state));
    state.pass_time(at(599));
    assert!(!moves(&state));
    state.pass_time(at(601));
    assert!(moves(&state));
}

// Cases: SCH-H.3-4, SCH-H.3-5, SCH-H.3-9
#[test]
fn changes_carried_over_and_a_snapshot_built_anew_decide_alike() {
    let mut state = state();
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[], -100)), at(0));
    for number in 1..=3 {
        state.pod(Streamed::Applied(bound(number, "ip-1")), at(0));
    }
    state.pod(Streamed::Applied(pod(9, json!({}))), at(0));
    let before = Snapshot::build(state.input());
    state.delta = Default::default();
    state.pod(Streamed::Deleted(bound(2, "ip-1")), at(1));
    state.pod(Streamed::Applied(pod(10, json!({}))), at(1));
    state.node(Change::Applied(node("ip-2", "general-y", json!({}))), at(2));
    state.claim(Change::Applied(launched("general-y", &[10])), at(2));
    state.pod(Streamed::Applied(bound(9, "ip-2")), at(3));
    state.pod(Streamed::Applied(pod(11, json!({}))), at(3));
    assert!(!state.delta.rebuild);
    let carried = before.apply(&state.delta.changes).unwrap();
    let options = Options::default();
    let carried = solver::solve(&carried, &options, &|| true);
    assert_eq!(carried, decide(&state));
}

// Cases: SCH-B.4-1
#[test]
fn an_unready_pool_makes_no_nodes() {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    let mut unready = serde_json::to_value(&*pool(None)).unwrap();
    unready["status"]["conditions"][0]["status"] = json!("False");
    state.pool(Change::Applied(Arc::new(serde_json::from_value(unready).unwrap())), at(1));
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty());
    assert_eq!(plan.unschedulable.len(), 1);
}

fn list_pods(state: &mut State, pods: Vec<Arc<Pod>>, now: Timestamp) {
    state.pod(Streamed::Listing, now);
    pods.into_iter().for_each(|pod| state.pod(Streamed::Applied(pod), now));
    state.pod(Streamed::Listed, now);
}

#[test]
fn a_pod_that_a_new_list_does_not_show_is_gone_once_the_list_is_complete() {
    let mut state = state();
    list_pods(&mut state, vec![pod(1, json!({})), pod(2, json!({}))], at(0));
    state.pod(Streamed::Listing, at(1));
    state.pod(Streamed::Applied(pod(2, json!({}))), at(1));
    assert_eq!(state.pending().len(), 2, "a list under way takes nothing away");
    state.pod(Streamed::Listed, at(1));
    assert_eq!(state.pending().len(), 1);
}

#[test]
fn the_state_knows_the_newest_nodeclaim_that_a_watch_has_shown() {
    let mut state = State::default();
    let claim = |version: &str| claim("c", &[], json!({"metadata": {"resourceVersion": version}}));
    state.claim(Change::Applied(claim("7")), at(0));
    assert_eq!(state.claims_version, 7);
    state.claim(Change::Deleted(claim("12")), at(0));
    state.claim(Change::Reset(vec![claim("9")]), at(0));
    assert_eq!(state.claims_version, 12, "an older list shows nothing newer");
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_the_nodeclaims_that_it_is_about_and_gets_no_older_state() {
    let view =
        |claims_version| Arc::new(super::ClusterView { claims_version, ..super::ClusterView::empty() });
    let (publish, latest) = tokio::sync::watch::channel(view(3));
    let (inbox, mut messages) = tokio::sync::mpsc::channel(8);
    let handle = super::ClusterHandle { latest, inbox };
    let ask = |version| {
        let handle = handle.clone();
        async move { handle.with_claims(version).await.map(|view| view.claims_version) }
    };
    let serve = async {
        while let Some(message) = messages.recv().await {
            if let super::Message::Fresh(reply) = message {
                let _ = reply.send(Arc::clone(&publish.borrow()));
            }
        }
    };
    let questions = async {
        assert_eq!(ask(3).await, Some(3));
        let (shown, ()) = tokio::join!(ask(5), async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            publish.send_replace(view(4));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            publish.send_replace(view(6));
        });
        assert_eq!(shown, Some(6), "not the state in between");
        assert_eq!(ask(7).await, None, "nothing rather than something older");
    };
    tokio::select! {
        () = serve => unreachable!("the questions come first"),
        () = questions => {}
    }
}
