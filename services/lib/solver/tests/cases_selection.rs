//! Node selectors, affinity operators, types, limits, daemons and pools: which node a single pod gets.

mod fixture;

use fixture::*;
use model::catalog::{CapacityType, InstanceType};
use model::requirement::Operator;
use model::taint::Effect;
use solver::{MinValuesPolicy, Options, Plan, PreferencePolicy, Rule};

#[track_caller]
fn schedules(pod: PodBuilder) {
    let plan = default_cluster().pod(pod).plan();
    assert_eq!(left_over(&plan), Vec::<String>::new(), "{:?}", plan.unschedulable);
    assert_eq!(plan.new_nodes.len(), 1);
}

#[track_caller]
fn does_not_schedule(pod: PodBuilder) -> String {
    let plan = default_cluster().pod(pod).plan();
    assert_eq!(plan.new_nodes.len(), 0);
    plan.unschedulable[0].why.to_string()
}

// Cases: SCH-A.2-1, SCH-A.6-1, SCH-B.7-1, SCH-D-1
#[test]
fn one_pod_gets_one_node_of_the_cheapest_type_that_holds_it() {
    let plan = default_cluster().pod(pod("a").cpu("1").memory("1Gi")).plan();
    assert_eq!(plan.new_nodes.len(), 1);
    let node = &plan.new_nodes[0];
    assert_eq!(&*node.launch.instance_type, "small-instance-type");
    assert_eq!(node.launch.price, plan.cost);
    assert_eq!(node.instance_types.len(), 6, "every type that fits stays: {:?}", node.instance_types);
    assert_eq!(&*node.instance_types[0], "small-instance-type", "cheapest first");
}

// Cases: SCH-A.2-10, SCH-A.9-1, SCH-B.2-6, SCH-B.3-5
#[test]
fn selectors_on_known_labels_are_honoured() {
    schedules(pod("a").select("karpenter.sh/nodepool", "default"));
    schedules(pod("a").in_zone("test-zone-3"));
    schedules(pod("a").select("node.kubernetes.io/instance-type", "small-instance-type"));
    schedules(pod("a").on_arm());
    schedules(pod("a").select("kubernetes.io/os", "linux"));
    schedules(pod("a").select(CAPACITY_TYPE, "spot"));
    schedules(pod("a").select("beta.kubernetes.io/arch", "arm64"));
}

// Cases: SCH-A.2-10, SCH-B.2-3, SCH-B.2-4
#[test]
fn selectors_on_unknown_values_and_labels_leave_the_pod_over() {
    for (key, value) in [
        ("karpenter.sh/nodepool", "unknown"),
        (ZONE, "unknown"),
        ("node.kubernetes.io/instance-type", "unknown"),
        ("kubernetes.io/arch", "unknown"),
        ("kubernetes.io/os", "unknown"),
        (CAPACITY_TYPE, "unknown"),
        ("foo", "bar"),
        (HOST, "red-node"),
    ] {
        does_not_schedule(pod("a").select(key, value));
    }
}

// Cases: SCH-B.1-3, SCH-B.4-2, SCH-B.4-3, SCH-B.4-4, SCH-B.4-5
#[test]
fn operators_on_an_undefined_label_need_its_absence() {
    does_not_schedule(pod("a").or_requires(requires("test-key", Operator::In, &["x"])));
    does_not_schedule(pod("a").or_requires(requires("test-key", Operator::Exists, &[])));
    schedules(pod("a").or_requires(requires("test-key", Operator::NotIn, &["x"])));
    schedules(pod("a").or_requires(requires("test-key", Operator::DoesNotExist, &[])));
}

