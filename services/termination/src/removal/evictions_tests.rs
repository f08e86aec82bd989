use std::collections::BTreeSet as Set;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use runtime::watch::Change;
use serde_json::json;

use super::*;
use crate::cluster::{BoundPod, Fact};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_000 + millis).unwrap()
}

/// `count` pods of one app on one node.
fn pods(cluster: &mut ClusterState, app: &str, count: usize) -> Vec<Arc<Pod>> {
    for number in 0..count {
        let pod: BoundPod = serde_json::from_value(json!({
            "metadata": {"name": format!("{app}-{number}"), "namespace": "shop", "uid": format!("{app}-{number:04}"),
                         "labels": {"app": app}},
            "spec": {"nodeName": app, "containers": []}, "status": {"phase": "Running"},
        }))
        .unwrap();
        cluster.apply(Fact::Pod(Change::Applied(Arc::new(pod))), &mut Set::new());
    }
    cluster.pods_on(app)
}

fn budget(cluster: &mut ClusterState, name: &str, app: &str, allowed: i32) {
    let pdb: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3},
    }))
    .unwrap();
    cluster.apply(Fact::Pdb(Change::Applied(Arc::new(pdb))), &mut Set::new());
}

/// The same pods are unready now.
fn unready(cluster: &mut ClusterState, app: &str, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        let pod: BoundPod = serde_json::from_value(json!({
            "metadata": {"name": format!("{app}-{number}"), "namespace": "shop", "uid": format!("{app}-{number:04}"),
                         "labels": {"app": app}},
            "spec": {"nodeName": app, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
        }))
        .unwrap();
        cluster.apply(Fact::Pod(Change::Applied(Arc::new(pod))), &mut Set::new());
    }
}

fn refused() -> Evicted {
    Evicted::Refused { code: 429, words: "Cannot evict pod".into() }
}

#[test]
fn a_round_fills_the_slots_and_the_next_one_waits_for_answers() {
    let (mut cluster, mut evictions) = (ClusterState::default(), Evictions::default());
    let all = pods(&mut cluster, "web", 250);
    evictions.want(&cluster, &"web".into(), &all, at(0));
    let first = evictions.admit(&cluster, at(0), 100);
    assert_eq!(first.len(), 100);
    assert!(evictions.admit(&cluster, at(0), 100).is_empty(), "all slots are taken");
    for pod in &first[..40] {
        evictions.answered(pod, &Evicted::Yes, &cluster, at(10), 0);
    }
    let second = evictions.admit(&cluster, at(20), 100);
    assert_eq!(second.len(), 40);
    assert!(second.iter().all(|pod| !first.contains(pod)), "those that had a yes are not asked for again");
}

// Cases: TRM-13
#[test]
fn a_thousand_pods_behind_a_spent_budget_cost_one_probe_at_a_time() {
    let (mut cluster, mut evictions) = (ClusterState::default(), Evictions::default());
    budget(&mut cluster, "db", "db", 0);
    let all = pods(&mut cluster, "db", 1000);
    evictions.want(&cluster, &"db".into(), &all, at(0));
    let mut asked = 0;
    for millis in (0..10_000).step_by(20) {
        for pod in evictions.admit(&cluster, at(millis), 100) {
            asked += 1;
            evictions.answered(&pod, &refused(), &cluster, at(millis), 0);
        }
    }
    assert!((3..20).contains(&asked), "{asked} requests in ten seconds");
    // It opens for three: three are asked for at once, whatever was refused before.
    budget(&mut cluster, "db", "db", 3);
    assert_eq!(evictions.admit(&cluster, at(10_000), 100).len(), 3);
    assert!(evictions.admit(&cluster, at(10_000), 100).is_empty(), "no more than it allows");
}

// Cases: EVQ-17
#[test]
fn a_pod_that_is_no_longer_wanted_is_not_asked_for_and_its_answer_is_no_surprise() {
    let (mut cluster, mut evictions) = (ClusterState::default(), Evictions::default());
    let all = pods(&mut cluster, "web", 2);
    evictions.want(&cluster, &"web".into(), &all, at(0));
    let asked = evictions.admit(&cluster, at(0), 1);
    evictions.want(&cluster, &"web".into(), &[], at(0));
    assert!(evictions.admit(&cluster, at(0), 100).is_empty());
    evictions.answered(&asked[0], &Evicted::Yes, &cluster, at(1), 0);
    assert_eq!(evictions.len(), 0);
    assert_eq!(evictions.next_turn(&cluster, at(1), 100), None);
}

#[test]
fn budgets_that_come_and_go_are_followed() {
    let (mut cluster, mut evictions) = (ClusterState::default(), Evictions::default());
    let all = pods(&mut cluster, "web", 10);
    evictions.want(&cluster, &"web".into(), &all, at(0));
    budget(&mut cluster, "web", "web", 1);
    let first = evictions.admit(&cluster, at(0), 100);
    assert_eq!(first.len(), 1, "the budget came after the pods were wanted");
    budget(&mut cluster, "more", "web", 1);
    assert_eq!(evictions.admit(&cluster, at(0), 100).len(), 9, "of two budgets: each is asked for by itself");
    for pod in &first {
        evictions.answered(pod, &refused(), &cluster, at(5), 0);
    }
    assert!(evictions.last_words(&first[0].uid).is_some());
    assert!(evictions.next_turn(&cluster, at(5), 100).is_some_and(|turn| turn > at(5)), "after its backoff");
}

#[test]
fn pods_that_the_budget_ignores_never_queue_behind_refused_ones() {
    let (mut cluster, mut evictions) = (ClusterState::default(), Evictions::default());
    budget(&mut cluster, "db", "db", 0);
    let all = pods(&mut cluster, "db", 30);
    evictions.want(&cluster, &"db".into(), &all, at(0));
    let probe = evictions.admit(&cluster, at(0), 100);
    assert_eq!(probe.len(), 1, "healthy pods of a spent budget cost one probe");
    evictions.answered(&probe[0], &refused(), &cluster, at(1), 0);
    // The budget is met without them, so the eviction API lets unready pods go at once.
    unready(&mut cluster, "db", 10..20);
    evictions.want(&cluster, &"db".into(), &cluster.pods_on("db"), at(2));
    let asked = evictions.admit(&cluster, at(2), 100);
    let names: Set<String> = asked.iter().map(|pod| pod.name.to_string()).collect();
    assert_eq!(names, (10..20).map(|number| format!("db-{number}")).collect::<Set<String>>());
    // They are not counted by the budget: its own probe goes on beside them.
    assert_eq!(evictions.admit(&cluster, at(5_000), 100).len(), 1);
}
