//! One step at a time.

use super::*;

fn step(view: &View, seconds: i64) -> Step {
    next_step(view, &timing(), at(seconds))
}

/// Tainted at second 16, ordered, looked at at second 20.
fn under_way(needs: usize, members: Vec<Member>) -> View {
    let mut view = view(Method::MultiNode, needs, members);
    view.memory.validated = true;
    view.memory.tainted = Some(at(16));
    view.memory.ready = Some(at(17));
    looked(&mut view, 20);
    view.replacements = (0..needs).map(|_| replacement(None)).collect();
    view
}

fn looked(view: &mut View, seconds: i64) {
    view.members.iter_mut().for_each(|member| member.looked = Some(at(seconds)));
}

fn spent() -> Blocked {
    Blocked::Pdb {
        pod: "default/web".to_owned(),
        block: PdbBlock::Spent { budget: "default/web".to_owned(), healthy: 1, desired: 1 },
    }
}

fn drop_new(why: Why) -> Step {
    Step::Drop { claims: claims(&["new"]), why }
}

// Cases: EMP-19, TTL-1, MUL-4
#[test]
fn a_proposal_waits_is_looked_at_again_and_then_taken() {
    let mut view = view(Method::SingleNode, 1, vec![member("a")]);
    let wait = Step::Wait { until: Some(at(15)), what: Waiting::SecondLook };
    assert_eq!(step(&view, 0), wait);
    assert_eq!(step(&view, 14), wait);
    assert_eq!(step(&view, 15), Step::Validate);
    view.memory.validated = true;
    assert_eq!(step(&view, 15), Step::Take(claims(&["a"])));
}

#[test]
fn drift_is_taken_at_once() {
    let view = view(Method::Drift, 1, vec![member("a")]);
    assert_eq!(step(&view, 0), Step::Take(claims(&["a"])));
}

#[test]
fn what_is_missing_on_members_is_written_before_anything_else() {
    let half = Member { tainted: false, marked: false, ..taken("b") };
    let mut view = under_way(1, vec![taken("a"), half]);
    view.replacements.clear();
    assert_eq!(step(&view, 20), Step::Take(claims(&["b"])));
    view.members[1].tainted = true;
    assert_eq!(step(&view, 20), Step::Replace, "the reason is written once there are replacements");
    view.replacements = vec![replacement(None)];
    assert_eq!(step(&view, 20), Step::Mark(claims(&["b"])));
}

#[test]
fn the_scheduler_gets_time_to_see_the_taint_before_pods_are_read() {
    let unmarked = Member { marked: false, ..taken("a") };
    let mut view = under_way(0, vec![unmarked]);
    view.members[0].looked = None;
    view.memory.tainted = None;
    let what = Waiting::Scheduler;
    assert_eq!(step(&view, 30), Step::Wait { until: Some(at(31)), what });
    view.memory.tainted = Some(at(30));
    assert_eq!(step(&view, 30), Step::Wait { until: Some(at(31)), what });
    assert_eq!(step(&view, 31), Step::Mark(claims(&["a"])), "later than any binding under way");
    view.members[0].marked = true;
    view.memory.ready = Some(at(31));
    assert_eq!(step(&view, 31), Step::Look(claims(&["a"])));
    looked(&mut view, 30);
    assert_eq!(step(&view, 31), Step::Look(claims(&["a"])), "a look before that does not count");
    looked(&mut view, 31);
    assert_eq!(step(&view, 31), Step::Delete(claims(&["a"])));
}