// Cases: SCH-B.1-2, SCH-B.1-5, SCH-B.4-7, SCH-B.4-8, SCH-B.4-9, SCH-B.4-10, SCH-B.4-11, SCH-B.4-12
#[test]
fn operators_on_a_label_of_the_pool_see_its_values() {
    let case = |operator, values: &[&str]| {
        let plan = cluster()
            .pool(pool("default").requires("test-key", Operator::In, &["test-value"]))
            .pod(pod("a").or_requires(requires("test-key", operator, values)))
            .plan();
        plan.new_nodes.len()
    };
    assert_eq!(case(Operator::In, &["test-value"]), 1);
    assert_eq!(case(Operator::NotIn, &["test-value"]), 0);
    assert_eq!(case(Operator::Exists, &[]), 1);
    assert_eq!(case(Operator::DoesNotExist, &[]), 0);
    assert_eq!(case(Operator::In, &["another"]), 0);
    assert_eq!(case(Operator::NotIn, &["another"]), 1);
}

// Cases: SCH-B.4-13, SCH-B.4-14
#[test]
fn pods_that_agree_on_an_open_label_share_a_node_and_others_do_not() {
    let both = || pool("default").requires("test-key", Operator::In, &["test-value", "another"]);
    let shared = cluster()
        .pool(both())
        .pod(pod("a").or_requires(requires("test-key", Operator::In, &["test-value"])))
        .pod(pod("b").or_requires(requires("test-key", Operator::NotIn, &["another"])))
        .plan();
    assert_eq!(shared.new_nodes.len(), 1);
    assert_eq!(shared.new_nodes[0].requirements.get("test-key").unwrap().single(), Some("test-value"));
    let apart = cluster()
        .pool(both())
        .pod(pod("a").or_requires(requires("test-key", Operator::In, &["test-value"])))
        .pod(pod("b").or_requires(requires("test-key", Operator::In, &["another"])))
        .plan();
    assert_eq!(apart.new_nodes.len(), 2);
}

// Cases: SCH-B.2-7, SCH-B.2-8, SCH-B.2-9, SCH-B.2-10
#[test]
fn bounds_on_integers_select_types() {
    let case = |operator, value: &str| {
        let plan =
            cluster().pool(pool("default").requires("integer", operator, &[value])).pod(pod("a")).plan();
        plan.new_nodes[0].launch.instance_type.to_string()
    };
    assert_eq!(case(Operator::Gt, "8"), "arm-instance-type");
    assert_eq!(case(Operator::Lt, "4"), "small-instance-type");
    assert_eq!(case(Operator::Gte, "16"), "arm-instance-type");
    assert_eq!(case(Operator::Lte, "2"), "small-instance-type");
}

// Cases: SCH-A.2-12, SCH-B.6-2, SCH-B.6-6, SCH-B.6-8, SCH-B.6-9
#[test]
fn incompatible_pods_get_nodes_of_their_own() {
    let two = |a: PodBuilder, b: PodBuilder| default_cluster().pod(a).pod(b).plan().new_nodes.len();
    assert_eq!(two(pod("a").on_arm(), pod("b").select("kubernetes.io/arch", "amd64")), 2);
    assert_eq!(two(pod("a").in_zone("test-zone-1"), pod("b").in_zone("test-zone-2")), 2);
    assert_eq!(
        two(pod("a").select("kubernetes.io/os", "linux"), pod("b").select("kubernetes.io/os", "windows")),
        2
    );
    assert_eq!(
        two(pod("a").request("fake.com/vendor-a", "1"), pod("b").request("fake.com/vendor-b", "1")),
        2
    );
}

// Cases: SCH-B.6-10
#[test]
fn a_pod_that_needs_two_devices_of_different_types_is_left_over() {
    does_not_schedule(pod("a").request("fake.com/vendor-a", "1").request("fake.com/vendor-b", "1"));
}

// Cases: SCH-B.7-8
#[test]
fn a_zero_request_of_an_unknown_resource_is_met_everywhere() {
    schedules(pod("a").request("foo.com/resource", "0"));
}

// Cases: SCH-B.6-13, SCH-B.6-14
#[test]
fn types_of_an_optional_label_follow_exists_and_does_not_exist() {
    let case = |operator| {
        let plan = cluster()
            .pool(pool("default").types(linear(5)))
            .pod(pod("a").or_requires(requires("special", operator, &[])))
            .plan();
        plan.new_nodes[0].launch.instance_type.to_string()
    };
    assert_eq!(case(Operator::Exists), "fake-it-4");
    assert_eq!(case(Operator::DoesNotExist), "fake-it-0");
}

