//! What each method asks for beyond what holds for all.

use super::*;

fn refused(subject: &Subject, method: Method) -> Option<&'static str> {
    eligible(subject, method, &no_pdbs(), now()).err().map(|blocked| blocked.rule())
}

// Cases: EMP-12, EMP-16, EMP-17, EMP-18
#[test]
fn a_node_without_pods_that_must_move_is_removed_as_empty() {
    let empty = [
        node(vec![]),
        node(vec![pod("agent").owned(Owner::Daemon)]),
        node(vec![pod("static").owned(Owner::Node)]),
        node(vec![pod("web").terminating(), pod("job").done()]),
        node(vec![pod("cheap").costing(0), pod("cheaper").costing(-COST_UNIT)]),
    ];
    for subject in empty {
        assert_eq!(refused(&subject, Method::Emptiness), None);
        assert_eq!(refused(&subject, Method::SingleNode), Some("empty"));
        assert!(obstacles(&subject, &no_pdbs(), now()).is_empty());
    }
    for subject in [node(vec![pod("web")]), node(vec![pod("db").of_stateful_set().terminating()])] {
        assert_eq!(refused(&subject, Method::Emptiness), Some("not-empty"));
        assert_eq!(refused(&subject, Method::SingleNode), None);
    }
}

// Cases: EMP-9, EMP-13
#[test]
fn without_the_consolidatable_condition_nothing_is_consolidated() {
    let at = Timestamp::from_second(now().as_second() + 30).unwrap();
    for state in [Consolidatable::No, Consolidatable::NotBefore(at)] {
        let empty = node(vec![]).with_claim(|claim| claim.consolidatable = state);
        assert_eq!(refused(&empty, Method::Emptiness), Some("consolidate-after"));
        let busy = node(vec![pod("web")]).with_claim(|claim| claim.consolidatable = state);
        assert_eq!(refused(&busy, Method::MultiNode), Some("consolidate-after"));
        assert_eq!(refused(&busy, Method::SingleNode), Some("consolidate-after"));
    }
}

// Cases: EMP-21, EMP-23, EMP-24, EMP-26, BUF-1, BUF-2, CST-94
#[test]
fn placeholders_of_buffers_keep_their_node_and_no_other() {
    let held = Subject { buffer_pods: 2, ..node(vec![]) };
    for method in [Method::Emptiness, Method::MultiNode, Method::SingleNode] {
        assert_eq!(refused(&held, method), Some("capacity-buffer"));
    }
    let busy = Subject { buffer_pods: 2, ..node(vec![pod("web")]) };
    assert_eq!(refused(&busy, Method::Emptiness), Some("capacity-buffer"));
    assert_eq!(refused(&busy, Method::SingleNode), None, "real pods may move, placeholders follow");
    assert_eq!(refused(&Subject { buffer_pods: 0, ..node(vec![]) }, Method::Emptiness), None);
    assert_eq!(refused(&Subject { buffer_pods: 2, ..node(vec![]).drifted() }, Method::Drift), None);
}

// Cases: EMP-20, DRC-24, SDR-12, STA-1
#[test]
fn pools_of_a_fixed_size_are_neither_emptied_nor_consolidated() {
    let fixed = || Pool { fixed_size: true, ..pool() };
    let subject = node(vec![pod("web")]).in_pool(fixed()).drifted();
    assert_eq!(refused(&node(vec![]).in_pool(fixed()), Method::Emptiness), Some("fixed-size"));
    assert_eq!(refused(&subject, Method::MultiNode), Some("fixed-size"));
    assert_eq!(refused(&subject, Method::SingleNode), Some("fixed-size"));
    assert_eq!(refused(&subject, Method::Drift), Some("fixed-size"));
    assert_eq!(refused(&subject, Method::StaticDrift), None);
    assert_eq!(refused(&node(vec![]).drifted(), Method::StaticDrift), Some("not-fixed-size"));
    assert_eq!(refused(&node(vec![]).in_pool(fixed()), Method::StaticDrift), Some("not-drifted"));
}

