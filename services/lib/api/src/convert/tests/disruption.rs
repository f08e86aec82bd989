use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::taint::{Toleration, TolerationOperator};

use super::object;
use crate::convert::{
    Obstacle, PodBudget, budget, eviction_cost, fully_blocked, implied_disruptions_allowed, obstacle,
};

fn written(name: &str, spec: &str, allowed: i32) -> PodDisruptionBudget {
    object(&format!(
        "metadata: {{name: {name}}}\nspec: {{selector: {{matchLabels: {{app: web}}}}, {spec}}}\nstatus: {{disruptionsAllowed: {allowed}, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}}"
    ))
}

fn budgets(list: &[(&str, &str, i32)]) -> Vec<PodBudget> {
    list.iter().map(|(name, spec, allowed)| budget(&written(name, spec, *allowed)).unwrap()).collect()
}

fn pod(more: &str) -> Pod {
    object(&format!(
        "metadata: {{name: a, labels: {{app: web}}{more}}}\nspec: {{nodeName: n, containers: []}}\nstatus: {{conditions: [{{type: Ready, status: 'False'}}]}}"
    ))
}

fn held(pod: &Pod, budgets: &[PodBudget]) -> Option<Obstacle> {
    obstacle(pod, pod.metadata.labels.as_ref().unwrap(), &[], budgets, Timestamp::UNIX_EPOCH)
}

#[test]
fn a_budget_that_allows_nothing_now_holds_its_pods() {
    let tight = budgets(&[("tight", "minAvailable: 1", 0)]);
    assert_eq!(held(&pod(""), &tight), Some(Obstacle::Budget("default/tight".to_owned())));
    assert_eq!(held(&pod(""), &budgets(&[("loose", "minAvailable: 1", 1)])), None);
}

#[test]
fn two_budgets_always_hold() {
    let two = budgets(&[("a", "minAvailable: 1", 1), ("b", "minAvailable: 1", 1)]);
    assert!(matches!(held(&pod(""), &two), Some(Obstacle::SeveralBudgets(keys)) if keys.len() == 2));
}

#[test]
fn an_unready_pod_may_go_where_the_budget_says_so() {
    let lets_go = budgets(&[("a", "minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow", 0)]);
    assert_eq!(held(&pod(""), &lets_go), None);
}

// Cases: PDB-15, PDB-16, PDB-17
#[test]
fn only_rules_that_can_never_allow_an_eviction_block_for_good() {
    let labels = pod("").metadata.labels.unwrap();
    let blocked = |spec: &str| {
        fully_blocked(&pod(""), &labels, &[], &budgets(&[("a", spec, 0)]), Timestamp::UNIX_EPOCH)
    };
    assert!(
        blocked("maxUnavailable: 0") && blocked("maxUnavailable: '0%'") && blocked("minAvailable: '100%'")
    );
    assert!(!blocked("minAvailable: 1") && !blocked("maxUnavailable: 1"));
}

#[test]
fn pods_that_are_not_evicted_anyway_are_held_by_no_budget() {
    let tight = budgets(&[("tight", "minAvailable: 1", 0)]);
    let everything = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
    let pod = pod("");
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(obstacle(&pod, labels, &[everything], &tight, Timestamp::UNIX_EPOCH), None);
}

#[test]
fn do_not_disrupt_is_named_first() {
    let protected = pod(", annotations: {karpenter.sh/do-not-disrupt: 'true'}");
    assert_eq!(held(&protected, &budgets(&[("tight", "minAvailable: 1", 0)])), Some(Obstacle::DoNotDisrupt));
}

#[test]
fn a_missing_status_follows_from_the_pods() {
    let allowed = |spec: &str, expected, healthy| {
        implied_disruptions_allowed(&written("a", spec, 0), expected, healthy).unwrap()
    };
    assert_eq!(allowed("minAvailable: 2", 3, 3), 1);
    assert_eq!(allowed("minAvailable: 2", 3, 1), 0);
    assert_eq!(allowed("minAvailable: '50%'", 3, 3), 1);
    assert_eq!(allowed("maxUnavailable: '50%'", 3, 3), 2);
    assert!(implied_disruptions_allowed(&written("a", "minAvailable: half", 0), 3, 3).is_err());
}

#[test]
fn eviction_costs_follow_deletion_cost_and_priority_within_limits() {
    let unit = 1_i64 << 27;
    let cost = |text: &str, priority| {
        eviction_cost(
            &pod(&format!(", annotations: {{controller.kubernetes.io/pod-deletion-cost: '{text}'}}")),
            priority,
        )
    };
    assert_eq!(eviction_cost(&pod(""), 0), unit);
    assert_eq!(cost("134217728", 0), 2 * unit);
    assert_eq!(cost("-134217728", 0), 0);
    assert_eq!(cost("much", 0), unit);
    assert_eq!(cost("1000.5", 0), unit + 1000, "any number counts, as in the reference");
    assert_eq!(eviction_cost(&pod(""), 1 << 25), 2 * unit);
    assert_eq!(eviction_cost(&pod(""), 2_000_000_000), 10 * unit);
}