// Cases: SCH-B.6-1
#[test]
fn the_reason_names_the_nearest_miss() {
    let why = does_not_schedule(pod("a").request("fake.com/vendor-a", "16"));
    assert!(why.contains("no type has 16 fake.com/vendor-a; the largest has 2"), "{why}");
    let why = does_not_schedule(pod("a").cpu("512"));
    assert!(why.contains("no type has 512 cpu; the largest has 15900m"), "{why}");
    let why = does_not_schedule(pod("a").select("foo", "bar"));
    assert!(why.contains("foo"), "{why}");
}

// Cases: SCH-A.3-2, SCH-A.3-3, SCH-A.3-4
#[test]
fn limits_stop_at_what_is_left() {
    let with_limit = |cpu: &str, pods: Vec<PodBuilder>| {
        let mut cluster = cluster().pool(pool("default").limit("cpu", cpu));
        for pod in pods {
            cluster = cluster.pod(pod);
        }
        placed(&cluster.plan())
    };
    assert_eq!(with_limit("2", vec![pod("a").cpu("1750m")]), 1);
    assert_eq!(with_limit("2", vec![pod("a").cpu("2100m")]), 0);
    let apart = |name| pod(name).cpu("1500m").app("x").apart_from(term(HOST, &[("app", "x")]));
    assert_eq!(with_limit("3", vec![apart("a"), apart("b")]), 1);
}

// Cases: SCH-A.3-1
#[test]
fn usage_of_nodes_that_exist_counts_against_limits() {
    let plan = cluster()
        .pool(pool("default").limit("cpu", "20"))
        .node(node("big").of_pool("default").has("cpu", "100").has("pods", "0"))
        .pod(pod("a").cpu("1"))
        .plan();
    assert_eq!(placed(&plan), 0);
    assert!(
        plan.unschedulable[0].why.to_string().contains("limit of 20 cpu"),
        "{}",
        plan.unschedulable[0].why
    );
}

// Cases: SCH-A.3-7
#[test]
fn the_number_of_nodes_is_limited_within_one_batch() {
    let plan = cluster()
        .pool(pool("default").limit("nodes", "2"))
        .pods(pod("a").app("x").apart_from(term(HOST, &[("app", "x")])).times(3))
        .plan();
    assert_eq!((plan.new_nodes.len(), plan.unschedulable.len()), (2, 1));
}

#[test]
fn many_small_pods_reach_their_limit_in_one_batch() {
    // Charged at the largest type of every node, three pods would exhaust a limit that holds all twelve.
    let plan = cluster()
        .pool(pool("default").limit("cpu", "16"))
        .pods(pod("a").cpu("1").app("x").apart_from(term(HOST, &[("app", "x")])).times(8))
        .plan();
    assert_eq!(placed(&plan), 8, "{:?}", plan.unschedulable.first().map(|u| u.why.to_string()));
}

