//! Annotations and budgets of pods.

use super::*;

fn annotation(value: &str, age: Option<i64>) -> (bool, Option<&'static str>) {
    let resident = pod("job").annotated(value).started(age.map(seconds_ago));
    (resident.is_protected(now()), notice(&resident.pod, now()).map(|n| n.reason()))
}

// Cases: DRC-14, DEL-10, DEL-11, DEL-12, POD-1, POD-2, POD-3, POD-4, POD-5, POD-6, POD-7, POD-8, POD-9, POD-11, POD-12, POD-13
// Cases: SCH-K-27, SCH-K-28, SCH-K-29, SCH-K-30, SCH-K-31, SCH-K-32, SCH-K-33, SCH-K-34, SCH-K-35, SCH-K-36, SCH-K-37, SCH-K-38
// Cases: SCH-K-39
#[test]
fn the_annotation_protects_for_good_for_a_while_or_not_at_all() {
    let invalid = Some("InvalidDoNotDisruptAnnotation");
    let cases = [
        ("true", Some(60), (true, None)),
        ("true", None, (true, None)),
        ("yes", Some(60), (false, invalid)),
        ("false", Some(60), (false, invalid)),
        ("0s", Some(60), (false, invalid)),
        ("-5m", Some(60), (false, invalid)),
        ("2m", Some(60), (true, Some("DoNotDisruptUntil"))),
        ("2m", Some(120), (false, Some("DoNotDisruptGracePeriodElapsed"))),
        ("2m", Some(300), (false, Some("DoNotDisruptGracePeriodElapsed"))),
        ("2m", None, (true, None)),
    ];
    for (value, age, expected) in cases {
        assert_eq!(annotation(value, age), expected, "{value} at {age:?} s");
    }
    assert!(!pod("web").is_protected(now()));
    assert_eq!(notice(&pod("web").pod, now()), None);
}

// Cases: POD-6
#[test]
fn the_owner_is_told_when_protection_ends_and_what_is_wrong() {
    let text = |value: &str| notice(&pod("job").annotated(value).pod, now()).unwrap().to_string();
    assert!(text("2h").contains("2026-11-16T13:00:00Z"));
    let invalid = notice(&pod("job").annotated("never").pod, now()).unwrap();
    assert!(invalid.is_warning() && invalid.to_string().contains("\"never\""));
}

// Cases: DRC-15, POD-12, POD-13
#[test]
fn a_node_is_held_until_the_longest_protection_ends() {
    let subject = node(vec![
        pod("short").annotated("1m").started(Some(seconds_ago(0))),
        pod("long").annotated("3m").started(Some(seconds_ago(0))),
    ])
    .drifted();
    let after = |minutes: i64| Timestamp::from_second(now().as_second() + 60 * minutes).unwrap();
    let held = |at| eligible(&subject, Method::Drift, &no_pdbs(), at).is_err();
    assert_eq!([held(now()), held(after(1)), held(after(2)), held(after(3))], [true, true, true, false]);
}

// Cases: REP-12, PDB-1, PDB-2, SCH-K-45, SCH-K-46
#[test]
fn unhealthy_pods_may_go_where_the_budget_always_allows_it() {
    let lenient = Arc::new(Pdb { unhealthy_always: true, ..(*pdb("web", "web", 0)).clone() });
    let held = |resident: &Resident, budget: &Arc<Pdb>| {
        pdbs(std::slice::from_ref(budget)).block(&resident.pod, now()).is_some()
    };
    assert!(!held(&pod("web").unhealthy(), &lenient));
    assert!(held(&pod("web"), &lenient));
    assert!(held(&pod("web").unhealthy(), &pdb("web", "web", 0)));
}

// Cases: REP-13, PDB-3
#[test]
fn budgets_of_other_namespaces_and_other_pods_do_not_count() {
    let elsewhere = Arc::new(Pdb { namespace: Arc::from("other"), ..(*pdb("web", "web", 0)).clone() });
    let budgets = pdbs(&[elsewhere, pdb("db", "db", 0)]);
    assert_eq!(budgets.block(&pod("web").pod, now()), None);
}

#[test]
fn a_protected_pod_is_named_for_its_annotation_not_for_its_budget() {
    let budgets = pdbs(&[pdb("web", "web", 0)]);
    assert_eq!(budgets.block(&pod("web").annotated("true").pod, now()), None);
}

// Cases: PDB-8, PDB-9, PDB-10, SCH-K-52, SCH-K-53, SCH-K-54
#[test]
fn one_blocked_pod_of_several_is_enough() {
    let budgets = pdbs(&[pdb("db", "db", 0)]);
    let subject = node(vec![pod("web"), pod("db"), pod("cache")]);
    assert!(matches!(
        check(&subject, Class::Graceful, &budgets, now()),
        Err(Blocked::Pdb { pod, .. }) if pod == "default/db"
    ));
}
