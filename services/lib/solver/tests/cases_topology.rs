//! Topology spread, pod affinity and anti-affinity.

mod fixture;

use fixture::*;
use model::catalog::{CapacityType, InstanceType};
use model::pod::{LabelSelector, NodeInclusionPolicy};
use model::requirement::Operator;
use model::taint::Effect;
use solver::{Options, Plan, PreferencePolicy};

const APP: &[(&str, &str)] = &[("app", "web")];

fn web(name: &str) -> PodBuilder {
    pod(name).app("web").cpu("100m")
}

// Cases: SCH-C.1-1
#[test]
fn an_unknown_key_leaves_only_that_pod_over() {
    let plan = default_cluster().pod(web("a").spread(spread("unknown", 1, APP))).pod(pod("b")).plan();
    assert_eq!(left_over(&plan), ["a"]);
    assert_eq!(placed(&plan), 1);
}

// Cases: SCH-C.1-3, SCH-C.2-14
#[test]
fn no_selector_spreads_nothing() {
    let plan = default_cluster()
        .pods({
            let mut constraint = spread(ZONE, 1, APP);
            constraint.selector = None;
            web("a").spread(constraint).times(2)
        })
        .plan();
    assert_eq!(plan.new_nodes.len(), 1);
}

// Cases: SCH-C.2-1, SCH-C.2-3, SCH-C.2-4, SCH-C.2-5
#[test]
fn zonal_spread_balances_over_the_zones_that_the_pool_can_make() {
    let case = |pool: PoolBuilder| {
        skew(&cluster().pool(pool).pods(web("a").spread(spread(ZONE, 1, APP)).times(4)).plan(), ZONE)
    };
    assert_eq!(case(pool("default")), [1, 1, 2]);
    assert_eq!(case(pool("default").requires(ZONE, Operator::In, &ZONES)), [1, 1, 2]);
    assert_eq!(case(pool("default").requires(ZONE, Operator::In, &ZONES[..2])), [2, 2]);
    assert_eq!(case(pool("default").label(ZONE, ZONES[0])), [4]);
}

// Cases: SCH-C.2-7
#[test]
fn two_pools_of_one_zone_each_share_the_spread() {
    let plan = cluster()
        .pool(pool("one").label(ZONE, ZONES[0]))
        .pool(pool("two").label(ZONE, ZONES[1]))
        .pods(web("a").spread(spread(ZONE, 1, APP)).times(4))
        .plan();
    assert_eq!(skew(&plan, ZONE), [2, 2]);
}

// Cases: SCH-C.2-8, SCH-C.2-11, SCH-C.2-12
#[test]
fn pods_that_run_count_and_domains_out_of_reach_hold_the_minimum_down() {
    let plan = cluster()
        .pool(pool("default").requires(ZONE, Operator::In, &ZONES[..2]))
        .node(node("n").zone(ZONES[2]).has("pods", "1"))
        .pod(web("running").on_node("n"))
        .pods(web("a").spread(spread(ZONE, 1, APP)).times(6))
        .plan();
    assert_eq!(skew(&plan, ZONE), [2, 2]);
    assert_eq!(plan.unschedulable.len(), 2);
    let why = plan.unschedulable[0].why.to_string();
    assert!(why.contains("topology spread over topology.kubernetes.io/zone (maxSkew 1)"), "{why}");
}

