//! Volumes of a pod combined: where all of them can be attached, and what they use of a node's attach limits.

use std::sync::Arc;

use model::pod::Volume;
use model::requirements::Requirements;

/// Combinations beyond this are not enumerated one by one; they are alike in practice (zones), so that the product
/// collapses long before.
const MOST_COMBINATIONS: usize = 64;

/// One requirement set per consistent combination of alternatives; empty: anywhere. When no combination is consistent, all
/// stay and fail with their own reason.
pub(crate) fn combined(volumes: &[Volume]) -> Vec<Requirements> {
    let mut product: Vec<Requirements> = Vec::new();
    for volume in volumes.iter().filter(|v| !v.alternatives.is_empty()) {
        if product.is_empty() {
            product = volume.alternatives.clone();
            continue;
        }
        let pairs = || product.iter().flat_map(|a| volume.alternatives.iter().map(move |b| (a, b)));
        let merged = |(a, b): (&Requirements, &Requirements)| {
            let mut both = a.clone();
            both.add_all(b);
            both
        };
        let consistent: Vec<_> = pairs().filter(|(a, b)| a.overlaps(b)).map(merged).collect();
        let mut next = if consistent.is_empty() { pairs().map(merged).collect() } else { consistent };
        let mut seen = Vec::new();
        next.retain(|r| {
            !seen.contains(r) && {
                seen.push(r.clone());
                seen.len() <= MOST_COMBINATIONS
            }
        });
        product = next;
    }
    product
}

/// Driver and claim of every volume that an attach limit can count, sorted.
pub(crate) fn attachments(volumes: &[Volume]) -> Vec<(Arc<str>, Arc<str>)> {
    let mut out: Vec<_> =
        volumes.iter().filter_map(|v| Some((Arc::clone(v.driver.as_ref()?), Arc::clone(&v.claim)))).collect();
    out.sort_unstable();
    out.dedup();
    out
}