// Cases: SCH-A.4-1, SCH-A.4-3, SCH-A.4-4, SCH-A.4-11, SCH-A.4-12, SCH-A.4-14, SCH-A.4-16, SCH-A.4-18, SCH-A.4-20, SCH-B.8-16
// Cases: SCH-C.10-3
#[test]
fn daemons_take_their_share_of_every_node_that_they_run_on() {
    let with_daemon = |daemon: PodBuilder, pool: PoolBuilder| {
        let plan = cluster().pool(pool).daemon(daemon).pod(pod("a").cpu("1").memory("1Gi")).plan();
        plan.new_nodes.first().map(|n| n.launch.instance_type.to_string())
    };
    let four = Some("default-instance-type".to_owned());
    let two = Some("small-instance-type".to_owned());
    let daemon = || pod("d").cpu("2").memory("2Gi");
    assert_eq!(with_daemon(daemon(), pool("default")), four);
    assert_eq!(with_daemon(daemon(), pool("default").startup_taint("x")), four);
    assert_eq!(with_daemon(pod("d").cpu("10000"), pool("default")), None);
    assert_eq!(with_daemon(daemon().select("foo", "bar"), pool("default")), two);
    assert_eq!(with_daemon(daemon().select("foo", "bar"), pool("default").label("foo", "bar")), four);
    assert_eq!(
        with_daemon(daemon().or_requires(requires("foo", Operator::NotIn, &["bar"])), pool("default")),
        four
    );
    let second = daemon().or_requires(is("foo", &["bar"])).or_requires(is("kubernetes.io/os", &["linux"]));
    assert_eq!(with_daemon(second, pool("default")), four);
    assert_eq!(with_daemon(daemon().select("karpenter.sh/initialized", "true"), pool("default")), four);
    let soft = pool("default").taint("soft", "", Effect::PreferNoSchedule);
    assert_eq!(with_daemon(daemon(), soft), four);
    let hard = cluster()
        .pool(pool("default").taint("hard", "", Effect::NoSchedule))
        .daemon(daemon())
        .pod(pod("a").cpu("1").memory("1Gi").tolerates("hard"))
        .plan();
    assert_eq!(
        &*hard.new_nodes[0].launch.instance_type, "small-instance-type",
        "the daemon does not tolerate the pool"
    );
}

// Cases: SCH-A.6-8, SCH-A.6-9, SCH-A.6-10
#[test]
fn daemon_overhead_is_in_the_requests_of_a_node_once() {
    let plan = default_cluster()
        .daemon(pod("d").cpu("1").memory("1Mi"))
        .pods(pod("a").cpu("1").memory("1Mi").times(2))
        .plan();
    assert_eq!(plan.new_nodes.len(), 1);
    assert_eq!(plan.new_nodes[0].requests, resources(&[("cpu", "3"), ("memory", "3Mi"), ("pods", "3")]));
}

// Cases: SCH-A.4-2, SCH-A.4-21
#[test]
fn a_host_port_of_a_daemon_is_taken_on_its_nodes_only() {
    let plan = default_cluster().daemon(pod("d").host_port(8080)).pod(pod("a").host_port(8080)).plan();
    assert_eq!(placed(&plan), 0);
    assert!(plan.unschedulable[0].why.to_string().contains("host port"), "{}", plan.unschedulable[0].why);
    let plan = default_cluster()
        .daemon(pod("d").host_port(8080).select("size", "large"))
        .pod(pod("a").host_port(8080).select("size", "small"))
        .plan();
    assert_eq!(placed(&plan), 1);
}

// Cases: SCH-B.8-20
#[test]
fn pods_with_the_same_host_port_get_two_nodes() {
    let plan = default_cluster().pods(pod("a").host_port(8080).times(2)).plan();
    assert_eq!(plan.new_nodes.len(), 2);
}

// Cases: SCH-A.9-1, SCH-A.9-4, SCH-A.9-5, SCH-K-70
#[test]
fn the_heaviest_pool_is_used_first() {
    let plan = cluster()
        .pool(pool("none"))
        .pool(pool("heavy").weight(100))
        .pool(pool("light").weight(20))
        .pods(pod("a").times(3))
        .plan();
    assert!(plan.new_nodes.iter().all(|n| &*n.pool == "heavy"));
    let explicit = cluster()
        .pool(pool("light"))
        .pool(pool("heavy").weight(100))
        .pod(pod("a").select("karpenter.sh/nodepool", "light"))
        .plan();
    assert_eq!(&*explicit.new_nodes[0].pool, "light");
}

// Cases: SCH-A.9-6, SCH-A.9-7
#[test]
fn pools_of_fixed_size_get_no_new_nodes() {
    let plan = cluster().pool(pool("static").fixed_size()).pod(pod("a")).plan();
    assert_eq!(placed(&plan), 0);
    let plan =
        cluster().pool(pool("static").fixed_size().weight(9)).pool(pool("dynamic")).pod(pod("a")).plan();
    assert_eq!(&*plan.new_nodes[0].pool, "dynamic");
}

