//! Nodes that exist, volumes, reservations, and removal what-ifs.

mod fixture;

use fixture::*;
use model::catalog::CapacityType;
use model::labels;
use model::taint::Effect;
use solver::{Change, Options, simulate};

fn first_existing(plan: &solver::Plan) -> &str {
    &plan.existing[0].node
}

// Cases: SCH-B.9-1, SCH-B.9-2
#[test]
fn capacity_that_exists_comes_before_new_nodes() {
    let plan = default_cluster().node(node("n")).pods(pod("a").cpu("10m").times(100)).plan();
    assert_eq!((plan.new_nodes.len(), plan.existing[0].pods.len()), (0, 100));
    let plan = default_cluster().node(node("n")).pods(pod("a").cpu("3").times(2)).plan();
    assert_eq!((plan.new_nodes.len(), placed(&plan)), (1, 2));
}

// Cases: DEL-18, SCH-B.8-19, SCH-B.9-3
#[test]
fn initialised_nodes_come_before_starting_ones() {
    let plan = default_cluster()
        .node(node("a-starting").of_pool("default").starting())
        .node(node("z-ready").of_pool("default"))
        .pod(pod("a").cpu("1"))
        .plan();
    assert_eq!(first_existing(&plan), "z-ready");
}

// Cases: CST-56, CST-58, CST-59, CST-60, SCH-B.8-9, SCH-B.8-10, SCH-B.8-11, SCH-B.8-12, SCH-H.7-1, SCH-H.7-3, SCH-H.7-4
// Cases: SCH-H.7-5
#[test]
fn taints_of_a_starting_node_are_expected_to_go() {
    let starting =
        |node: NodeBuilder| {
            placed(
                &cluster()
                    .node(node.of_pool("x").but(|n| {
                        n.startup_taints.push(model::taint::Taint::new("boot", "", Effect::NoSchedule))
                    }))
                    .pod(pod("a"))
                    .plan(),
            )
        };
    let not_ready = "node.kubernetes.io/not-ready";
    assert_eq!(starting(node("n").starting().taint(not_ready, Effect::NoExecute)), 1);
    assert_eq!(starting(node("n").taint(not_ready, Effect::NoExecute)), 0);
    assert_eq!(starting(node("n").starting().taint("boot", Effect::NoSchedule)), 1);
    assert_eq!(starting(node("n").taint("boot", Effect::NoSchedule)), 0);
    assert_eq!(starting(node("n").starting().taint("custom", Effect::NoSchedule)), 0);
}

#[test]
fn a_node_lacks_the_labels_that_it_lacks() {
    let plan = cluster().node(node("n").without_label(ZONE)).pod(pod("a").in_zone(ZONES[0])).plan();
    assert_eq!(placed(&plan), 0);
}

// Cases: CST-24, SCH-B.8-14, SCH-H.3-10
#[test]
fn daemons_that_still_have_to_start_are_taken_off() {
    let with = |cpu: &str, running: bool| {
        let mut all = cluster().node(node("n")).daemon(pod("d").cpu("1"));
        if running {
            all = all.pod(pod("d").cpu("1").on_node("n").but(|p| {
                p.daemon = true;
                p.bound_to_node = true;
            }));
        }
        placed(&all.pod(pod("a").cpu(cpu)).plan())
    };
    assert_eq!((with("3", false), with("3500m", false)), (1, 0));
    assert_eq!((with("3", true), with("3500m", true)), (1, 0));
}

// Cases: SCH-B.11-1, SCH-B.11-2, SCH-H.2-1
#[test]
fn attach_limits_count_claims_once() {
    let ebs = Some("ebs.csi.aws.com");
    let mut all = default_cluster().node(node("n").has("pods", "100").csi_limit("ebs.csi.aws.com", 10));
    for index in 0..6 {
        let claim = |n| format!("default/claim-{index}-{n}");
        all = all.pod(pod(&format!("a{index}")).cpu("10m").volume(&claim(0), ebs, vec![]).volume(
            &claim(1),
            ebs,
            vec![],
        ));
    }
    let plan = all.plan();
    assert_eq!(plan.existing[0].pods.len(), 5);
    assert_eq!(plan.new_nodes.len(), 1);
    let shared = default_cluster()
        .node(node("n").csi_limit("ebs.csi.aws.com", 1))
        .pods(pod("a").cpu("10m").volume("default/shared", ebs, vec![]).times(50))
        .plan();
    assert_eq!(shared.existing[0].pods.len(), 50);
}

