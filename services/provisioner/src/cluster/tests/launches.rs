//! Launches that fail: at once again where the offerings changed, after a pause where they did not.

use super::super::backoff::LaunchShape;
use super::*;

const WHY: &str = "all requested instance types were unavailable";

fn failing() -> (State, Arc<NodeClaim>) {
    let mut state = state();
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    let claim = claim("general-x", &[1], json!({}));
    state.claim(Change::Applied(Arc::clone(&claim)), at(0));
    state.triggers.clear();
    (state, claim)
}

fn fail(state: &mut State, claim: &Arc<NodeClaim>, seconds: i64) {
    state.launch_failed("general-x", &Arc::from(WHY), at(seconds));
    let mut deleting = (**claim).clone();
    deleting.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(seconds)));
    state.claim(Change::Applied(Arc::new(deleting)), at(seconds));
    state.claim(Change::Deleted(Arc::clone(claim)), at(seconds));
}

fn offer(available: bool, price: i64) -> Offer {
    let of = |name: &str, cpu: i64| {
        let mut kind = kind(name, cpu);
        for offering in &mut kind.offerings {
            offering.available = available;
            offering.price = MicroDollars::new(price);
        }
        kind
    };
    let types = Arc::new(vec![of("a.large", 2), of("a.xlarge", 4), of("a.2xlarge", 8)]);
    Offer { version: 2, types: Arc::new([(Arc::from("default"), types)].into()), ..Offer::default() }
}

#[test]
fn a_failure_that_changed_nothing_is_tried_again_after_a_pause() {
    let (mut state, claim) = failing();
    // A price is no change of what can be launched.
    state.offer_changed(offer(true, 7), at(0));
    state.triggers.clear();
    fail(&mut state, &claim, 1);
    assert_eq!(shown(&state, 1), Shown::Pending);
    let decided_again = |(uid, urgent): &(Arc<str>, bool)| *urgent || **uid != *"general-x";
    assert!(!state.triggers.iter().any(decided_again), "not at once: {:?}", state.triggers);
    state.triggers.clear();
    let backoff = state.launches.backoff();
    let pause = backoff.get(&LaunchShape::of(&claim)).expect("a pause");
    assert!(pause.until == at(2) && pause.explained("general").contains(WHY));
    state.pass_time(at(2));
    assert_eq!(state.triggers.iter().map(|(_, urgent)| *urgent).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_failure_that_changed_the_offerings_is_decided_about_at_once() {
    let (mut state, claim) = failing();
    state.offer_changed(offer(false, 7), at(1));
    state.triggers.clear();
    fail(&mut state, &claim, 1);
    assert!(state.triggers.iter().any(|(_, urgent)| *urgent));
    assert!(state.launches.backoff().is_empty());
}

#[test]
fn a_launch_or_a_change_of_the_pool_ends_the_pauses() {
    let (mut state, claim) = failing();
    fail(&mut state, &claim, 1);
    state.claim(Change::Applied(Arc::clone(&claim)), at(3));
    assert_eq!(state.launches.backoff().get(&LaunchShape::of(&claim)).map(|pause| pause.in_flight), Some(1));
    state.claim(Change::Applied(launched("general-x", &[1])), at(4));
    assert!(state.launches.backoff().is_empty());

    let (mut state, claim) = failing();
    fail(&mut state, &claim, 1);
    let mut changed = (*pool(None)).clone();
    changed.metadata.generation = Some(2);
    state.pool(Change::Applied(Arc::new(changed)), at(2));
    assert!(state.launches.backoff().is_empty());
}