// Cases: QUE-1, QUE-2, QUE-6
#[test]
fn replacements_are_ordered_after_the_first_look_and_awaited() {
    let mut view = under_way(2, vec![taken("a"), taken("b")]);
    view.replacements.clear();
    assert_eq!(step(&view, 20), Step::Replace);
    view.replacements = vec![replacement(None)];
    assert_eq!(step(&view, 21), Step::Replace, "one of two is not enough; ordering again adds the other");
    view.replacements = vec![replacement(Some(40)), replacement(None)];
    let until = Some(at(600));
    assert_eq!(step(&view, 41), Step::Wait { until, what: Waiting::Replacements });
    // However wrong the clock of the process that wrote these times is.
    view.replacements = vec![replacement(Some(4000)), replacement(Some(6000))];
    view.memory.ready = Some(at(60));
    assert_eq!(step(&view, 60), Step::Look(claims(&["a", "b"])), "the look of second 20 is too old");
    looked(&mut view, 60);
    assert_eq!(step(&view, 60), Step::Delete(claims(&["a", "b"])));
    assert_eq!(step(&view, 66), Step::Look(claims(&["a", "b"])), "and so is one of six seconds ago");
    looked(&mut view, 20);
    view.members[0].looked = Some(at(66));
    assert_eq!(
        step(&view, 66),
        Step::Look(claims(&["a", "b"])),
        "what was planned together is read together"
    );
    view.memory.stale_reads = 5;
    let Step::Drop { why, .. } = step(&view, 66) else { panic!("must be taken back") };
    assert_eq!(why, Why::ReadTooSlowly { seconds: 5 });
}

#[test]
fn empty_nodes_do_not_wait_for_each_other() {
    let mut view = under_way(0, vec![taken("a"), taken("b")]);
    view.method = Method::Emptiness;
    view.members[1].looked = None;
    assert_eq!(step(&view, 20), Step::Delete(claims(&["a"])));
    view.members[0].leaving = true;
    assert_eq!(step(&view, 20), Step::Look(claims(&["b"])));
}

// Cases: TTL-5, TTL-7
#[test]
fn a_spent_budget_is_waited_for_and_does_not_matter_to_drift() {
    let held = Member { obstacle: Some(spent()), ..taken("b") };
    let mut view = under_way(1, vec![taken("a"), held]);
    view.replacements = vec![replacement(Some(18))];
    let wait = |seconds| Step::Wait { until: Some(at(seconds)), what: Waiting::DisruptionBudget };
    assert_eq!(step(&view, 21), wait(25));
    assert_eq!(step(&view, 26), Step::Look(claims(&["a", "b"])), "and looked at again");
    looked(&mut view, 599);
    assert_eq!(step(&view, 600), wait(604));
    assert!(matches!(step(&view, 601), Step::Drop { why: Why::Blocked { .. }, .. }), "until time runs out");
    view.method = Method::Drift;
    assert_eq!(step(&view, 600), Step::Delete(claims(&["a", "b"])));
    let mut unordered = under_way(1, vec![Member { obstacle: Some(spent()), ..taken("a") }]);
    unordered.replacements.clear();
    assert_eq!(step(&unordered, 21), wait(25), "nothing is launched meanwhile");
    unordered.method = Method::Emptiness;
    unordered.needs = 0;
    assert!(matches!(step(&unordered, 21), Step::Undo { .. }), "nothing is lost by leaving an empty node");
}

#[test]
fn a_node_that_cannot_be_written_or_is_gone_ends_the_command_or_leaves_it() {
    let refused = Member { refused: Some("denied".to_owned()), tainted: false, marked: false, ..taken("b") };
    let lost = Member { lost: true, tainted: false, marked: false, ..taken("b") };
    for bad in [refused, lost] {
        let mut view = under_way(0, vec![taken("a"), bad]);
        let Step::Undo { claims: undone, .. } = step(&view, 21) else { panic!("must be taken back") };
        assert_eq!(undone, claims(&["a", "b"]));
        view.method = Method::Emptiness;
        let Step::Release { claims: undone, .. } = step(&view, 21) else { panic!("one goes back") };
        assert_eq!(undone, claims(&["b"]), "the others go on");
    }
}

#[test]
fn what_has_come_to_hold_a_member_takes_everything_back() {
    let by = Blocked::Pdb {
        pod: "default/web".to_owned(),
        block: PdbBlock::Several(vec!["default/one".to_owned(), "default/two".to_owned()]),
    };
    let why = Why::Blocked { node: Arc::from("node-b"), by: by.clone() };
    let held = Member { obstacle: Some(by), ..taken("b") };
    let mut view = under_way(1, vec![taken("a"), held]);
    assert_eq!(step(&view, 30), drop_new(why.clone()), "the replacement that nobody uses goes first");
    view.replacements.clear();
    assert_eq!(step(&view, 31), Step::Undo { claims: claims(&["a", "b"]), why: why.clone() });
    view.memory.giving_up = Some(why.clone());
    view.members = vec![member("a"), member("b")];
    assert_eq!(step(&view, 32), Step::RolledBack(why));
}

