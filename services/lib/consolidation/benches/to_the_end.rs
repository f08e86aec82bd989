//! `plan --consolidate` to the end on fragmented clusters: seconds, and what the work consists of. The bars are 1 s for 1,000 nodes, 10 s
//! for 5,000 and 30 s for 10,000; work must not grow faster than the number of nodes to the power of 1.2. Moving pods costs nothing here, so
//! that every command that saves anything is found: more of them than with the default.
//!
//! ```text
//! cargo bench -p karpenter-consolidation [-- 1000 5000 10000]
//! ```

#[path = "../../solver/tests/scenario/mod.rs"]
mod scenario;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use consolidation::{Consolidated, Rest, run};
use model::price::MicroDollars;
use scenario::catalogue::many;
use scenario::generate::fragmented_cluster;
use solver::{Options, Plan};

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn main() {
    // Cargo passes `--bench`.
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![300, 1000] } else { sizes };
    let mut before: Option<(usize, f64)> = None;
    for nodes in sizes {
        let input = fragmented_cluster(nodes, many(400), 42).to_input();
        let (rest, pods) = (without_limits(), input.pods.len());
        let began = Instant::now();
        let found = run(input, &rest, &Plan::default(), &Options::default(), &|| true);
        let seconds = began.elapsed().as_secs_f64();
        println!("{nodes} nodes, {pods} pods: {seconds:.2} s; {}", words(&found));
        if let Some((fewer, less)) = before {
            let exponent = (seconds / less).ln() / (nodes as f64 / fewer as f64).ln();
            println!("  from {fewer} nodes on it grows with the power of {exponent:.2}");
        }
        before = Some((nodes, seconds));
    }
}

/// One pool, and a budget of 100 %.
fn without_limits() -> Rest {
    let pool = r#"{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default",
        "annotations": {"karpenter.sh/consolidation-cost-per-pod": "0"}}, "spec": {
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}"#;
    let pool = serde_json::from_str(pool).expect("it is a NodePool");
    Rest { pools: [(Arc::from("default"), Arc::new(pool))].into(), ..Rest::default() }
}

fn words(found: &Consolidated) -> String {
    let mut methods: BTreeMap<&str, usize> = BTreeMap::new();
    let mut moves: BTreeMap<String, usize> = BTreeMap::new();
    for command in &found.commands {
        *methods.entry(command.method.as_str()).or_default() += 1;
        for one in &command.moves {
            *moves.entry(one.pod.to_string()).or_default() += 1;
        }
    }
    let kept: BTreeSet<usize> =
        found.commands.iter().flat_map(|c| c.first..c.first + c.nodes.len()).collect();
    let saved: MicroDollars = found.commands.iter().map(|command| command.savings).sum();
    assert_eq!(found.before - saved, found.after, "the savings of the commands are what is saved");
    format!(
        "${} to ${} an hour by {methods:?}, {} moves, no pod more than {} times, {} new nodes, {} simulations",
        found.before,
        found.after,
        moves.values().sum::<usize>(),
        moves.values().max().unwrap_or(&0),
        kept.len(),
        found.simulations,
    )
}
