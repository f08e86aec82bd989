//! How the streams become one picture.

use super::super::shown::Pod;
use super::*;
use proto::disruption::v1 as disruption;
use proto::termination::v1 as termination;
use proto::types::v1::ObjectRef;

fn node(claim: &str, phase: &str) -> Node {
    Node {
        claim: claim.to_owned(),
        pool: "general".to_owned(),
        kind: "m5.large".to_owned(),
        cap: "spot".to_owned(),
        price: 40_000,
        cpu: [500, 2000],
        mem: [1024, 8192],
        phase: phase.to_owned(),
        ..Node::default()
    }
}

fn full(nodes: &[(&str, Node)], more: bool) -> Event {
    let nodes = nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
    Event::Cluster(ClusterStep { full: true, more, at: 100, nodes, ..ClusterStep::default() })
}

fn delta(at: i64, nodes: &[(&str, Node)], removed: &[&str]) -> Event {
    let nodes = nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect();
    let removed_nodes = removed.iter().map(|name| (*name).to_owned()).collect();
    Event::Cluster(ClusterStep { at, nodes, removed_nodes, ..ClusterStep::default() })
}

#[test]
fn a_picture_with_holes_is_not_shown() {
    let mut picture = Picture::default();
    assert!(picture.take(full(&[("a", node("a-claim", "initialised"))], true), 100).is_empty());
    assert!(!picture.seen());
    let patch = picture.take(delta(100, &[("b", node("b-claim", "initialised"))], &[]), 100);
    assert_eq!(patch.nodes.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn another_replica_that_tells_everything_anew_changes_only_what_differs() {
    let mut picture = Picture::default();
    let (a, b) = (node("a-claim", "initialised"), node("b-claim", "initialised"));
    picture.take(full(&[("a", a.clone()), ("b", b)], false), 100);
    let patch = picture.take(full(&[("a", a.clone())], false), 101);
    assert_eq!(patch.nodes.keys().collect::<Vec<_>>(), ["b"]);
    assert!(patch.nodes["b"].is_none());
    assert!(picture.take(full(&[("a", a)], false), 102).nodes.is_empty());
}

#[test]
fn the_patches_together_give_the_full_picture() {
    let mut picture = Picture::default();
    let first = picture.take(full(&[("a", node("a-claim", "initialised"))], false), 100);
    let second = picture.take(delta(110, &[("b", node("b-claim", "created"))], &["a"]), 110);
    let mut nodes = first.nodes;
    nodes.extend(second.nodes);
    nodes.retain(|_, node| node.is_some());
    assert_eq!(nodes, picture.full().nodes);
}

#[test]
fn a_launch_is_followed_from_the_claim_to_the_ready_node_that_has_another_name() {
    let mut picture = Picture::default();
    picture.take(full(&[], false), 100);
    picture.take(
        delta(
            101,
            &[(
                "new-claim",
                Node { waits: "EC2 to give an instance".into(), ..node("new-claim", "created") },
            )],
            &[],
        ),
        101,
    );
    picture.take(delta(103, &[("new-claim", node("new-claim", "launched"))], &[]), 103);
    let patch = picture.take(delta(109, &[("ip-1", node("new-claim", "initialised"))], &["new-claim"]), 109);
    let launch = patch.decisions["launch/new-claim"].as_ref().expect("reply");
    assert!(launch.ended);
    assert_eq!(launch.add, ["ip-1"]);
    let steps: Vec<(i64, &str)> = launch.steps.iter().map(|(at, what)| (*at, what.as_str())).collect();
    assert_eq!(
        steps,
        [(101, "created: waits for EC2 to give an instance"), (103, "launched"), (109, "initialised")]
    );
    assert!(picture.take(delta(120, &[], &["ip-1"]), 120).decisions.is_empty(), "its end is no launch's");
}

#[test]
fn what_was_there_before_was_not_launched_before_our_eyes() {
    let mut picture = Picture::default();
    let patch = picture.take(full(&[("a", node("a-claim", "launched"))], false), 100);
    assert!(patch.decisions.is_empty());
}

#[test]
fn a_launch_that_fails_ends() {
    let mut picture = Picture::default();
    picture.take(full(&[], false), 100);
    picture.take(delta(101, &[("c", node("c", "created"))], &[]), 101);
    let patch = picture.take(delta(102, &[], &["c"]), 102);
    let launch = patch.decisions["launch/c"].as_ref().expect("reply");
    assert!(launch.ended && launch.phase == "gone", "{launch:?}");
}

#[test]
fn steps_of_a_command_add_up() {
    let mut picture = Picture::default();
    let command = |phase: disruption::CommandPhase, detail: &str| {
        Event::Command(disruption::Command {
            id: "c1".into(),
            phase: phase.into(),
            detail: detail.into(),
            saving_micro_usd_per_hour: 7,
            ..disruption::Command::default()
        })
    };
    picture.take(command(disruption::CommandPhase::Validating, ""), 10);
    picture.take(command(disruption::CommandPhase::Replacing, "waits for new-1"), 11);
    let patch = picture.take(command(disruption::CommandPhase::Done, ""), 12);
    let own = patch.decisions["command/c1"].as_ref().expect("reply");
    let steps: Vec<&str> = own.steps.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(steps, ["validating", "replacing: waits for new-1", "done"]);
    assert!(own.ended && own.saving == Some(7));
    assert!(picture.take(command(disruption::CommandPhase::Done, ""), 13).is_empty(), "no news");
}

#[test]
fn a_drain_says_what_it_waits_for_until_it_is_gone() {
    let mut picture = Picture::default();
    let drain = |phase: termination::DrainPhase| {
        let waiting = termination::Waiting {
            kind: "pdb".into(),
            detail: "PDB shop/db allows 0 disruptions".into(),
            ..termination::Waiting::default()
        };
        Event::Drain(termination::Drain {
            node: "ip-1".into(),
            node_claim: Some(ObjectRef { name: "c1".into(), uid: String::new() }),
            phase: phase.into(),
            waiting: vec![waiting],
            ..termination::Drain::default()
        })
    };
    let patch = picture.take(drain(termination::DrainPhase::Draining), 10);
    let shown = patch.drains["c1"].as_ref().expect("under way");
    assert_eq!(shown.waiting[0].2, "PDB shop/db allows 0 disruptions");
    let patch = picture.take(drain(termination::DrainPhase::Gone), 20);
    assert!(patch.drains["c1"].is_none());
    assert!(patch.decisions["removal/c1"].as_ref().is_some_and(|own| own.ended));
}

#[test]
fn cost_is_sampled_when_it_changes() {
    let mut picture = Picture::default();
    let a = node("a-claim", "initialised");
    let patch = picture.take(full(&[("a", a.clone())], false), 100);
    assert_eq!(patch.history[0].by, [("general".to_owned(), "spot".to_owned(), 40_000)]);
    // A quarter of CPU is requested and an eighth of memory: three quarters are waste.
    assert_eq!(patch.history[0].waste, 30_000);
    let same = Node { taints: vec!["x:NoSchedule".into()], ..a };
    assert!(picture.take(delta(101, &[("a", same)], &[]), 101).history.is_empty());
    assert_eq!(picture.take(delta(102, &[], &["a"]), 102).history[0].nodes, 0);
}

#[test]
fn a_node_that_is_ready_when_it_is_first_shown_was_launched_too() {
    let mut picture = Picture::default();
    picture.take(full(&[("a", node("a-claim", "initialised"))], false), 100);
    let patch = picture.take(delta(105, &[("b", node("b-claim", "initialised"))], &[]), 105);
    let launch = patch.decisions["launch/b-claim"].as_ref().expect("a launch");
    assert!(launch.ended);
    assert_eq!(launch.steps, [(105, "initialised".to_owned())]);
    assert!(picture.take(delta(106, &[("a", node("a-claim", "registered"))], &[]), 106).decisions.is_empty());
}

#[test]
fn a_launch_names_the_pods_it_is_for_or_the_command_it_belongs_to() {
    let pod = |n: usize| Pod("shop".into(), format!("web-{n}"), 100, 256, 0, 0);
    let meant = |count: usize| Node { meant: (0..count).map(pod).collect(), ..node("new", "created") };
    let reason = |nodes: &[(&str, Node)], before: Option<Event>| {
        let mut picture = Picture::default();
        picture.take(full(&[], false), 100);
        before.map(|event| picture.take(event, 100));
        picture.take(delta(101, nodes, &[]), 101);
        picture.decisions["launch/new"].reason.clone()
    };
    assert_eq!(reason(&[("new", meant(1))], None), "for pod shop/web-0");
    assert_eq!(reason(&[("new", meant(2))], None), "for 2 pods: shop/web-0, shop/web-1");
    assert_eq!(
        reason(&[("new", meant(12))], None),
        "for 12 pods: shop/web-0, shop/web-1, shop/web-2 and 9 more"
    );
    let command = disruption::Command {
        id: "c1".into(),
        reason: "Underutilized".into(),
        remove_nodes: vec!["old".into()],
        replacements: vec![ObjectRef { name: "new".into(), uid: String::new() }],
        ..disruption::Command::default()
    };
    assert_eq!(reason(&[("new", meant(0))], Some(Event::Command(command))), "Underutilized: replaces old");
    assert_eq!(reason(&[("new", meant(0))], None), "");
}

#[test]
fn an_interruption_of_a_node_of_ours_is_a_decision_with_the_name_of_the_node() {
    use proto::interruptionwatcher::v1 as watcher;
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let event = |id: &str, claim: Option<&str>| watcher::InterruptionEvent {
        id: id.into(),
        kind: watcher::MessageKind::SpotInterrupted.into(),
        instance_ids: vec!["i-1".into()],
        node_claims: claim
            .map(|name| ObjectRef { name: name.into(), uid: String::new() })
            .into_iter()
            .collect(),
        action: watcher::Action::Drain.into(),
        event_time: time(98),
        received_at: time(99),
        ..watcher::InterruptionEvent::default()
    };
    let mut picture = Picture::default();
    picture.take(full(&[("ip-1", node("c1", "initialised"))], false), 100);
    let events = || Event::Interruptions(vec![event("a", Some("c1")), event("b", None)]);
    let patch = picture.take(events(), 101);
    assert_eq!(patch.decisions.len(), 1, "foreign instances concern nobody here: {:?}", patch.decisions);
    let own = patch.decisions.values().flatten().next().expect("one");
    assert_eq!((own.kind, own.at, own.reason.as_str()), ("interruption", 98, "spot interruption"));
    assert_eq!((own.remove.clone(), own.phase.as_str()), (vec!["ip-1".to_owned()], "drain begun"));
    assert_eq!(own.trace, Some(("interruption-watcher", "nodeclaim", "c1".to_owned())));
    picture.take(delta(110, &[], &["ip-1"]), 110);
    assert!(picture.take(events(), 111).is_empty(), "it is no news, and its node keeps its name");
}

#[test]
fn the_bound_and_conditions_are_passed_on() {
    let mut picture = Picture::default();
    let sick = Node {
        conditions: vec![("DiskPressure".into(), "True".into(), String::new())],
        ..node("c", "initialised")
    };
    picture.take(full(&[("a", node("c", "initialised"))], false), 100);
    assert_eq!(picture.take(delta(101, &[("a", sick)], &[]), 101).nodes.len(), 1, "a condition is a change");
    let bound = Bound { amount: Some(5), problem: String::new(), at: 102 };
    assert_eq!(picture.take(Event::Bound(bound.clone()), 102).bound, Some(bound.clone()));
    assert_eq!(picture.full().bound, Some(bound));
}

fn command(id: &str, phase: disruption::CommandPhase) -> disruption::Command {
    disruption::Command { id: id.to_owned(), phase: phase.into(), ..disruption::Command::default() }
}

#[test]
fn what_a_new_leader_does_not_know_is_over_and_a_replica_that_does_not_lead_ends_nothing() {
    use disruption::CommandPhase::{Done, Validating};
    let mut picture = Picture::default();
    let told = vec![command("proposed", Validating), command("done", Done), command("kept", Validating)];
    picture.take(Event::Commands { told, all: true }, 100);
    let of_follower = Event::Commands { told: vec![command("kept", Validating)], all: false };
    assert!(picture.take(of_follower, 110).decisions.is_empty());
    let told = vec![command("kept", Validating), command("new", Validating)];
    let patch = picture.take(Event::Commands { told, all: true }, 120);
    assert_eq!(patch.decisions.keys().collect::<Vec<_>>(), ["command/new", "command/proposed"]);
    let over = &picture.decisions["command/proposed"];
    assert!(over.ended && over.phase == "given up", "{over:?}");
    assert_eq!(picture.decisions["command/done"].phase, "done");
}

#[test]
fn a_drain_that_ended_while_nobody_was_connected_is_over() {
    let drain = |node: &str| termination::Drain { node: node.to_owned(), ..termination::Drain::default() };
    let mut picture = Picture::default();
    picture.take(Event::Drains { told: vec![drain("a"), drain("b")], all: true }, 100);
    let patch = picture.take(Event::Drains { told: vec![drain("b")], all: true }, 110);
    assert!(patch.drains["a"].is_none() && patch.decisions["removal/a"].as_ref().unwrap().ended);
    assert!(!picture.decisions["removal/b"].ended);
}

#[test]
fn candidates_come_whole_and_then_by_differences() {
    let candidate = |saving| Candidate {
        disruptable: true,
        blockers: Vec::new(),
        saving: Some(saving),
        conditions: Vec::new(),
    };
    let step = |full, different: &[(&str, i64)], removed: &[&str]| {
        let different = different.iter().map(|(name, saving)| ((*name).to_owned(), candidate(*saving)));
        Event::Candidates(CandidatesStep {
            full,
            different: different.collect(),
            removed: removed.iter().map(|name| (*name).to_owned()).collect(),
            budgets: Vec::new(),
        })
    };
    let mut picture = Picture::default();
    picture.take(step(true, &[("a", 1), ("b", 2)], &[]), 100);
    let patch = picture.take(step(false, &[("a", 3)], &["b"]), 101);
    assert!(patch.candidates["b"].is_none() && patch.candidates["a"].as_ref().unwrap().saving == Some(3));
    let patch = picture.take(step(true, &[("c", 1)], &[]), 102);
    assert!(patch.candidates["a"].is_none() && patch.candidates.len() == 2, "another replica begins anew");
}

#[test]
fn a_service_is_lost_since_it_was_lost() {
    let lost = |detail: &str, since| {
        Event::Service("disruption", ServiceState { state: "lost", detail: detail.to_owned(), since })
    };
    let mut picture = Picture::default();
    picture.take(lost("once", 100), 100);
    picture.take(lost("twice", 105), 105);
    assert_eq!(
        (picture.services["disruption"].since, &*picture.services["disruption"].detail),
        (100, "twice")
    );
    let live = ServiceState { state: "live", detail: String::new(), since: 110 };
    picture.take(Event::Service("disruption", live), 110);
    picture.take(lost("anew", 120), 120);
    assert_eq!(picture.services["disruption"].since, 120);
}