// Cases: TTL-4, TTL-6
#[test]
fn a_pod_that_landed_takes_graceful_commands_back_and_not_drift() {
    let landed = Member { newcomers: vec!["default/late".to_owned()], ..taken("a") };
    let mut view = under_way(0, vec![landed]);
    let Step::Undo { why, .. } = step(&view, 21) else { panic!("must be taken back") };
    assert!(why.to_string().contains("default/late"), "{why}");
    view.method = Method::Drift;
    assert_eq!(step(&view, 21), Step::Delete(claims(&["a"])));
}

// Cases: DEL-2
#[test]
fn of_empty_nodes_only_those_that_are_not_any_more_go_back() {
    let busy = Member { obstacle: Some(Blocked::NotEmpty { pods: 1 }), ..taken("b") };
    let mut view = under_way(0, vec![taken("a"), busy]);
    view.method = Method::Emptiness;
    let Step::Release { claims: undone, .. } = step(&view, 21) else { panic!("one goes back") };
    assert_eq!(undone, claims(&["b"]));
    view.members.pop();
    assert_eq!(step(&view, 21), Step::Delete(claims(&["a"])));
}

#[test]
fn taking_back_ends_although_something_cannot_be_written() {
    let why = Why::Cancelled;
    let mut view = under_way(1, vec![taken("a"), taken("b")]);
    view.memory.giving_up = Some(why.clone());
    assert_eq!(step(&view, 30), drop_new(why.clone()));
    view.replacements[0].stuck = true;
    assert_eq!(step(&view, 31), Step::Undo { claims: claims(&["a", "b"]), why: why.clone() });
    view.members[0].stuck = true;
    assert_eq!(step(&view, 32), Step::Undo { claims: claims(&["b"]), why: why.clone() });
    view.members[1] = member("b");
    assert_eq!(step(&view, 33), Step::RolledBack(why), "the others do not wait for it");
}

#[test]
fn a_replacement_that_came_after_its_command_was_taken_back_is_an_orphan_unless_it_is_needed() {
    let mut ended = under_way(1, vec![member("a")]);
    assert_eq!(orphans(&ended), claims(&["new"]));
    ended.replacements[0].used = true;
    assert!(orphans(&ended).is_empty(), "pods are on it");
    ended.replacements[0] = Replacement { stuck: true, ..replacement(None) };
    assert!(orphans(&ended).is_empty(), "it was tried");
    ended.replacements = vec![replacement(None)];
    ended.members[0].leaving = true;
    assert!(orphans(&ended).is_empty(), "the pods of a need it");
    ended.members.clear();
    assert!(orphans(&ended).is_empty(), "as do those of a node that is gone");
}

#[test]
fn what_a_person_sees_follows_from_the_next_step() {
    let stage = |view: &View, seconds| step(view, seconds).stage(view);
    let mut life = view(Method::SingleNode, 1, vec![member("a")]);
    assert_eq!((stage(&life, 0), stage(&life, 15)), (Stage::Proposed, Stage::Proposed));
    life.memory.validated = true;
    assert_eq!(stage(&life, 15), Stage::Taking);
    life = under_way(1, vec![Member { marked: false, ..taken("a") }]);
    life.members[0].looked = None;
    life.replacements.clear();
    assert_eq!(stage(&life, 16), Stage::Settling);
    assert_eq!(stage(&life, 17), Stage::Settling, "its pods are read");
    looked(&mut life, 20);
    assert_eq!(stage(&life, 20), Stage::Ordering);
    life.replacements = vec![replacement(None)];
    assert_eq!(stage(&life, 20), Stage::Taking);
    life.members[0].marked = true;
    assert_eq!(stage(&life, 21), Stage::Waiting);
    life.replacements = vec![replacement(Some(30))];
    life.memory.ready = Some(at(30));
    assert_eq!(stage(&life, 30), Stage::Waiting, "its pods are read once more");
    looked(&mut life, 30);
    assert_eq!(stage(&life, 30), Stage::Removing);
    let mut back = life.clone();
    back.memory.giving_up = Some(Why::Cancelled);
    assert_eq!(stage(&back, 31), Stage::RollingBack);
    back.replacements.clear();
    assert_eq!(stage(&back, 31), Stage::RollingBack);
    back.members = vec![member("a")];
    assert_eq!(stage(&back, 31), Stage::RolledBack);
    life.members[0].leaving = true;
    assert_eq!(stage(&life, 31), Stage::Done);
}

