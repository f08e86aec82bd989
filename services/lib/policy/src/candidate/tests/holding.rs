//! What holds a node whatever the method.

use super::*;

fn graceful(subject: &Subject) -> Result<(), Blocked> {
    check(subject, Class::Graceful, &no_pdbs(), now())
}

/// The obstacle, as people read it.
fn said(subject: &Subject, class: Class, pdbs: &Pdbs) -> String {
    check(subject, class, pdbs, now()).err().map(|blocked| blocked.to_string()).unwrap_or_default()
}

// Cases: POD-10
#[test]
fn an_ordinary_node_with_pods_is_a_candidate() {
    assert_eq!(graceful(&node(vec![pod("web")])), Ok(()));
}

// Cases: CAND-12, CAND-21, CAND-22, CAND-23, CAND-24, CAND-25, CAND-26, CAND-27, CAND-28, CAND-33, SDR-14
#[test]
fn each_state_of_a_node_that_forbids_disruption_is_named() {
    let until = Timestamp::from_second(now().as_second() + 10).unwrap();
    let plain = || node(vec![pod("web")]);
    let cases = [
        ("in-command", Subject { command: Some(Arc::from("c1")), ..plain() }),
        ("not-ours", Subject { claim: None, ..plain() }),
        ("conflicting-claims", Subject { conflicting_claims: vec!["a".into(), "b".into()], ..plain() }),
        ("no-node", Subject { node: None, ..plain() }),
        ("not-initialized", Subject { initialized: false, ..plain() }),
        ("leaving", Subject { leaving: Some(Leaving::ClaimDeleted), ..plain() }),
        ("leaving", Subject { leaving: Some(Leaving::InstanceTerminating), ..plain() }),
        (
            "foreign-taint",
            Subject { foreign_taint: Some("karpenter.sh/disrupted:NoExecute".into()), ..plain() },
        ),
        ("nominated", Subject { nominated_until: Some(until), ..plain() }),
        ("do-not-disrupt", Subject { do_not_disrupt: true, ..plain() }),
        ("no-nodepool", Subject { pool: PoolOf::NoLabel, ..plain() }),
        ("no-nodepool", Subject { pool: PoolOf::Missing("gone".into()), ..plain() }),
        (
            "instance-types-unknown",
            plain().in_pool(Pool { types_unknown: Some("no answer yet".into()), ..pool() }),
        ),
    ];
    for (rule, subject) in cases {
        for class in [Class::Graceful, Class::Eventual] {
            let blocked = check(&subject, class, &no_pdbs(), now()).unwrap_err();
            assert_eq!(blocked.rule(), rule, "{blocked}");
            // Only what nobody can act on is silent.
            let silent = matches!(rule, "in-command" | "not-ours");
            assert_eq!(blocked.event().is_none(), silent, "{rule}");
            assert!(!blocked.remedy().is_empty());
        }
    }
}

#[test]
fn a_promise_that_is_over_holds_nothing() {
    assert_eq!(graceful(&Subject { nominated_until: Some(now()), ..node(vec![]) }), Ok(()));
}

#[test]
fn what_the_reference_asks_first_is_named_first() {
    let everything = Subject {
        initialized: false,
        leaving: Some(Leaving::NodeDeleted),
        do_not_disrupt: true,
        ..node(vec![pod("web").annotated("true")])
    };
    assert_eq!(graceful(&everything), Err(Blocked::NotInitialized));
    let rules: Vec<&str> = obstacles(&everything, &no_pdbs(), now()).iter().map(Blocked::rule).collect();
    assert_eq!(rules, ["not-initialized", "leaving", "do-not-disrupt", "do-not-disrupt"]);
}

// Cases: CAND-1, CAND-2, CAND-3, CAND-17, POD-11
#[test]
fn a_protected_pod_of_any_kind_holds_its_node_and_is_named() {
    for owner in [Owner::Other, Owner::Daemon, Owner::Node] {
        let subject = node(vec![pod("web"), pod("job").owned(owner).annotated("true")]);
        let text = said(&subject, Class::Graceful, &no_pdbs());
        assert!(text.contains("default/job") && text.contains("do-not-disrupt"), "{text}");
    }
}

// Cases: CAND-10, CAND-11, POD-14, SCH-K-40
#[test]
fn a_protected_pod_that_is_over_or_leaving_holds_nothing() {
    assert_eq!(graceful(&node(vec![pod("job").annotated("true").done()])), Ok(()));
    assert_eq!(graceful(&node(vec![pod("job").annotated("true").terminating()])), Ok(()));
}

// Cases: CAND-14, CAND-15, CAND-16, CAND-18, CAND-19, CAND-20, PDB-4, PDB-5, PDB-6, SCH-K-48, SCH-K-49, SCH-K-50
#[test]
fn a_budget_that_allows_nothing_holds_the_nodes_of_its_pods() {
    let budget = pdbs(&[pdb("web", "web", 0)]);
    for owner in [Owner::Other, Owner::Daemon] {
        let text = said(&node(vec![pod("web").owned(owner)]), Class::Graceful, &budget);
        assert!(text.contains("PDB default/web") && text.contains("default/web"), "{text}");
    }
    assert_eq!(said(&node(vec![pod("web").owned(Owner::Node)]), Class::Graceful, &budget), "");
    assert_eq!(said(&node(vec![pod("web").done()]), Class::Graceful, &budget), "");
    assert_eq!(said(&node(vec![pod("web").terminating()]), Class::Graceful, &budget), "");
    let mut tolerating = pod("web");
    tolerating.pod.tolerates_disrupted = true;
    assert_eq!(said(&node(vec![tolerating]), Class::Graceful, &budget), "");
}

// Cases: CAND-13, PDB-7, SCH-K-51
#[test]
fn two_budgets_hold_whatever_they_allow() {
    let budgets = pdbs(&[pdb("one", "web", 1), pdb("two", "web", 5)]);
    let text = said(&node(vec![pod("web")]), Class::Graceful, &budgets);
    assert!(text.contains("default/one, default/two"), "{text}");
}

// Cases: CAND-4, CAND-5, CAND-6, CAND-7, CAND-8, CAND-9, CAND-17, CAND-18, DRC-10, DEL-8, DEL-9
#[test]
fn a_deadline_lets_drift_start_in_spite_of_pods_and_nothing_else() {
    let budget = pdbs(&[pdb("web", "web", 0)]);
    for pods in [vec![pod("job").annotated("true")], vec![pod("web")]] {
        let bounded = node(pods.clone()).with_grace_period();
        let open = node(pods);
        let starts = |subject, class| check(subject, class, &budget, now()).is_ok();
        assert!(starts(&bounded, Class::Eventual));
        assert!(!starts(&bounded, Class::Graceful));
        assert!(!starts(&open, Class::Eventual));
        assert!(!starts(&open, Class::Graceful));
    }
    let on_node = Subject { do_not_disrupt: true, ..node(vec![]).with_grace_period() };
    assert_eq!(check(&on_node, Class::Eventual, &budget, now()), Err(Blocked::NodeAnnotation));
}

// Cases: DEL-10
#[test]
fn everything_that_holds_a_node_is_explained() {
    let budget = pdbs(&[pdb("web", "web", 0)]);
    let subject = node(vec![pod("web"), pod("a").annotated("true"), pod("b").annotated("2h")]);
    let all: Vec<String> = obstacles(&subject, &budget, now()).iter().map(Blocked::to_string).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("default/a") && all[1].contains("default/b") && all[2].contains("PDB"));
    assert!(all[1].contains("2026-11-16T13:00:00Z"), "{}", all[1]);
}
