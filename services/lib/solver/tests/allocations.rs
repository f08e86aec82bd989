//! What a what-if allocates follows from what it changes, not from the size of the cluster.

mod scenario;

use std::alloc::System;

use scenario::Scenario;
use scenario::catalogue::families;
use scenario::generate::{dense_cluster, full_cluster};
use solver::{Effort, NodeId, Options, Snapshot};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most bytes that the removal of one node allocates, of so many nodes tried.
fn most_bytes(snapshot: &Snapshot, tried: usize) -> usize {
    let options = Options { effort: Effort::Quick, ..Options::default() };
    let ask = |node: NodeId| solver::simulate(snapshot, &[node], &[], &options, &|| true);
    let nodes: Vec<NodeId> = snapshot.node_ids().take(tried).collect();
    // The first question fills what all later ones share.
    nodes.iter().for_each(|node| drop(ask(*node)));
    let bytes = |node: &NodeId| {
        let region = Region::new(COUNTED);
        drop(ask(*node));
        region.change().bytes_allocated
    };
    nodes.iter().map(bytes).max().unwrap_or(0)
}

// One test, since the counts are those of the whole process.
#[test]
fn a_removal_allocates_no_more_in_a_cluster_ten_times_as_large() {
    let clusters: [fn(usize) -> Scenario; 2] =
        [|nodes| dense_cluster(nodes, 30, families(), 42), |nodes| full_cluster(nodes, families(), 42)];
    for make in clusters {
        let small = most_bytes(&Snapshot::build(make(100).to_input()), 40);
        let large = most_bytes(&Snapshot::build(make(1000).to_input()), 40);
        assert!(small > 0, "nothing was counted");
        assert!(large < small + small / 2, "{large} bytes with 1,000 nodes, {small} with 100");
    }
}