#[test]
fn zones_of_pools_whose_limits_are_used_up_hold_no_minimum_down() {
    let with = |other: PoolBuilder| {
        let input = cluster()
            .pool(pool("default").requires(ZONE, Operator::In, &ZONES[..2]))
            .pool(other.requires(ZONE, Operator::In, &ZONES[2..]))
            .pods(web("a").spread(spread(ZONE, 1, APP)).times(4))
            .input();
        let plan = solver::solve(&solver::Snapshot::build(input.clone()), &Options::default(), &|| true);
        assert_eq!(solver::check::check(&input, &plan, &Options::default()), []);
        assert_eq!(left_over(&plan), Vec::<String>::new());
        skew(&plan, ZONE)
    };
    assert_eq!(with(pool("open")), [1, 1, 2]);
    assert_eq!(with(pool("disabled").limit("cpu", "0")), [2, 2]);
    assert_eq!(with(pool("disabled").limit("nodes", "0")), [2, 2]);
    let used_up = pool("used-up").limit("cpu", "4");
    let node = node("n").of_pool("used-up").has("cpu", "4").zone(ZONES[0]).has("pods", "0");
    let input = cluster()
        .pool(pool("default").requires(ZONE, Operator::In, &ZONES[..2]))
        .pool(used_up.requires(ZONE, Operator::In, &ZONES[2..]))
        .node(node)
        .pods(web("a").spread(spread(ZONE, 1, APP)).times(4))
        .input();
    let plan = solver::solve(&solver::Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert_eq!(solver::check::check(&input, &plan, &Options::default()), []);
    assert_eq!(skew(&plan, ZONE), [2, 2]);
}

// Cases: SCH-C.2-13
#[test]
fn pods_that_do_not_count_are_not_counted() {
    let plan = default_cluster()
        .node(node("one").zone(ZONES[0]).has("pods", "0"))
        .node(node("two").zone(ZONES[1]).has("pods", "0"))
        .node(node("nowhere").without_label(ZONE).has("pods", "0"))
        .pod(pod("other-label").app("db").on_node("one"))
        .pod(web("no-domain").on_node("nowhere"))
        .pod(web("other-namespace").namespace("elsewhere").on_node("one"))
        .pod(web("terminating").on_node("one").but(|p| p.terminating = true))
        .pod(web("counted").on_node("two"))
        .pods(web("a").spread(spread(ZONE, 1, APP)).times(2))
        .plan();
    let mut zones: Vec<_> = plan.new_nodes.iter().filter_map(zone_of).collect();
    zones.sort();
    assert_eq!(zones, [ZONES[0], ZONES[2]]);
}

// Cases: SCH-C.2-16, SCH-C.2-17, SCH-C.2-18
#[test]
fn too_few_domains_for_min_domains_hold_the_minimum_at_zero() {
    let with = |least: u32, zones: &[&str], count| {
        let mut constraint = spread(ZONE, 1, APP);
        constraint.min_domains = Some(least);
        let plan = cluster()
            .pool(pool("default").requires(ZONE, Operator::In, zones))
            .pods(web("a").spread(constraint).times(count))
            .plan();
        skew(&plan, ZONE)
    };
    assert_eq!(with(3, &ZONES[..2], 3), [1, 1]);
    assert_eq!(with(3, &ZONES, 11), [3, 4, 4]);
    assert_eq!(with(2, &ZONES, 11), [3, 4, 4]);
}

// Cases: SCH-C.3-1, SCH-C.3-2
#[test]
fn hostname_spread_makes_a_node_for_every_share() {
    let case = |skew| {
        pods_per_node(&default_cluster().pods(web("a").spread(spread(HOST, skew, APP)).times(4)).plan())
    };
    assert_eq!(case(1), [1, 1, 1, 1]);
    assert_eq!(case(4), [4]);
}

// Cases: SCH-C.3-3
#[test]
fn two_apps_spread_over_the_same_nodes() {
    let other: &[(&str, &str)] = &[("app", "other")];
    let plan = default_cluster()
        .pods(web("a").spread(spread(HOST, 1, APP)).times(2))
        .pods(pod("b").app("other").cpu("100m").spread(spread(HOST, 1, other)).times(2))
        .plan();
    assert_eq!(pods_per_node(&plan), [2, 2]);
}

// Cases: SCH-C.2-15, SCH-C.4-7
#[test]
fn a_pod_outside_its_own_selector_may_pile_up() {
    let plan = default_cluster().pods(pod("a").spread(spread(HOST, 1, APP)).times(5)).plan();
    assert_eq!(pods_per_node(&plan), [5]);
}

// Cases: SCH-C.4-1
#[test]
fn capacity_types_and_architectures_are_domains_too() {
    let plan = default_cluster().pods(web("a").spread(spread(CAPACITY_TYPE, 1, APP)).times(4)).plan();
    assert_eq!(skew(&plan, CAPACITY_TYPE), [2, 2]);
    let arch = "kubernetes.io/arch";
    let plan = default_cluster().pods(web("a").spread(spread(arch, 1, APP)).times(4)).plan();
    assert_eq!(skew(&plan, arch), [2, 2]);
}

// Cases: SCH-C.5-2
#[test]
fn spread_over_a_label_of_the_pools_follows_their_values() {
    let values = ["1", "2", "3", "4"];
    let plan = cluster()
        .pool(pool("spot").requires("share", Operator::In, &values).requires(
            CAPACITY_TYPE,
            Operator::In,
            &["spot"],
        ))
        .pool(pool("od").requires("share", Operator::In, &["5"]).requires(
            CAPACITY_TYPE,
            Operator::In,
            &["on-demand"],
        ))
        .pods(web("a").spread(spread("share", 1, APP)).times(20))
        .plan();
    assert_eq!(skew(&plan, "share"), [4, 4, 4, 4, 4]);
    assert_eq!(skew(&plan, CAPACITY_TYPE), [4, 16]);
}

// Cases: SCH-C.5-1
#[test]
fn zone_and_hostname_spread_hold_together() {
    let plan = default_cluster()
        .pods(web("a").spread(spread(ZONE, 1, APP)).spread(spread(HOST, 3, APP)).times(21))
        .plan();
    assert_eq!(skew(&plan, ZONE), [7, 7, 7]);
    assert!(plan.new_nodes.iter().all(|n| n.pods.len() <= 3));
}

// Cases: SCH-C.5-5
#[test]
fn capacity_type_and_zone_spread_hold_together() {
    let plan = default_cluster()
        .pods(web("a").spread(spread(CAPACITY_TYPE, 1, APP)).spread(spread(ZONE, 1, APP)).times(12))
        .plan();
    assert_eq!(placed(&plan), 12);
    assert_eq!(skew(&plan, CAPACITY_TYPE), [6, 6]);
    assert_eq!(skew(&plan, ZONE), [4, 4, 4]);
}

// Cases: SCH-A.8-8, SCH-C.4-4
#[test]
fn schedule_anyway_gives_way_and_ignore_ignores_it() {
    let soft = || {
        cluster()
            .pool(pool("default").requires(CAPACITY_TYPE, Operator::In, &["on-demand"]))
            .node(node("n").label(CAPACITY_TYPE, "spot").has("pods", "0"))
            .pod(web("running").on_node("n"))
            .pods(web("a").spread_anyway(spread(CAPACITY_TYPE, 1, APP)).times(5))
    };
    assert_eq!(placed(&soft().plan()), 5);
    let ignore = Options { preferences: PreferencePolicy::Ignore, ..Options::default() };
    let plan =
        default_cluster().pods(web("a").spread_anyway(spread(HOST, 1, APP)).times(5)).plan_with(&ignore);
    assert_eq!(pods_per_node(&plan), [5]);
}

// Cases: SCH-C.6-1, SCH-C.6-2
#[test]
fn match_label_keys_spread_each_revision_by_itself() {
    let mut constraint = spread(HOST, 1, APP);
    constraint.match_label_keys = vec!["revision".to_owned(), "missing".to_owned()];
    let plan = default_cluster()
        .pods(web("a").label("revision", "1").spread(constraint.clone()).times(2))
        .pods(web("b").label("revision", "2").spread(constraint).times(2))
        .plan();
    assert_eq!(pods_per_node(&plan), [2, 2]);
}

// Cases: SCH-C.6-3, SCH-C.6-4
#[test]
fn taints_policy_decides_whether_tainted_domains_count() {
    let case = |policy| {
        let mut constraint = spread("rack", 1, APP);
        constraint.node_taints_policy = policy;
        let plan = cluster()
            .pool(pool("default").requires("rack", Operator::In, &["a"]))
            .node(node("n").label("rack", "b").taint("x", Effect::NoSchedule))
            .pods(web("a").spread(constraint).times(5))
            .plan();
        placed(&plan)
    };
    assert_eq!(case(NodeInclusionPolicy::Ignore), 1);
    assert_eq!(case(NodeInclusionPolicy::Honor), 5);
}

// Cases: SCH-C.6-8, SCH-C.6-9
#[test]
fn affinity_policy_decides_whether_domains_out_of_reach_count() {
    let case = |policy| {
        let mut constraint = spread("rack", 1, APP);
        constraint.node_affinity_policy = policy;
        let plan = cluster()
            .pool(pool("default").requires("rack", Operator::In, &["a"]).label("team", "blue"))
            .node(node("n").label("rack", "b").label("team", "red"))
            .pods(web("a").select("team", "blue").spread(constraint).times(5))
            .plan();
        placed(&plan)
    };
    assert_eq!(case(NodeInclusionPolicy::Ignore), 1);
    assert_eq!(case(NodeInclusionPolicy::Honor), 5);
}

// Cases: SCH-C.7-1, SCH-C.7-2
#[test]
fn the_pods_own_zones_bound_its_spread() {
    let plan = default_cluster()
        .pods(web("a").in_zone(ZONES[0]).spread(spread(ZONE, 1, APP)).times(5))
        .pods(web("b").in_zone(ZONES[1]).spread(spread(ZONE, 1, APP)).times(10))
        .plan();
    assert_eq!(skew(&plan, ZONE), [5, 10]);
    let plan = default_cluster()
        .pods(web("a").or_requires(is(ZONE, &ZONES[..2])).spread(spread(ZONE, 1, APP)).times(10))
        .plan();
    assert_eq!(skew(&plan, ZONE), [5, 5]);
}

// Cases: SCH-C.8-4, SCH-C.8-7
#[test]
fn self_affinity_keeps_pods_on_one_node_or_in_one_zone() {
    let plan = default_cluster().pods(web("a").with(term(HOST, APP)).times(3)).plan();
    assert_eq!(pods_per_node(&plan), [3]);
    let plan = default_cluster().pods(web("a").with(term(ZONE, APP)).times(12)).plan();
    assert_eq!(skew(&plan, ZONE), [12]);
}

// Cases: SCH-C.8-5
#[test]
fn what_does_not_fit_beside_its_own_kind_is_left_over() {
    let plan = default_cluster().pods(web("a").with(term(HOST, APP)).times(10)).plan();
    assert_eq!(pods_per_node(&plan), [5]);
    assert_eq!(plan.unschedulable.len(), 5);
}

// Cases: SCH-C.8-10, SCH-C.8-23
#[test]
fn affinity_to_nothing_leaves_the_pod_over_and_a_preference_does_not() {
    let plan = default_cluster().pod(pod("a").with(term(HOST, APP))).plan();
    assert_eq!(left_over(&plan), ["a"]);
    let plan = default_cluster().pod(pod("a").rather_with(50, term(HOST, APP))).plan();
    assert_eq!(placed(&plan), 1);
}

// Cases: SCH-C.8-2, SCH-C.8-24
#[test]
fn affinity_follows_its_target_whatever_the_order() {
    // The follower is larger, so it is tried first.
    let plan =
        default_cluster().pod(pod("follower").cpu("1").with(term(HOST, APP))).pod(web("target")).plan();
    assert_eq!(plan.new_nodes.len(), 1);
    let plan = default_cluster()
        .pod(pod("follower").cpu("1").with(term(ZONE, APP)))
        .pod(web("target").on_arm())
        .plan();
    assert_eq!(placed(&plan), 2, "the zone of the target is decided for the follower");
    let zones: Vec<_> = plan.new_nodes.iter().map(zone_of).collect();
    assert!(zones.iter().all(|z| z.is_some() && *z == zones[0]), "{zones:?}");
}

// Cases: SCH-C.8-26
#[test]
fn chains_of_affinity_resolve_in_one_batch() {
    let link = |name: &'static str, to: &'static str| pod(name).app(name).with(term(HOST, &[("app", to)]));
    let plan = default_cluster()
        .pod(link("ui", "cache").cpu("400m"))
        .pod(link("cache", "web").cpu("300m"))
        .pod(link("web", "db").cpu("200m"))
        .pod(pod("db").app("db").cpu("100m"))
        .plan();
    assert_eq!(pods_per_node(&plan), [4]);
}

// Cases: SCH-C.8-12
#[test]
fn host_anti_affinity_works_in_both_directions_and_orders() {
    for (first, second) in [("1", "100m"), ("100m", "1")] {
        let plan = default_cluster()
            .pod(pod("lonely").cpu(first).apart_from(term(HOST, APP)))
            .pod(pod("target").app("web").cpu(second))
            .plan();
        assert_eq!(plan.new_nodes.len(), 2);
    }
}

// Cases: SCH-C.8-13, SCH-C.8-22
#[test]
fn zonal_self_anti_affinity_places_one_pod_in_every_zone_at_once() {
    let plan = default_cluster().pods(web("a").apart_from(term(ZONE, APP)).times(4)).plan();
    assert_eq!(skew(&plan, ZONE), [1, 1, 1]);
    assert_eq!(plan.unschedulable.len(), 1);
    assert!(
        plan.unschedulable[0].why.to_string().contains("pod anti-affinity"),
        "{}",
        plan.unschedulable[0].why
    );
}

// Cases: SCH-C.8-18
#[test]
fn targets_of_zonal_anti_affinity_are_kept_away_from_those_who_state_it() {
    for (states, target) in [("1", "100m"), ("100m", "1")] {
        let plan = default_cluster()
            .pod(pod("states").cpu(states).apart_from(term(ZONE, APP)))
            .pod(pod("target").app("web").cpu(target))
            .plan();
        assert_eq!(placed(&plan), 2);
        assert_ne!(zone_of(node_of(&plan, "states")), zone_of(node_of(&plan, "target")));
        assert!(zone_of(node_of(&plan, "target")).is_some());
    }
}

// Cases: CST-29, SCH-C.8-19, SCH-H.4-1
#[test]
fn running_pods_that_state_anti_affinity_keep_their_targets_away() {
    let with = |zones: &[&str]| {
        let mut all = default_cluster();
        for zone in zones {
            all = all
                .node(node(zone).zone(zone).has("pods", "0"))
                .pod(pod(&format!("guard-{zone}")).apart_from(term(ZONE, APP)).on_node(zone));
        }
        all.pod(web("a")).plan()
    };
    assert_eq!(placed(&with(&ZONES)), 0);
    let plan = with(&ZONES[..2]);
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some(ZONES[2]));
}