// Cases: SCH-A.7-9, SCH-A.7-11, SCH-A.7-17, SCH-A.7-18
#[test]
fn volumes_decide_the_zone_of_the_node_and_not_of_the_pod() {
    let zones23 = || vec![is(ZONE, &ZONES[1..])];
    let plan = default_cluster()
        .pod(pod("a").or_requires(is(ZONE, &[ZONES[0], ZONES[2]])).volume("default/v", None, zones23()))
        .plan();
    assert_eq!(zone_of(&plan.new_nodes[0]).as_deref(), Some(ZONES[2]));
    let plan = default_cluster().pod(pod("a").in_zone(ZONES[0]).volume("default/v", None, zones23())).plan();
    assert_eq!(placed(&plan), 0);
    let plan =
        default_cluster().pod(pod("a").volume("default/v", None, vec![is(HOST, &["some-node"])])).plan();
    assert_eq!(placed(&plan), 0, "a volume of one node cannot be used on a new one");
}

// Cases: SCH-B.11-4, SCH-B.11-7
#[test]
fn alternatives_of_volumes_spread_with_anti_affinity() {
    let either = || vec![is(ZONE, &ZONES[..1]), is(ZONE, &ZONES[1..2])];
    let plan = default_cluster()
        .pods(
            pod("a")
                .app("x")
                .apart_from(term(ZONE, &[("app", "x")]))
                .volume("default/v", None, either())
                .times(2),
        )
        .plan();
    let mut zones: Vec<_> = plan.new_nodes.iter().filter_map(zone_of).collect();
    zones.sort();
    assert_eq!(zones, ZONES[..2]);
    let one_way = default_cluster()
        .pod(pod("a").volume("default/v", None, either()).volume(
            "default/w",
            None,
            vec![is(ZONE, &ZONES[1..2]), is(ZONE, &ZONES[2..])],
        ))
        .plan();
    assert_eq!(zone_of(&one_way.new_nodes[0]).as_deref(), Some(ZONES[1]));
}

fn reserved_types() -> Vec<model::catalog::InstanceType> {
    vec![
        instance_type("large").cpu(6).memory(16).pods(10).build(),
        instance_type("medium").cpu(3).memory(8).pods(10).reserved("r-medium", 1, 0.002).build(),
        instance_type("small").cpu(2).memory(4).pods(10).reserved("r-small", 1, 0.001).build(),
    ]
}

// Cases: SCH-B.14-1, SCH-E-1, SCH-E-3, SCH-E-6, SCH-E-8
#[test]
fn reserved_capacity_is_used_first_and_never_twice() {
    let plan =
        cluster().pool(pool("default").types(reserved_types())).pods(pod("a").cpu("1800m").times(3)).plan();
    assert_eq!(placed(&plan), 3);
    let mut reservations: Vec<_> =
        plan.new_nodes.iter().filter_map(|n| n.launch.reservation.clone()).collect();
    reservations.sort();
    assert_eq!(reservations.iter().map(|r| &**r).collect::<Vec<_>>(), ["r-medium", "r-small"]);
    let reserved = plan.new_nodes.iter().find(|n| n.launch.reservation.is_some()).unwrap();
    assert_eq!(reserved.requirements.get(CAPACITY_TYPE).unwrap().single(), Some("reserved"));
    let bought = plan.new_nodes.iter().find(|n| n.launch.reservation.is_none()).unwrap();
    assert!(!bought.requirements.get(CAPACITY_TYPE).unwrap().contains("reserved"));
}

