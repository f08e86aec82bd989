use super::*;

const NOON: &str = "2026-11-16T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn spec(nodes: &str) -> Spec {
    Spec { nodes: nodes.to_owned(), ..Spec::default() }
}

fn for_reasons(nodes: &str, reasons: &[Reason]) -> Spec {
    Spec { reasons: Some(reasons.to_vec()), ..spec(nodes) }
}

fn scheduled(nodes: &str, schedule: &str, duration: &str) -> Spec {
    Spec { schedule: Some(schedule.to_owned()), duration: Some(duration.parse().unwrap()), ..spec(nodes) }
}

fn allowed(specs: &[Spec], reason: Reason, total: u32) -> u32 {
    Budgets::read(specs).allowed(reason, total, at(NOON)).nodes
}

fn ready() -> CountedNode {
    CountedNode { managed: true, initialized: true, ready: true, ..CountedNode::default() }
}

// Cases: BEV-10, BEV-12
#[test]
fn percentages_are_rounded_up() {
    let cases = [
        ("5%", 10, 1),
        ("0%", 10, 0),
        ("1%", 1, 1),
        ("1%", 0, 0),
        ("100%", 7, 7),
        ("30%", 10, 3),
        ("50%", 3, 2),
        ("10%", 101, 11),
        ("33%", 3, 1),
        ("34%", 3, 2),
        ("100%", u32::MAX / 2, u32::MAX / 2),
    ];
    for (nodes, total, expected) in cases {
        assert_eq!(allowed(&[spec(nodes)], Reason::Empty, total), expected, "{nodes} of {total}");
    }
}

// Cases: BEV-9
#[test]
fn a_number_does_not_depend_on_the_nodes_there_are() {
    assert_eq!(allowed(&[spec("5")], Reason::Drifted, 2), 5);
    assert_eq!(allowed(&[spec("0")], Reason::Drifted, 2), 0);
    assert_eq!(allowed(&[spec("99999999999999999999")], Reason::Drifted, 2), UNLIMITED);
}

// Cases: BEV-2, BEV-3, BEV-8
#[test]
fn no_budget_and_no_active_budget_are_no_limit() {
    assert_eq!(allowed(&[], Reason::Empty, 10), UNLIMITED);
    assert_eq!(allowed(&[scheduled("0", "0 14 * * *", "1h")], Reason::Empty, 10), UNLIMITED);
    let night = Spec { reasons: Some(vec![Reason::Empty]), ..scheduled("0", "0 1 * * *", "1h") };
    assert_eq!(allowed(&[night], Reason::Empty, 10), UNLIMITED);
}

// Cases: BEV-5
#[test]
fn a_budget_counts_for_its_reasons_only() {
    let budgets = [for_reasons("1", &[Reason::Empty]), for_reasons("2", &[Reason::Drifted])];
    assert_eq!(allowed(&budgets, Reason::Empty, 10), 1);
    assert_eq!(allowed(&budgets, Reason::Drifted, 10), 2);
    assert_eq!(allowed(&budgets, Reason::Underutilized, 10), UNLIMITED);
    assert_eq!(
        allowed(&[for_reasons("0", &[])], Reason::Empty, 10),
        UNLIMITED,
        "an empty list never applies"
    );
}

// Cases: BEV-1, BEV-4, BEV-5
#[test]
fn the_smallest_active_budget_counts_per_reason() {
    let budgets = [spec("5"), for_reasons("30%", &[Reason::Empty]), scheduled("1", "0 12 * * *", "1h")];
    for (total, reason, expected) in [(10, Reason::Empty, 1), (10, Reason::Drifted, 1)] {
        assert_eq!(allowed(&budgets, reason, total), expected);
    }
    let budgets = &budgets[..2];
    assert_eq!(allowed(budgets, Reason::Empty, 10), 3);
    assert_eq!(allowed(budgets, Reason::Drifted, 10), 5);
    let closed = [spec("0"), for_reasons("7", &[Reason::Empty])];
    assert!(Reason::ALL.iter().all(|reason| allowed(&closed, *reason, 10) == 0));
}