// Cases: CST-30, SCH-C.8-11
#[test]
fn preferred_anti_affinity_never_blocks() {
    let mut all = default_cluster();
    for zone in ZONES {
        all = all.node(node(zone).zone(zone).has("pods", "0")).pod(web(&format!("r-{zone}")).on_node(zone));
    }
    let plan = all.pods(pod("a").cpu("100m").rather_apart_from(10, term(ZONE, APP)).times(10)).plan();
    assert_eq!(placed(&plan), 10);
}

// Cases: SCH-A.8-9
#[test]
fn respected_preferences_rather_open_nodes_than_break() {
    let apart = || default_cluster().pods(web("a").rather_apart_from(10, term(HOST, APP)).times(4));
    assert_eq!(pods_per_node(&apart().plan()), [1, 1, 1, 1]);
    let ignore = Options { preferences: PreferencePolicy::Ignore, ..Options::default() };
    assert_eq!(pods_per_node(&apart().plan_with(&ignore)), [4]);
}

// Cases: SCH-C.8-28, SCH-C.8-29, SCH-C.8-30
#[test]
fn affinity_respects_namespaces() {
    let case = |namespaces: &[&str], selector: Option<LabelSelector>| {
        let mut to = term(HOST, APP);
        to.namespaces = namespaces.iter().map(|n| (*n).to_owned()).collect();
        to.namespace_selector = selector;
        let plan = default_cluster()
            .namespace("other", &[("team", "blue")])
            .pod(web("target").namespace("other"))
            .pod(pod("follower").with(to))
            .plan();
        placed(&plan)
    };
    assert_eq!(case(&[], None), 1);
    assert_eq!(case(&["other"], None), 2);
    assert_eq!(case(&[], Some(LabelSelector::default())), 2);
    assert_eq!(case(&[], Some(selector(&[("team", "blue")]))), 2);
    assert_eq!(case(&[], Some(selector(&[("team", "red")]))), 1);
}