// Cases: SCH-B.14-2, SCH-E-20
#[test]
fn a_reservation_shared_by_two_pools_is_not_given_twice() {
    let types = std::sync::Arc::new(reserved_types());
    let of = |name: &str| {
        let mut pool = pool(name).build();
        pool.instance_types = std::sync::Arc::clone(&types);
        pool
    };
    let mut all = cluster();
    all.0.pools = vec![of("a"), of("b")];
    let plan = all
        .pod(pod("x").cpu("1800m").select("karpenter.sh/nodepool", "a"))
        .pod(pod("y").cpu("1800m").select("karpenter.sh/nodepool", "b"))
        .pod(pod("z").cpu("1800m").select("karpenter.sh/nodepool", "b"))
        .plan();
    let mut ids: Vec<_> = plan.new_nodes.iter().filter_map(|n| n.launch.reservation.clone()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), all), (2, 2));
}

// Cases: SCH-B.14-7, SCH-E-2, SCH-E-4
#[test]
fn reserved_only_pods_share_a_reserved_node() {
    let plan = cluster()
        .pool(pool("default").types(reserved_types()))
        .pods(
            pod("a")
                .app("x")
                .cpu("500m")
                .select(CAPACITY_TYPE, "reserved")
                .with(term(ZONE, &[("app", "x")]))
                .times(2),
        )
        .plan();
    assert_eq!(pods_per_node(&plan), [2]);
    assert_eq!(plan.new_nodes[0].launch.capacity_type, CapacityType::Reserved);
}

#[test]
fn spot_is_launched_before_on_demand_at_the_same_price() {
    let plan = default_cluster().pod(pod("a")).plan();
    assert_eq!(plan.new_nodes[0].launch.capacity_type, CapacityType::Spot);
}

// Cases: SCH-A.2-15
#[test]
fn pods_of_deleting_nodes_get_new_places_and_nothing_goes_there() {
    let plan = default_cluster()
        .node(node("going").deleting())
        .pods(pod("moving").cpu("1").on_node("going").times(3))
        .pod(pod("daemon").on_node("going").but(|p| p.bound_to_node = true))
        .pod(pod("protected").on_node("going").but(|p| p.reschedulable = false))
        .pods(pod("new").cpu("1").times(2))
        .plan();
    assert_eq!(plan.existing.len(), 0);
    assert_eq!(placed(&plan), 5);
}

// Cases: DEL-4
#[test]
fn a_removal_moves_pods_to_the_rest_or_to_new_nodes() {
    let snapshot = default_cluster()
        .node(node("a"))
        .node(node("b"))
        .pods(pod("small").cpu("1").on_node("a").times(2))
        .pods(pod("big").cpu("1").on_node("b").times(3))
        .snapshot();
    let remove = |name: &str| {
        simulate(&snapshot, &[snapshot.node_id(name).unwrap()], &[], &Options::default(), &|| true)
    };
    let plan = remove("a");
    assert_eq!((plan.existing.iter().map(|n| n.pods.len()).sum::<usize>(), plan.new_nodes.len()), (1, 1));
    let plan = remove("b");
    assert_eq!((plan.existing.iter().map(|n| n.pods.len()).sum::<usize>(), plan.new_nodes.len()), (2, 1));
    let again = remove("b");
    assert_eq!(plan, again, "the snapshot is untouched");
}

// Cases: TOP-2
#[test]
fn moved_pods_do_not_count_where_they_were() {
    let on: &[(&str, &str)] = &[("app", "web")];
    let web = |name: &str| pod(name).app("web").cpu("1").apart_from(term(HOST, on));
    let snapshot = cluster()
        .node(node("a"))
        .node(node("b"))
        .node(node("c"))
        .pod(web("x").on_node("a"))
        .pod(web("y").on_node("b"))
        .snapshot();
    let plan = simulate(&snapshot, &[snapshot.node_id("a").unwrap()], &[], &Options::default(), &|| true);
    assert_eq!(first_existing(&plan), "c");
}

// Cases: DEL-15
#[test]
fn settling_nodes_accept_pending_pods_but_not_moved_ones() {
    let snapshot = || {
        cluster()
            .node(node("a").of_pool("p").but(|n| n.settling = true))
            .node(node("b").of_pool("p"))
            .pod(pod("moved").cpu("1").on_node("b"))
            .pod(pod("pending").cpu("1"))
            .snapshot()
    };
    let protect = Options { protect_settling: true, ..Options::default() };
    let snapshot = snapshot();
    let plan = simulate(&snapshot, &[snapshot.node_id("b").unwrap()], &[], &protect, &|| true);
    assert_eq!(left_over(&plan), ["moved"]);
    assert_eq!(plan.existing[0].pods.len(), 1);
}

