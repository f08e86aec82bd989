//! Views are complete, and an excerpt of one judges a plan as the whole does.

use solver::check::check;

use super::*;
use crate::cluster::ClusterView;

fn view(state: &State) -> ClusterView {
    let input = state.input();
    let names = state.nodes.entries.keys();
    ClusterView {
        nodes: Arc::new(
            names.map(|name| (Arc::clone(name), Arc::new(state.node_view(name).unwrap()))).collect(),
        ),
        usable_pools: Arc::new(input.pools.clone()),
        daemon_sets: Arc::new(input.daemon_sets.clone()),
        namespaces: Arc::new(input.namespaces.clone()),
        pending: Arc::new(state.pending()),
        placeholder_pods: Arc::clone(&state.buffers.all),
        snapshot: Snapshot::build(input),
        ..ClusterView::empty()
    }
}

/// Many nodes with a pod each, one of them going, one claim on its way with a pod that it is meant for, and pods that wait.
fn busy(waiting: &Value) -> State {
    let mut state = state();
    for number in 0..20 {
        let (name, of) = (format!("ip-{number}"), format!("general-{number}"));
        state.node(Change::Applied(node(&name, &of, json!({}))), at(0));
        state.claim(Change::Applied(initialized(&of, &[], -100)), at(0));
        state.pod(Streamed::Applied(bound(number, &name)), at(0));
    }
    let tainted = json!({"spec": {"taints": [{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
    state.node(Change::Applied(node("ip-3", "general-3", tainted)), at(1));
    state.claim(Change::Applied(disrupted("general-3", -100)), at(1));
    state.pod(Streamed::Applied(pod(50, json!({}))), at(1));
    state.assume(claim("general-y", &[50], json!({})), at(1));
    for number in 60..64 {
        let large = json!({"spec": {"containers":
            [{"name": "c", "resources": {"requests": {"cpu": "3500m", "memory": "1Gi"}}}]}});
        let mut patch = large;
        merge(&mut patch, waiting.clone());
        state.pod(Streamed::Applied(pod(number, patch)), at(1));
    }
    state
}

#[test]
fn a_view_holds_all_that_its_snapshot_was_built_from() {
    let state = busy(&json!({}));
    assert_eq!(shown(&state, 50), on("general-y"));
    assert_eq!(view(&state).input(), state.input());
}

#[test]
fn an_excerpt_judges_as_the_whole_does_and_is_smaller() {
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": labels::HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}]}}}});
    let spread = json!({"spec": {"topologySpreadConstraints": [{"topologyKey": labels::ZONE, "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]}});
    for (rules, limit) in [(json!({}), None), (json!({}), Some("110")), (apart, None), (spread, None)] {
        let mut state = busy(&rules);
        state.pool(Change::Reset(vec![pool(limit)]), at(2));
        let (view, whole, options) = (view(&state), state.input(), Options::default());
        let plan = decide(&state);
        assert!(!plan.new_nodes.is_empty(), "{plan:?}");
        let excerpt = view.input_for(&plan);
        assert_eq!(check(&whole, &plan, &options), check(&excerpt, &plan, &options), "{rules} {limit:?}");
        if rules == json!({}) && limit.is_none() {
            assert!(excerpt.pods.len() < 12 && excerpt.nodes.len() < 12, "{} pods", excerpt.pods.len());
        }
        // Mistakes of every sort that others have a part in.
        let mut forgotten = plan.clone();
        forgotten.new_nodes.pop();
        let mut together = plan.clone();
        let moved: Vec<_> = together.new_nodes.iter_mut().flat_map(|n| n.pods.split_off(1)).collect();
        let mut crowded = plan.clone();
        crowded.existing.push(solver::ExistingNode {
            node: Arc::from("ip-7"),
            pods: plan.new_nodes.iter().flat_map(|n| n.pods.clone()).collect(),
        });
        together.new_nodes[0].pods.extend(moved);
        for broken in [forgotten, together, crowded] {
            let found = check(&whole, &broken, &options);
            assert_eq!(found, check(&view.input_for(&broken), &broken, &options), "{rules} {limit:?}");
        }
    }
}