#[test]
fn two_rules_on_one_key_choose_a_common_domain() {
    // Spread prefers the empty zones, affinity allows only the one with the database.
    let plan = default_cluster()
        .node(node("n").zone(ZONES[1]).has("pods", "0"))
        .pod(pod("db").app("db").on_node("n"))
        .pod(web("a").spread(spread(ZONE, 1, APP)).with(term(ZONE, &[("app", "db")])))
        .plan();
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some(ZONES[1]));
}

// Cases: SCH-C.10-5
#[test]
fn a_volume_zone_does_not_shrink_the_spread() {
    let mut constraint = spread(ZONE, 1, APP);
    constraint.min_domains = Some(3);
    let plan = default_cluster()
        .pods(web("a").cpu("200m").spread(constraint.clone()).times(3))
        .pod(web("bound").spread(constraint).volume("default/v", None, vec![is(ZONE, &ZONES[..1])]))
        .plan();
    assert_eq!(skew(&plan, ZONE), [1, 1, 2]);
    assert_eq!(zone_of(node_of(&plan, "bound")).as_deref(), Some(ZONES[0]));
}

/// The plan, which the checker must find nothing wrong with.
#[track_caller]
fn sound(cluster: ClusterBuilder, options: &Options) -> Plan {
    let input = cluster.input();
    let plan = solver::solve(&solver::Snapshot::build(input.clone()), options, &|| true);
    let wrong: Vec<String> =
        solver::check::check(&input, &plan, options).iter().map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    plan
}

