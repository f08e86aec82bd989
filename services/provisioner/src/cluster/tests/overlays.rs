//! A claim that is not launched yet has what the NodeOverlays of its NodePool give its types.

use super::*;

const FUSE: &str = "smarter-devices/fuse";

/// The offer with an overlay for one NodePool, as the catalogue publishes it.
fn overlaid(pool: &str) -> Offer {
    let plain = vec![kind("a.large", 2), kind("a.xlarge", 4), kind("a.2xlarge", 8)];
    let mut own = plain.clone();
    for kind in &mut own {
        kind.capacity.insert(FUSE, model::quantity::Quantity::from_units(20));
    }
    let overlaid = [(Arc::from(pool), (Arc::from("default"), Arc::new(own)))];
    Offer {
        version: 2,
        types: Arc::new([(Arc::from("default"), Arc::new(plain))].into()),
        overlaid: Arc::new(overlaid.into()),
        ..Offer::default()
    }
}

fn fuse(number: u32) -> Arc<Pod> {
    pod(
        number,
        json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "1", "memory": "1Gi", FUSE: "1"}, "limits": {FUSE: "1"}}}]}}),
    )
}

fn amount(state: &State) -> String {
    let node = Arc::clone(&state.nodes.entries["general-x"].node);
    assert_eq!(node.allocatable.get(FUSE), node.capacity.get(FUSE));
    node.allocatable.get(FUSE).to_string()
}

// Cases: SCH-O-49
#[test]
fn an_in_flight_node_has_the_resources_that_an_overlay_of_its_pool_adds() {
    let mut state = state();
    state.offer_changed(overlaid("general"), at(0));
    state.pod(Streamed::Applied(fuse(1)), at(0));
    assert_eq!(decide(&state).new_nodes.len(), 1);
    state.assume(claim("general-x", &[1], json!({})), at(0));
    assert_eq!((amount(&state), shown(&state, 1)), ("20".to_owned(), on("general-x")));
    // The next pods go there as well; nothing is made twice.
    for number in 2..4 {
        state.pod(Streamed::Applied(fuse(number)), at(1));
    }
    let plan = decide(&state);
    assert!(plan.new_nodes.is_empty() && plan.unschedulable.is_empty(), "{plan:?}");
    assert_eq!(plan.existing.iter().map(|node| node.pods.len()).sum::<usize>(), 2);
}

// Cases: SCH-O-49
#[test]
fn an_overlay_of_another_pool_gives_an_in_flight_node_nothing() {
    let mut state = state();
    state.offer_changed(overlaid("other"), at(0));
    state.pod(Streamed::Applied(pod(1, json!({}))), at(0));
    state.assume(claim("general-x", &[1], json!({})), at(0));
    assert_eq!(amount(&state), "0");
}