// Cases: SCH-A.5-6, SCH-C.10-2
#[test]
fn taints_of_a_pool_need_a_toleration() {
    let tainted = || cluster().pool(pool("default").taint("key", "value", Effect::NoSchedule));
    assert_eq!(placed(&tainted().pod(pod("a")).plan()), 0);
    assert_eq!(placed(&tainted().pod(pod("a").tolerates("key")).plan()), 1);
    assert_eq!(placed(&tainted().pod(pod("a").tolerates("")).plan()), 1);
    assert_eq!(
        placed(&tainted().pod(pod("a").tolerates_value("key", "value", Effect::NoSchedule)).plan()),
        1
    );
    assert_eq!(
        placed(&tainted().pod(pod("a").tolerates_value("key", "other", Effect::NoSchedule)).plan()),
        0
    );
}

// Cases: SCH-B.15-3
#[test]
fn a_pool_that_excludes_everything_says_so_and_pods_still_use_nodes_that_exist() {
    let impossible = || {
        pool("default").requires("kubernetes.io/arch", Operator::In, &["amd64"]).requires(
            "kubernetes.io/arch",
            Operator::In,
            &["arm64"],
        )
    };
    let plan = cluster().pool(impossible()).pod(pod("a")).plan();
    assert!(
        plan.unschedulable[0].why.to_string().contains("leave no instance type"),
        "{}",
        plan.unschedulable[0].why
    );
    let plan = cluster().pool(impossible()).node(node("n")).pod(pod("a")).plan();
    assert_eq!(plan.existing.len(), 1);
}

// Cases: SCH-A.8-1, SCH-A.8-2, SCH-B.2-11, SCH-B.5-1, SCH-B.5-2
#[test]
fn or_terms_are_tried_until_one_works() {
    let plan = default_cluster()
        .pod(
            pod("a")
                .or_requires(is(ZONE, &["unknown"]))
                .or_requires(is("foo", &["bar"]))
                .or_requires(is(ZONE, &["test-zone-1"]))
                .or_requires(is(ZONE, &["test-zone-2"])),
        )
        .plan();
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some("test-zone-1"));
    does_not_schedule(pod("a").or_requires(is(ZONE, &["unknown"])));
}

// Cases: SCH-A.8-3, SCH-A.8-4, SCH-A.8-7, SCH-B.5-4
#[test]
fn lighter_preferences_count_once_heavier_ones_are_dropped() {
    let preferring = || {
        pod("a")
            .prefers(100, is("foo", &["bar"]))
            .prefers(50, is(ZONE, &["test-zone-2"]))
            .prefers(1, is(ZONE, &["test-zone-1"]))
    };
    let plan = default_cluster().pod(preferring()).plan();
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some("test-zone-2"));
    let ignore = Options { preferences: PreferencePolicy::Ignore, ..Options::default() };
    let plan = default_cluster().pod(preferring()).plan_with(&ignore);
    assert_eq!(zone_of(&plan.new_nodes[0]), None, "ignored preferences pin nothing");
}

// Cases: SCH-B.5-5
#[test]
fn a_preference_against_a_requirement_is_dropped() {
    let plan =
        default_cluster().pod(pod("a").in_zone("test-zone-3").prefers(1, is(ZONE, &["test-zone-1"]))).plan();
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some("test-zone-3"));
}

// Cases: SCH-A.8-3, SCH-A.8-5, SCH-A.9-3, SCH-B.5-3
#[test]
fn soft_taints_are_put_up_with_last() {
    let soft = || pool("soft").taint("soft", "", Effect::PreferNoSchedule).weight(100);
    let plan = cluster().pool(soft()).pod(pod("a").prefers(1, is("foo", &["bar"]))).plan();
    assert_eq!(placed(&plan), 1);
    let plan = cluster().pool(soft()).pool(pool("plain")).pod(pod("a")).plan();
    assert_eq!(&*plan.new_nodes[0].pool, "plain");
    let plan = cluster().node(node("n").taint("soft", Effect::PreferNoSchedule)).pod(pod("a")).plan();
    assert_eq!(plan.existing.len(), 1, "also where only a node has such a taint");
}