/// What holds the leader is cheaper in one zone, what holds the follower alone in another: price alone would part them.
fn zones_of_their_own() -> Vec<InstanceType> {
    let only = |name: &str, zone: &str, cpu: i64, price: f64| {
        instance_type(name).cpu(cpu).memory(8).price(price).offered(&[(zone, CapacityType::OnDemand)]).build()
    };
    vec![
        only("roomy", ZONES[1], 2, 0.0765),
        only("large", ZONES[0], 8, 0.177),
        only("small", ZONES[0], 1, 0.0109),
    ]
}

#[test]
fn pods_that_others_follow_stay_in_their_zone_when_nodes_are_packed_again() {
    let plan = sound(
        cluster()
            .pool(pool("default").types(zones_of_their_own()))
            .pod(pod("follower").cpu("50m").with(term(ZONE, &[("app", "a")])))
            .pod(pod("leader").app("a").cpu("1500m").memory("1Gi")),
        &Options::default(),
    );
    assert_eq!(zone_of(node_of(&plan, "follower")), zone_of(node_of(&plan, "leader")));
    assert_eq!(plan.cost.to_string(), "0.0765", "the zone is decided by what the leader costs there");
}

#[test]
fn pods_that_even_out_a_spread_stay_where_they_count() {
    // The plain pods of the same app fill one zone; the spread pods rely on that.
    let plan = sound(
        cluster()
            .pool(pool("default").types(linear(40)))
            .pods(pod("plain").app("web").cpu("900m").in_zone(ZONES[0]).times(6))
            .pods(pod("spread").app("web").cpu("500m").spread(spread(ZONE, 1, &[("app", "web")])).times(20))
            .pods(pod("free").app("web").cpu("700m").times(10)),
        &Options::default(),
    );
    assert!(plan.is_complete());
}