#[test]
fn a_replacement_that_fails_takes_the_command_back() {
    let mut view = under_way(1, vec![taken("a")]);
    view.replacements[0].leaving = true;
    let Step::Undo { why, .. } = step(&view, 30) else { panic!("must be taken back") };
    assert_eq!(why, Why::ReplacementLost { claim: Some(Arc::from("new")) });
    assert!(why.is_failure());
}

// Cases: QUE-2, QUE-4
#[test]
fn time_runs_out_only_while_something_is_missing() {
    let mut view = under_way(1, vec![taken("a")]);
    assert!(matches!(step(&view, 600), Step::Wait { .. }));
    assert_eq!(step(&view, 601), drop_new(Why::TimedOut { minutes: 10 }));
    view.replacements = vec![replacement(Some(600))];
    looked(&mut view, 601);
    assert_eq!(step(&view, 601), Step::Delete(claims(&["a"])), "ready in time, deleted a moment later");
}

// Cases: QUE-9, QUE-10, QUE-11, QUE-12, QUE-13, QUE-14
#[test]
fn the_time_allowed_grows_with_the_queue() {
    let cases = [(100, 600), (4000, 600), (10_000, 800), (40_000, 3200), (80_000, 3600), (100_000, 3600)];
    for (queued, seconds) in cases {
        assert_eq!(timeout(queued).as_secs(), seconds, "{queued} nodes");
    }
}

#[test]
fn members_that_are_gone_count_as_done() {
    let gone = Member { leaving: true, ..taken("a") };
    let mut view = under_way(0, vec![gone.clone(), taken("b")]);
    assert_eq!(step(&view, 21), Step::Delete(claims(&["b"])));
    view.members = vec![gone];
    assert_eq!(step(&view, 21), Step::Done);
}

#[test]
fn a_node_that_somebody_else_removes_ends_the_plan_and_keeps_its_replacement() {
    let gone = Member { leaving: true, ..taken("a") };
    let mut view = under_way(1, vec![gone, taken("b")]);
    let Step::Undo { claims: undone, why } = step(&view, 30) else { panic!("must be taken back") };
    assert_eq!((undone, why), (claims(&["b"]), Why::MemberLost), "the pods of a will need the replacement");
    view.replacements = vec![replacement(Some(29))];
    looked(&mut view, 30);
    assert_eq!(
        step(&view, 30),
        Step::Delete(claims(&["b"])),
        "with the replacement ready it makes no difference"
    );
    let mut vanished = under_way(1, vec![taken("b")]);
    vanished.removes = 2;
    assert_eq!(step(&vanished, 30), drop_new(Why::MemberLost));
}

#[test]
fn the_first_member_vanishing_does_not_strand_the_others() {
    let mut view = under_way(1, vec![taken("b"), taken("c")]);
    view.removes = 3;
    view.replacements[0].used = true;
    let Step::Undo { claims: undone, .. } = step(&view, 30) else { panic!("must be taken back") };
    assert_eq!(undone, claims(&["b", "c"]));
}

#[test]
fn a_used_replacement_is_kept_when_the_command_is_taken_back() {
    let mut view = under_way(1, vec![taken("a")]);
    view.memory.giving_up = Some(Why::MemberLost);
    view.replacements[0].used = true;
    assert!(matches!(step(&view, 30), Step::Undo { .. }));
}

fn inherited(mut view: View) -> View {
    view.memory = Memory::default();
    view
}