// Cases: BEV-8, BEV-11, BEV-13, BEV-14, BEV-15
#[test]
fn a_schedule_is_read_in_utc_and_bounds_the_time() {
    let freeze = [scheduled("0", "0 8 * * mon-fri", "10h")];
    let budgets = Budgets::read(&freeze);
    let nodes = |time: &str| budgets.allowed(Reason::Empty, 10, at(time)).nodes;
    assert_eq!(nodes("2026-11-16T07:59:59Z"), UNLIMITED);
    assert_eq!(nodes("2026-11-16T08:00:00Z"), 0);
    assert_eq!(nodes("2026-11-16T09:00:00+02:00"), UNLIMITED, "07:00 in UTC");
    assert_eq!(nodes("2026-11-16T17:59:59.999Z"), 0);
    assert_eq!(nodes("2026-11-16T18:00:00Z"), UNLIMITED);
    assert_eq!(nodes("2026-11-15T12:00:00Z"), UNLIMITED, "a Sunday");
    assert_eq!(
        allowed(&[scheduled("0", "@hourly", "90m")], Reason::Empty, 1),
        0,
        "longer than the recurrence"
    );
}

// Cases: BEV-6, BEV-7
#[test]
fn one_budget_that_cannot_be_read_forbids_everything_and_says_why() {
    let cases = [
        (scheduled("5", "0 25 * * *", "1h"), "25 is above 23"),
        (scheduled("5", "@hourly please", "1h"), "@hourly please"),
        (spec("many"), "\"many\""),
        (spec("-1"), "\"-1\""),
        (spec("5.5%"), "\"5.5%\""),
        (spec(""), "\"\""),
        (Spec { duration: None, ..scheduled("5", "@daily", "1h") }, "no duration"),
        (Spec { schedule: None, ..scheduled("5", "@daily", "1h") }, "no schedule"),
    ];
    for (bad, why) in cases {
        let budgets = Budgets::read(&[spec("50%"), bad]);
        for reason in Reason::ALL {
            let state = budgets.state(reason, Counts { total: 10, away: 0 }, at(NOON));
            assert_eq!(state.available(), 0);
            assert!(state.forbids());
            let text = state.to_string();
            assert!(text.contains("spec.disruption.budgets[1]") && text.contains(why), "{why} in {text}");
        }
    }
}

// Cases: BUD-1, BUD-2, BUD-3
#[test]
fn foreign_uninitialised_and_terminating_nodes_do_not_count() {
    let nodes = [
        ready(),
        CountedNode { managed: false, ..ready() },
        CountedNode { initialized: false, ..ready() },
        CountedNode { instance_terminating: true, leaving: true, ..ready() },
    ];
    assert_eq!(Counts::of(nodes), Counts { total: 1, away: 0 });
}

// Cases: BUD-5, BUD-6
#[test]
fn nodes_that_are_not_ready_leaving_or_in_a_command_use_the_budget_up_once() {
    let nodes = [
        ready(),
        CountedNode { ready: false, ..ready() },
        CountedNode { leaving: true, ..ready() },
        CountedNode { reserved: true, ..ready() },
        CountedNode { ready: false, leaving: true, reserved: true, ..ready() },
    ];
    assert_eq!(Counts::of(nodes), Counts { total: 5, away: 4 });
}

// Cases: BUD-4
#[test]
fn what_is_available_never_goes_below_zero() {
    let budgets = Budgets::read(&[spec("2")]);
    let available = |away| budgets.state(Reason::Drifted, Counts { total: 10, away }, at(NOON)).available();
    assert_eq!([0, 1, 2, 3, 10].map(available), [2, 1, 0, 0, 0]);
}

#[test]
fn an_exhausted_budget_is_named_with_its_window() {
    let budgets = Budgets::read(&[spec("50%"), scheduled("10%", "0 9 * * *", "8h")]);
    let state = budgets.state(Reason::Underutilized, Counts { total: 10, away: 1 }, at(NOON));
    assert_eq!(state.available(), 0);
    let text = state.to_string();
    for part in ["budgets[1]", "\"10%\"", "0 9 * * *", "2026-11-16T17:00:00Z", "1 of 10", "Underutilized"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!state.forbids(), "it allows one, which is away");
}

#[test]
fn an_empty_pool_is_not_told_that_its_budget_forbids_anything() {
    let budgets = Budgets::read(&[spec("0")]);
    assert!(!budgets.state(Reason::Empty, Counts::default(), at(NOON)).forbids());
}

#[test]
fn states_become_the_allowance_of_a_search() {
    let budgets = Budgets::read(&[spec("30%")]);
    let state = budgets.state(Reason::Empty, Counts { total: 10, away: 1 }, at(NOON));
    let pool: Arc<str> = Arc::from("default");
    assert_eq!(allowance([(&pool, &state)]), consolidation::Allowance::from([(Arc::clone(&pool), 2)]));
}