// Cases: DRC-6, DRC-8, DRC-18
#[test]
fn drift_needs_the_condition_and_nothing_else() {
    assert_eq!(refused(&node(vec![]), Method::Drift), Some("not-drifted"));
    let never = Pool { consolidate_after: NillableDuration::Never, ..pool() };
    let subject = node(vec![]).in_pool(never).drifted().with_claim(|claim| {
        claim.consolidatable = Consolidatable::No;
    });
    assert_eq!(refused(&subject, Method::Drift), None);
    assert_eq!(refused(&subject, Method::Emptiness), Some("consolidation-off"));
    let nameless = Subject { offering: Offering::default(), ..node(vec![pod("web")]).drifted() };
    assert_eq!(refused(&nameless, Method::Drift), None);
    assert_eq!(refused(&Subject { do_not_disrupt: true, ..subject }, Method::Drift), Some("do-not-disrupt"));
}

// Cases: CAND-29, CAND-30, CAND-31, CAND-32, CEV-4, CEV-5, CEV-6
#[test]
fn consolidation_needs_to_know_what_the_node_is_and_costs() {
    let known = node(vec![pod("web")]).offering;
    let cases = [
        ("instance-type-unknown", Offering { instance_type: None, ..known.clone() }),
        ("instance-type-unknown", Offering { type_known: false, ..known.clone() }),
        ("no-capacity-type", Offering { capacity_type: None, ..known.clone() }),
        ("no-zone", Offering { zone: None, ..known.clone() }),
        ("no-price", Offering { price: None, ..known }),
    ];
    for (rule, offering) in cases {
        let subject = Subject { offering: offering.clone(), ..node(vec![pod("web")]) };
        let blocked = eligible(&subject, Method::SingleNode, &no_pdbs(), now()).unwrap_err();
        assert_eq!(blocked.rule(), rule);
        assert_eq!(blocked.event(), Some(EventReason::Unconsolidatable));
        assert_eq!(refused(&subject, Method::MultiNode), Some(rule));
        let empty = Subject { offering, ..node(vec![]) };
        assert_eq!(refused(&empty, Method::Emptiness), None, "{rule}: what is empty goes at any price");
    }
}

// Cases: BAL-41, BAL-42
#[test]
fn policy_and_consolidate_after_of_the_pool_decide() {
    let with = |policy| Pool { policy, ..pool() };
    let busy = |pool: Pool| node(vec![pod("web")]).in_pool(pool);
    let empty = |pool: Pool| node(vec![]).in_pool(pool);
    assert_eq!(refused(&busy(with(Policy::WhenEmpty)), Method::SingleNode), Some("only-when-empty"));
    assert_eq!(refused(&busy(with(Policy::WhenEmptyOrUnderutilized)), Method::SingleNode), None);
    assert_eq!(refused(&busy(with(Policy::Balanced)), Method::MultiNode), None);
    for policy in [Policy::WhenEmpty, Policy::WhenEmptyOrUnderutilized, Policy::Balanced] {
        assert_eq!(refused(&empty(with(policy)), Method::Emptiness), None);
    }
    let never = || Pool { consolidate_after: NillableDuration::Never, ..pool() };
    assert_eq!(refused(&empty(never()), Method::Emptiness), Some("consolidation-off"));
    assert_eq!(refused(&busy(never()), Method::SingleNode), Some("consolidation-off"));
}

#[test]
fn explanations_name_each_reason_for_which_a_node_stays() {
    let at = Timestamp::from_second(now().as_second() + 30).unwrap();
    let quiet =
        node(vec![pod("web")]).with_claim(|claim| claim.consolidatable = Consolidatable::NotBefore(at));
    let rules: Vec<&str> = obstacles(&quiet, &no_pdbs(), now()).iter().map(Blocked::rule).collect();
    assert_eq!(rules, ["not-empty", "not-drifted", "consolidate-after"]);
    let bounded = node(vec![pod("job").annotated("true")]).drifted().with_grace_period();
    assert!(obstacles(&bounded, &no_pdbs(), now()).is_empty(), "drift may take it");
}

#[test]
fn every_obstacle_says_for_which_reason_it_counts() {
    assert_eq!(Blocked::NotDrifted.about(), Some(Reason::Drifted));
    assert_eq!(Blocked::NotEmpty { pods: 1 }.about(), Some(Reason::Empty));
    assert_eq!(Blocked::NodeAnnotation.about(), None);
}
