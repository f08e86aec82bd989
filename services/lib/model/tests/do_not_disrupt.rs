//! What the do-not-disrupt annotation of a pod protects, and until when.

use model::do_not_disrupt::{DoNotDisrupt, Protection};

const MINUTE: i128 = 60_000_000_000;
const STARTED: i128 = 1_000 * MINUTE;

fn after(value: Option<&str>, minutes: i128) -> Protection {
    DoNotDisrupt::parse(value).at(Some(STARTED), STARTED + minutes * MINUTE)
}

// Cases: POD-1, SCH-K-27
#[test]
fn without_the_annotation_nothing_is_protected() {
    assert_eq!(after(None, 0), Protection::None);
}

// Cases: SCH-K-28
#[test]
fn true_protects_for_good() {
    assert_eq!(after(Some("true"), 0), Protection::Open);
    assert_eq!(after(Some("true"), 1_000_000), Protection::Open);
}

// Cases: POD-2, POD-3, POD-4, POD-5, SCH-K-29, SCH-K-30, SCH-K-31
#[test]
fn other_words_zero_and_negative_spans_protect_nothing_and_are_reported() {
    for value in ["", "false", "True", "yes", "30", "0", "0s", "-5m", "1d"] {
        assert_eq!(DoNotDisrupt::parse(Some(value)), DoNotDisrupt::Invalid(value.to_owned()));
        assert!(!after(Some(value), 0).is_active(), "{value:?}");
    }
}

// Cases: POD-7, SCH-K-32, SCH-K-33
#[test]
fn a_span_protects_from_the_start_until_its_end() {
    assert_eq!(after(Some("30m"), 29), Protection::Until(STARTED + 30 * MINUTE));
    assert_eq!(after(Some("30m"), 30), Protection::Elapsed(STARTED + 30 * MINUTE));
    assert_eq!(after(Some("1h30m"), 89), Protection::Until(STARTED + 90 * MINUTE));
    assert!(after(Some("30m"), 29).is_active() && !after(Some("30m"), 31).is_active());
}

// Cases: POD-8, SCH-K-34
#[test]
fn a_pod_that_has_not_started_is_protected_by_its_span() {
    let span = DoNotDisrupt::parse(Some("30m"));
    assert_eq!(span.at(None, STARTED), Protection::Open);
}