#[test]
fn unavailable_offerings_are_not_used() {
    let types = vec![
        instance_type("cheap").price(0.1).unavailable().build(),
        instance_type("dear").price(1.0).build(),
    ];
    let plan = cluster().pool(pool("default").types(types)).pod(pod("a")).plan();
    assert_eq!(&*plan.new_nodes[0].launch.instance_type, "dear");
    assert_eq!(type_names(&plan.new_nodes[0]), ["dear"]);
}

// Cases: SCH-A.10-1, SCH-A.10-2, SCH-A.10-3, SCH-D-33
#[test]
fn min_values_strict_refuses_and_best_effort_lowers_them() {
    let types = || vec![instance_type("one").price(0.1).build(), instance_type("two").build()];
    let key = "node.kubernetes.io/instance-type";
    let wants = || pool("default").types(types()).min_values(key, Operator::In, &["one", "two", "three"], 3);
    let plan = cluster().pool(wants()).pod(pod("a")).plan();
    assert_eq!(placed(&plan), 0);
    assert!(plan.unschedulable[0].why.to_string().contains("minValues"), "{}", plan.unschedulable[0].why);
    let best_effort = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    let plan = cluster().pool(wants()).pod(pod("a")).plan_with(&best_effort);
    assert_eq!(&*plan.new_nodes[0].launch.instance_type, "one");
    assert!(plan.new_nodes[0].min_values_relaxed);
    assert_eq!(plan.new_nodes[0].requirements.get(key).unwrap().min_values(), Some(2));
    let plan = cluster().pool(wants().weight(9)).pool(pool("other")).pod(pod("a")).plan_with(&best_effort);
    assert_eq!(&*plan.new_nodes[0].pool, "default", "the heavier pool is relaxed rather than passed over");
}

// Cases: SCH-D-26
#[test]
fn min_values_keep_pods_apart_that_would_leave_too_few_types() {
    let types = vec![
        instance_type("small").cpu(1).memory(4).pods(10).build(),
        instance_type("large").cpu(4).memory(4).pods(10).build(),
    ];
    let key = "node.kubernetes.io/instance-type";
    let plan = cluster()
        .pool(pool("default").types(types).min_values(key, Operator::Exists, &[], 2))
        .pods(pod("a").cpu("900m").times(2))
        .plan();
    assert_eq!(plan.new_nodes.len(), 2);
    assert!(plan.new_nodes.iter().all(|n| n.instance_types.len() == 2));
}

#[test]
fn at_most_as_many_types_as_allowed_are_listed_and_the_cheapest_are_kept() {
    let options = Options { max_instance_types: 3, ..Options::default() };
    let plan = cluster().pool(pool("default").types(linear(10))).pod(pod("a")).plan_with(&options);
    assert_eq!(type_names(&plan.new_nodes[0]), ["fake-it-0", "fake-it-1", "fake-it-2"]);
}

// Cases: SCH-A.7-1, SCH-A.7-6, SCH-A.7-7, SCH-A.7-8
#[test]
fn rejected_pods_are_reported_and_disturb_nothing() {
    let plan = default_cluster()
        .pod(pod("bad").but(|p| p.rejected = Some("volume claim default/x does not exist".to_owned())))
        .pod(pod("good"))
        .plan();
    assert_eq!(left_over(&plan), ["bad"]);
    assert_eq!(plan.unschedulable[0].why.to_string(), "volume claim default/x does not exist");
    assert_eq!(placed(&plan), 1);
}

