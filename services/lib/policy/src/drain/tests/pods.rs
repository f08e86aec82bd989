use super::super::leaving::{leaving, waiting};
use super::super::time::seconds_between;
use super::*;

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.name).collect()
}

// Cases: TRM-14, TRM-15
#[test]
fn groups_leave_one_after_another_and_all_are_counted() {
    let all = [pod("d").critical().daemon(), pod("c").critical(), pod("b").daemon(), pod("a")];
    for (left, expected) in [(4, "a"), (3, "b"), (2, "c"), (1, "d")] {
        let plan = leaving(&arcs(all[..left].iter().cloned()), None, at(0));
        assert_eq!((names(&plan.evict), plan.awaited), (vec![expected], left));
    }
}

// Cases: TRM-14, TRM-17
#[test]
fn a_group_is_not_begun_while_one_pod_before_it_is_still_terminating() {
    let plan = leaving(&arcs([pod("a").deleted(0), pod("b").daemon()]), None, at(10));
    assert_eq!((plan.evict.len(), plan.awaited), (0, 2));
}

// Cases: TRM-9, TRM-12, TRM-16, TRM-17, TRM-20, EVQ-10
#[test]
fn who_is_evicted_and_who_is_waited_for() {
    let mut tolerating = pod("tolerating");
    tolerating.tolerates_disrupted = true;
    let mut mirror = pod("static");
    mirror.owner = Owner::Node;
    let mut done = pod("done");
    done.phase = Phase::Done;
    let cases = [
        (pod("ordinary"), true, true),
        (pod("daemon").daemon(), true, true),
        (tolerating, false, false),
        (mirror, false, false),
        (done, false, false),
        (pod("terminating").deleted(-10), false, true),
        (pod("stuck").deleted(-91), false, false),
        (pod("nearly-stuck").deleted(-90), false, true),
        (pod("protected").protected("true"), false, true),
        (pod("protected-still").protected("20m"), false, true),
        (pod("protected-no-more").protected("10m"), true, true),
        (pod("nonsense").protected("maybe"), true, true),
    ];
    for (pod, evicted, awaited) in cases {
        let name = pod.name.clone();
        let plan = leaving(&arcs([pod]), None, at(0));
        assert_eq!((plan.evict.len() == 1, plan.awaited == 1), (evicted, awaited), "{name}");
        assert!(plan.delete.is_empty(), "nothing is deleted without a deadline: {name}");
    }
}

// Cases: TRM-23, EVQ-11, EVQ-12
#[test]
fn a_pod_is_deleted_just_in_time_for_its_own_grace_period() {
    let pods = arcs([pod("a").grace(60).protected("true")]);
    assert!(leaving(&pods, Some(at(300)), at(90)).delete.is_empty());
    assert!(leaving(&pods, Some(at(300)), at(240)).delete.is_empty());
    let plan = leaving(&pods, Some(at(300)), at(241));
    assert_eq!(plan.delete, [(pods[0].clone(), 59)]);
}

// Cases: TRM-22
#[test]
fn a_pod_whose_grace_exceeds_the_time_left_is_deleted_at_once_with_what_is_left() {
    let pods = arcs([pod("a").grace(600).protected("true")]);
    assert_eq!(leaving(&pods, Some(at(300)), at(0)).delete, [(pods[0].clone(), 300)]);
}

// Cases: EVQ-13
#[test]
fn past_the_deadline_a_pod_still_gets_one_second() {
    for deadline in [at(0), at(-1), at(-100_000)] {
        let pods = arcs([pod("a")]);
        assert_eq!(leaving(&pods, Some(deadline), at(0)).delete, [(pods[0].clone(), 1)]);
    }
}

// Cases: TRM-24
#[test]
fn a_terminating_pod_that_would_outlive_the_deadline_is_cut_short_once() {
    let pods = arcs([pod("a").grace(600).deleted(0)]);
    let plan = leaving(&pods, Some(at(300)), at(90));
    assert_eq!(plan.delete, [(pods[0].clone(), 210)]);
    let shortened = Pod { deletion: Some(Deletion { ends: at(210), grace_seconds: 210 }), ..pod("a") };
    assert!(leaving(&arcs([shortened]), Some(at(300)), at(91)).delete.is_empty());
    let at_its_end = Pod { deletion: Some(Deletion { ends: at(301), grace_seconds: 1 }), ..pod("a") };
    assert!(leaving(&arcs([at_its_end]), Some(at(300)), at(301)).delete.is_empty());
}

// Cases: TRM-32
#[test]
fn the_deadline_takes_all_groups_at_once_and_evicts_the_rest_in_order() {
    let pods = arcs([pod("a").grace(10), pod("b").daemon().grace(100), pod("c").critical().grace(100)]);
    let plan = leaving(&pods, Some(at(60)), at(0));
    assert_eq!(names(&plan.evict), ["a"]);
    assert_eq!(
        plan.delete.iter().map(|(pod, grace)| (&*pod.name, *grace)).collect::<Vec<_>>(),
        [("b", 60), ("c", 60)]
    );
}

#[test]
fn tolerating_and_static_pods_are_not_deleted_for_the_deadline() {
    let mut tolerating = pod("tolerating");
    tolerating.tolerates_disrupted = true;
    let mut mirror = pod("static");
    mirror.owner = Owner::Node;
    assert!(leaving(&arcs([tolerating, mirror]), Some(at(-10)), at(0)).delete.is_empty());
}

#[test]
fn the_next_look_is_when_time_alone_changes_something() {
    let look = |pod: Pod, deadline: Option<i64>| {
        let plan = leaving(&arcs([pod]), deadline.map(at), at(0));
        plan.look_again.map(|again| seconds_between(at(0), again))
    };
    assert_eq!(look(pod("a"), None), None);
    assert_eq!(look(pod("a").grace(60), Some(300)), Some(241));
    assert_eq!(look(pod("a").deleted(0), None), Some(91));
    assert_eq!(look(pod("a").protected("1100s"), None), Some(101));
}

#[test]
fn each_wait_has_a_sentence_and_a_stable_kind() {
    let told = |pod: Pod, more: Vec<Pod>| {
        let name = pod.name.clone();
        let all = waiting(&arcs(std::iter::once(pod).chain(more)), &[], None, at(0));
        let one = all.into_iter().find(|waiting| waiting.pod.name == name).unwrap();
        (one.obstacle.kind(), one.obstacle.to_string())
    };
    assert_eq!(
        told(pod("a").grace(300).deleted(-180), vec![]),
        ("grace-period", "grace period 300 s, 120 s left".to_owned())
    );
    assert_eq!(
        told(pod("a").deleted(-40), vec![]).1,
        "grace period is over and its kubelet has not confirmed the end; not waited for any more in 50 s"
    );
    assert_eq!(
        told(pod("a").protected("true"), vec![]),
        ("do-not-disrupt", "annotation karpenter.sh/do-not-disrupt=true protects it".to_owned())
    );
    assert!(told(pod("a").protected("1100s"), vec![]).1.contains("until 2026"), "names the end");
    assert_eq!(
        told(pod("a").daemon(), vec![pod("b"), pod("c")]),
        ("queue", "daemons leave after the ordinary pods, of which 2 are still here".to_owned())
    );
    assert_eq!(told(pod("a"), vec![]).0, "queue");
}

#[test]
fn waits_say_when_they_will_be_forced() {
    let all = waiting(&arcs([pod("a").grace(60)]), &[], Some(at(300)), at(0));
    assert_eq!(all[0].forced_at, Some(at(240)));
    assert_eq!(waiting(&arcs([pod("a")]), &[], None, at(0))[0].forced_at, None);
}
