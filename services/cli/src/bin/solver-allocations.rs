//! What one removal what-if allocates, at a number of nodes given as argument: most and mean bytes, as JSON. Run by
//! `solver-bench`.

use std::alloc::System;

use anyhow::Context;
use scenario::catalogue::families;
use scenario::generate::dense_cluster;
use solver::{Effort, Options, Snapshot};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../../../lib/solver/tests/scenario/mod.rs"]
mod scenario;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TRIED: usize = 200;

fn main() -> anyhow::Result<()> {
    let nodes: usize = std::env::args().nth(1).context("how many nodes?")?.parse().context("a number")?;
    let snapshot = Snapshot::build(dense_cluster(nodes, 30, families(), 42).to_input());
    let options = Options { effort: Effort::Quick, ..Options::default() };
    let ask = |node| solver::simulate(&snapshot, &[node], &[], &options, &|| true);
    let ids: Vec<_> = snapshot.node_ids().take(TRIED).collect();
    // The first question fills what all later ones share.
    ids.iter().for_each(|node| drop(ask(*node)));
    let bytes: Vec<usize> = ids
        .iter()
        .map(|node| {
            let region = Region::new(COUNTED);
            drop(ask(*node));
            region.change().bytes_allocated
        })
        .collect();
    let mean = bytes.iter().sum::<usize>() / bytes.len().max(1);
    println!("{}", serde_json::json!({"most": bytes.iter().max(), "mean": mean}));
    Ok(())
}