#[test]
fn a_pod_bound_to_a_node_that_is_missing_from_the_input_disturbs_nobody() {
    let keeps_away = pod("gone").on_node("missing").apart_from(term(ZONE, &[("app", "a")]));
    let plan = sound(
        default_cluster()
            .pod(keeps_away)
            .pods(pod("a").app("a").cpu("1").times(5))
            .pods(pod("other").cpu("100m").rather_apart_from(20, term(HOST, &[("app", "c")])).times(3)),
        &Options::default(),
    );
    assert_eq!(placed(&plan), 8);
}

#[test]
fn a_pod_joins_one_of_its_kind_whose_domain_was_still_open() {
    // The first pod has no rule on the zone; the second must not open another zone as the first of its kind.
    let plan = sound(
        cluster()
            .pool(pool("default").types(linear(4)))
            .pod(pod("open").app("c").cpu("3").apart_from(term(HOST, &[("app", "c")])))
            .pod(
                pod("joins")
                    .app("c")
                    .cpu("2")
                    .with(term(ZONE, &[("app", "c")]))
                    .apart_from(term(HOST, &[("app", "c")])),
            ),
        &Options::default(),
    );
    assert_eq!(zone_of(node_of(&plan, "open")), zone_of(node_of(&plan, "joins")));
}