#[test]
fn another_process_goes_on_where_everything_was_taken_and_ordered() {
    let mut view = inherited(under_way(1, vec![taken("a")]));
    view.members[0].looked = None;
    assert!(matches!(step(&view, 30), Step::Wait { what: Waiting::Scheduler, .. }));
    view.memory.tainted = Some(at(30));
    assert!(matches!(step(&view, 31), Step::Wait { what: Waiting::Replacements, .. }));
    view.replacements = vec![replacement(Some(29))];
    view.memory.ready = Some(at(31));
    assert_eq!(step(&view, 31), Step::Look(claims(&["a"])));
    looked(&mut view, 31);
    assert_eq!(step(&view, 31), Step::Delete(claims(&["a"])));
    view.members[0].marked = false;
    assert_eq!(step(&view, 31), Step::Mark(claims(&["a"])), "a missing mark is no obstacle");
}

#[test]
fn another_process_takes_back_what_is_not_complete() {
    let noted = Member { tainted: false, marked: false, ..taken("b") };
    let half_taken = inherited(under_way(0, vec![taken("a"), noted]));
    assert!(matches!(step(&half_taken, 30), Step::Undo { why: Why::Abandoned, .. }));
    let mut unordered = inherited(under_way(1, vec![taken("a")]));
    unordered.replacements.clear();
    assert!(matches!(step(&unordered, 30), Step::Undo { why: Why::Abandoned, .. }));
    let mut partly = inherited(under_way(2, vec![taken("a"), taken("b")]));
    partly.replacements.truncate(1);
    assert_eq!(step(&partly, 30), drop_new(Why::Abandoned));
    let mut undone = inherited(under_way(0, vec![taken("a")]));
    undone.removes = 2;
    assert!(matches!(step(&undone, 30), Step::Undo { why: Why::Abandoned, .. }));
}

#[test]
fn another_process_asks_again_whether_pods_still_fit_elsewhere() {
    let mut view = inherited(under_way(0, vec![taken("a"), taken("b")]));
    assert_eq!(step(&view, 30), Step::Validate);
    view.memory.validated = true;
    assert!(matches!(step(&view, 30), Step::Wait { what: Waiting::Scheduler, .. }));
    view.method = Method::Emptiness;
    view.memory.validated = false;
    assert!(matches!(step(&view, 30), Step::Wait { .. }), "what is empty shows by its pods");
}

// Cases: TNT-1
#[test]
fn traces_without_a_note_are_swept_except_from_nodes_that_leave() {
    let members = [
        Member { tainted: true, ..member("tainted") },
        Member { marked: true, ..member("marked") },
        taken("in-command"),
        member("clean"),
        Member { tainted: true, leaving: true, ..member("leaving") },
    ];
    assert_eq!(strays(&members), claims(&["tainted", "marked"]));
}

#[test]
fn a_proposal_whose_node_is_gone_is_forgotten() {
    let leaving = Member { leaving: true, ..member("a") };
    assert_eq!(
        step(&view(Method::MultiNode, 1, vec![leaving.clone(), member("b")]), 20),
        Step::RolledBack(Why::MemberLost)
    );
    let mut empty = view(Method::Emptiness, 0, vec![leaving, member("b")]);
    empty.memory.validated = true;
    assert_eq!(step(&empty, 20), Step::Take(claims(&["b"])));
}

// Cases: TXT-14
#[test]
fn commands_are_told_in_one_line() {
    let words = |nodes, replacements| Words {
        reason: Reason::Underutilized,
        id: "c1",
        pools: &["default"],
        nodes,
        replacements,
        saving: model::price::MicroDollars::new(124_000),
    };
    assert_eq!(
        text(&words(&["a"], 0)),
        "underutilized/c1: delete: nodepools=[default]: [a] -> [] (savings: $0.12)"
    );
    assert!(text(&words(&["a", "b"], 0)).contains("delete: nodepools=[default]: [a, b] -> []"));
    assert!(text(&words(&["a"], 1)).contains("replace: nodepools=[default]: [a] -> [1 replacement] "));
    assert!(text(&words(&["a", "b", "c"], 2)).contains("-> [2 replacements]"));
    assert!(text(&words(&[], 0)).contains("no-op: nodepools=[default]: [] -> []"));
    assert_eq!(member_text("a", 3, 1), "replace: [a] (part of 3-node consolidation)");
    assert_eq!(member_text("a", 1, 0), "delete: [a] -> []");
}