#[test]
fn a_selector_that_contradicts_the_affinity_is_met_by_no_node() {
    let torn = || pod("torn").select("team", "red").or_requires(requires("team", Operator::NotIn, &["red"]));
    let plan = cluster()
        .pool(pool("unlabelled"))
        .pool(pool("red").label("team", "red"))
        .node(node("plain"))
        .node(node("red-node").label("team", "red"))
        .pod(torn())
        .pod(pod("fine").select("team", "red"))
        .plan();
    assert_eq!(left_over(&plan), ["torn"]);
    let why = plan.unschedulable[0].why.to_string();
    assert!(why.contains("contradict each other on label team"), "{why}");
    // Another alternative of the affinity still does.
    let plan = cluster()
        .pool(pool("red").label("team", "red"))
        .pod(torn().or_requires(is(ZONE, &[ZONES[0]])))
        .plan();
    assert_eq!(placed(&plan), 1);
}

/// Five cheap types of one family and one dear one of each of two others.
fn lopsided() -> Vec<InstanceType> {
    let of = |family: &str, n: i64, price: f64| {
        instance_type(&format!("{family}-{n}")).cpu(4).memory(16).price(price).label("family", family).build()
    };
    let mut types: Vec<InstanceType> = (0..5).map(|n| of("a", n, 0.1 + 0.001 * n as f64)).collect();
    types.extend([of("b", 0, 0.5), of("c", 0, 0.6)]);
    types
}

fn wants_three_families(most: usize, policy: MinValuesPolicy) -> Plan {
    let options = Options { max_instance_types: most, min_values: policy, ..Options::default() };
    cluster()
        .pool(pool("default").types(lopsided()).min_values("family", Operator::Exists, &[], 3))
        .pod(pod("a").cpu("1"))
        .plan_with(&options)
}

#[test]
fn a_list_of_types_that_is_cut_keeps_the_values_that_min_values_asks_for() {
    let plan = wants_three_families(4, MinValuesPolicy::Strict);
    assert_eq!(type_names(&plan.new_nodes[0]), ["a-0", "a-1", "b-0", "c-0"]);
}

/// Spot is preferred even where it is dearer, if `minValues` needs it: what the node is priced as stays on a list of one.
#[test]
fn a_list_of_types_that_is_cut_keeps_what_the_node_would_be_launched_as() {
    let types = vec![
        instance_type("cheap").price(0.1).offered(&[(ZONES[0], CapacityType::OnDemand)]).build(),
        instance_type("preferred").price(0.2).offered(&[(ZONES[0], CapacityType::Spot)]).build(),
    ];
    let options =
        Options { max_instance_types: 1, min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    let plan = cluster()
        .pool(pool("default").types(types).min_values(model::labels::INSTANCE_TYPE, Operator::Exists, &[], 2))
        .pod(pod("a").cpu("1"))
        .plan_with(&options);
    let node = &plan.new_nodes[0];
    assert_eq!(type_names(node), [&*node.launch.instance_type]);
}

// Cases: SCH-D-34
#[test]
fn a_list_that_cannot_hold_enough_values_makes_no_node_or_says_that_it_fell_short() {
    let strict = wants_three_families(2, MinValuesPolicy::Strict);
    assert!(strict.new_nodes.is_empty());
    assert_eq!(strict.unschedulable[0].why.pools[0].rule, Rule::MinValues);
    let relaxed = wants_three_families(2, MinValuesPolicy::BestEffort);
    let node = &relaxed.new_nodes[0];
    assert!(node.min_values_relaxed);
    assert_eq!(node.instance_types.len(), 2);
    let family = node.requirements.get("family").and_then(|r| r.min_values());
    assert_eq!(family, Some(2));
}

#[test]
fn limits_count_the_largest_capacity_that_a_type_may_come_with() {
    let mut kind = instance_type("t").cpu(2).memory(8).build();
    for offering in kind.offerings.iter_mut().take(2) {
        offering.capacity_override = resources(&[("memory", "768Mi")]);
    }
    let input = cluster()
        .pool(pool("default").types(vec![kind]).limit("memory", "12Gi"))
        .pods(pod("a").cpu("1500m").memory("256Mi").times(3))
        .input();
    let plan = solver::solve(&solver::Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert!(solver::check::check(&input, &plan, &Options::default()).is_empty());
    assert_eq!(plan.new_nodes.len(), 1, "two nodes could grow to 16Gi");
}