#[test]
fn added_pods_are_placed_too() {
    let snapshot = default_cluster().node(node("a")).pod(pod("x").cpu("1").on_node("a")).snapshot();
    let added = pod("new").cpu("2").times(2);
    let plan = simulate(&snapshot, &[], &added, &Options::default(), &|| true);
    assert_eq!((placed(&plan), plan.new_nodes.len()), (2, 1));
}

#[test]
fn changes_give_the_same_answers_as_a_new_build() {
    let on: &[(&str, &str)] = &[("app", "web")];
    let web = |name: &str| pod(name).app("web").cpu("1").spread(spread(ZONE, 1, on));
    let start =
        || default_cluster().node(node("a")).node(node("b").zone(ZONES[1])).pod(web("x").on_node("a"));
    let changed = start()
        .snapshot()
        .apply(&[
            Change::PodAdded(web("y").on_node("b").build()),
            Change::NodeSet(node("c").zone(ZONES[2]).build()),
            Change::PodRemoved { namespace: "default".into(), name: "x".into(), node: Some("a".into()) },
            Change::PodAdded(web("z").build()),
            Change::NodeRemoved("b".into()),
            Change::PodAdded(web("w").cpu("2").build()),
        ])
        .expect("nothing unknown");
    let built = default_cluster()
        .node(node("a"))
        .node(node("c").zone(ZONES[2]))
        .pod(web("z"))
        .pod(web("w").cpu("2"))
        .snapshot();
    let options = Options::default();
    assert_eq!(solver::solve(&changed, &options, &|| true), solver::solve(&built, &options, &|| true));
}

#[test]
fn a_deadline_returns_what_is_decided_and_names_the_rest() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let calls = AtomicU32::new(0);
    let snapshot =
        default_cluster().pods(pod("a").cpu("1").times(2)).pods(pod("b").cpu("2").times(2)).snapshot();
    let plan = solver::solve(&snapshot, &Options::default(), &|| calls.fetch_add(1, Ordering::Relaxed) < 1);
    assert!(plan.timed_out);
    assert_eq!((placed(&plan), plan.unreached.len(), plan.unschedulable.len()), (2, 2, 0));
}

#[test]
fn explanations_say_why_here_and_why_not_there() {
    let snapshot = cluster()
        .pool(pool("gpu").weight(10).taint("gpu", "", Effect::NoSchedule))
        .pool(pool("plain"))
        .pool(pool("another").weight(-1))
        .pod(pod("a").cpu("1"))
        .snapshot();
    let options = Options::default();
    let plan = solver::solve(&snapshot, &options, &|| true);
    let why = solver::explain(&snapshot, "default", "a", Some(&plan), &options).unwrap();
    assert!(why.verdict.contains("small-instance-type") && why.verdict.contains("pool plain"), "{why}");
    assert_eq!(why.pools.len(), 2);
    assert!(why.pools[0].miss.contains("taint gpu:NoSchedule is not tolerated"), "{why}");
    assert!(solver::explain(&snapshot, "default", "nobody", Some(&plan), &options).is_none());
}

#[test]
fn what_a_pod_has_to_give_up_is_named_in_order() {
    let wishes = pod("wishes")
        .cpu("1")
        .prefers(50, is(labels::ZONE, &["nowhere"]))
        .prefers(90, is(labels::ARCH, &["none"]))
        .prefers(10, is(labels::ZONE, &[ZONES[0]]));
    let snapshot = default_cluster().pod(wishes).pod(pod("content").cpu("1")).snapshot();
    let options = Options::default();
    let given_up = solver::relaxed(&snapshot, "default", "wishes", &options);
    assert_eq!(given_up.len(), 2, "{given_up:?}");
    assert!(given_up[0].contains("weight 90") && given_up[1].contains("weight 50"), "{given_up:?}");
    assert!(solver::relaxed(&snapshot, "default", "content", &options).is_empty());
}