#[test]
fn an_allowed_skew_is_not_used_up_where_even_shares_are_cheaper() {
    let plan = cluster()
        .pool(pool("default").types(linear(40)))
        .pods(pod("a").app("a").cpu("2500m").spread(spread(ZONE, 2, &[("app", "a")])).times(35))
        .plan();
    assert_eq!(skew(&plan, ZONE), [11, 12, 12]);
}

#[test]
fn a_spread_that_honors_taints_counts_nodes_whose_soft_taint_was_put_up_with() {
    let mut constraint = spread(ZONE, 1, &[("app", "a")]);
    constraint.node_taints_policy = NodeInclusionPolicy::Honor;
    let plan = sound(
        cluster()
            .pool(pool("default").types(linear(8)).taint("soft", "yes", Effect::PreferNoSchedule))
            .pods(pod("a").app("a").cpu("1").spread(constraint).times(6)),
        &Options::default(),
    );
    assert_eq!(placed(&plan), 6);
}

#[test]
fn a_spread_over_capacity_types_forgets_reservations_that_are_not_used() {
    let both = [(ZONES[0], CapacityType::Spot), (ZONES[0], CapacityType::OnDemand)];
    let reserved =
        instance_type("r").cpu(4).memory(16).price(0.2).offered(&both).reserved("cr-1", 2, 0.01).build();
    let plan = sound(
        cluster()
            .pool(pool("default").types(vec![reserved]))
            .pods(pod("a").app("a").cpu("1").spread(spread(CAPACITY_TYPE, 1, &[("app", "a")])).times(4)),
        &Options { use_reserved: false, ..Options::default() },
    );
    assert_eq!(placed(&plan), 4);
}

