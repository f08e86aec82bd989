//! Judges a plan by the rules of Kubernetes and of NodePools, read literally and knowing nothing of the engine that made the
//! plan: a second opinion before anything is launched, and the judge of the property tests.
//!
//! It asks whether the plan *may* be carried out, not whether it is good: price matters only where the plan states one, and
//! preferences do not count. A node that is still to be made can become any of its listed types in any zone and capacity type
//! that its requirements leave open, and every rule must hold for all of these outcomes. Where a verdict depends on the order
//! in which pods arrive, a plan is fine if some order is. Written for clarity; the work
//! grows with what the plan touches, beside one look at every pod and node.

mod accounting;
mod affinity;
mod anti_affinity;
mod claim;
mod daemons;
mod domains;
mod existing;
mod labels;
mod launch;
mod limits;
mod min_values;
mod outcomes;
mod overheads;
mod ports;
mod rejected;
mod reservations;
mod resources;
mod selection;
mod selectors;
mod sites;
mod spread;
mod spread_domains;
mod taints;
mod violation;
mod volumes;

use std::collections::BTreeSet;

use model::pool::ClusterInput;

use crate::options::Options;
use crate::plan::Plan;
use domains::Domains;
pub use rejected::{HeldPod, hold_back};
use sites::Cluster;
pub use violation::{Place, Violation};

/// Everything that is wrong with `plan` as an answer to `input`; nothing for a plan that may be carried out.
pub fn check(input: &ClusterInput, plan: &Plan, options: &Options) -> Vec<Violation> {
    check_without(input, &BTreeSet::new(), plan, options)
}

/// As [`check`], for the plan of a cluster without the nodes named in `removed`.
pub fn check_without(
    input: &ClusterInput,
    removed: &BTreeSet<&str>,
    plan: &Plan,
    options: &Options,
) -> Vec<Violation> {
    judge(&Cluster::new(input, removed, plan, options, &|| true), plan, options)
}

/// As [`check`], while `keep_going` says so. `Err` has what was found until then: rules of single nodes come first, those of
/// topology, which compare nodes with each other, last.
pub fn check_within(
    input: &ClusterInput,
    plan: &Plan,
    options: &Options,
    keep_going: &dyn Fn() -> bool,
) -> Result<Vec<Violation>, Vec<Violation>> {
    let cluster = Cluster::new(input, &BTreeSet::new(), plan, options, keep_going);
    let found = judge(&cluster, plan, options);
    if cluster.in_time() { Ok(found) } else { Err(found) }
}

fn judge(cluster: &Cluster<'_>, plan: &Plan, options: &Options) -> Vec<Violation> {
    let mut found = Vec::new();
    accounting::check(cluster, plan, &mut found);
    claim::check(cluster, &mut found);
    existing::check(cluster, options, &mut found);
    resources::check(cluster, &mut found);
    selection::check(cluster, &mut found);
    taints::check(cluster, &mut found);
    ports::check(cluster, &mut found);
    volumes::check(cluster, &mut found);
    limits::check(cluster, &mut found);
    min_values::check(cluster, options, &mut found);
    reservations::check(cluster, &mut found);
    launch::check(cluster, plan, options, &mut found);
    let domains = Domains::of(cluster);
    spread::check(cluster, &domains, &mut found);
    affinity::check(cluster, &domains, &mut found);
    anti_affinity::check(cluster, &domains, &mut found);
    found
}