#[test]
fn a_spread_does_not_count_on_more_reserved_instances_than_there_are() {
    let both = [(ZONES[0], CapacityType::Spot), (ZONES[0], CapacityType::OnDemand)];
    let kind =
        instance_type("r").cpu(1).memory(4).price(0.2).offered(&both).reserved("cr-1", 1, 0.01).build();
    let plan = sound(
        cluster()
            .pool(pool("default").types(vec![kind]))
            .pods(pod("first").cpu("800m").times(1))
            .pods(pod("a").app("a").cpu("700m").spread(spread(CAPACITY_TYPE, 1, &[("app", "a")])).times(5)),
        &Options::default(),
    );
    // The only reserved instance is taken, so its domain stays empty and the others get one pod each.
    assert_eq!(placed(&plan), 3);
}

/// Kubernetes lets a pod go without company only while nobody of its kind runs anywhere.
#[test]
fn only_the_first_of_its_kind_may_be_alone() {
    let company = || term(ZONE, &[("app", "a")]);
    let plan = default_cluster()
        .pod(pod("here").app("a").in_zone(ZONES[0]).with(company()))
        .pod(pod("there").app("a").in_zone(ZONES[2]).with(company()))
        .plan();
    assert_eq!((placed(&plan), left_over(&plan).len()), (1, 1));
}

/// The first of its kind decides the zone for all: it must not take one, however cheap, that the others may not enter.
// Cases: SCH-B.2-6, SCH-C.8-8
#[test]
fn the_first_of_its_kind_goes_where_the_others_can_follow() {
    for zone in ZONES {
        let company = || term(ZONE, &[("app", "a")]);
        let plan = default_cluster()
            .pod(pod("free").app("a").cpu("2").with(company()))
            .pods(pod("bound").app("a").in_zone(zone).with(company()).times(3))
            .plan();
        assert_eq!(placed(&plan), 4, "{zone}");
    }
}

/// kube-scheduler knows the domains of nodes that the pod's node affinity allows (nodeAffinityPolicy: Honor).
#[test]
fn a_zone_that_the_pod_can_never_reach_blocks_nothing() {
    let own = || pool("own").label("team", "x").requires(ZONE, Operator::In, &ZONES[..2]);
    let spreading = || web("a").select("team", "x").spread(spread(ZONE, 1, APP)).times(6);
    let plan = cluster().pool(own()).pool(pool("other")).pods(spreading()).plan();
    assert_eq!(skew(&plan, ZONE), [3, 3]);
    // Nor does one that only a pool whose taint it does not tolerate could make.
    let tainted = pool("other").label("team", "x").taint("dedicated", "y", Effect::NoSchedule);
    let plan = cluster().pool(own()).pool(tainted).pods(spreading()).plan();
    assert_eq!(skew(&plan, ZONE), [3, 3]);
    // A zone that it could have a node in still holds the minimum down.
    let plan = cluster()
        .pool(own())
        .pool(pool("other").label("team", "x").requires(ZONE, Operator::In, &ZONES[2..]))
        .pods(spreading())
        .plan();
    assert_eq!(skew(&plan, ZONE), [2, 2, 2]);
}

/// kube-scheduler: a pod meets required affinity terms if all of them select it.
#[test]
fn affinity_terms_are_matched_together() {
    let wanting =
        || pod("a").cpu("100m").with(term(ZONE, &[("app", "web")])).with(term(ZONE, &[("tier", "front")]));
    let one_each = default_cluster()
        .node(node("n").zone(ZONES[0]))
        .pod(web("w").on_node("n"))
        .pod(pod("t").label("tier", "front").on_node("n"))
        .pod(wanting())
        .plan();
    assert_eq!(left_over(&one_each), ["a"]);
    let both = default_cluster()
        .node(node("n").zone(ZONES[0]))
        .pod(web("w").label("tier", "front").on_node("n"))
        .pod(wanting())
        .plan();
    assert_eq!(left_over(&both), Vec::<String>::new());
    // Nobody is there yet: only a pod that all its own terms select may be the first.
    let first = default_cluster().pod(wanting().label("app", "web").label("tier", "front")).plan();
    assert_eq!(placed(&first), 1);
    assert_eq!(placed(&default_cluster().pod(wanting().label("app", "web")).plan()), 0);
}
