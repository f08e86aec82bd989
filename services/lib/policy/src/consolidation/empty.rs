//! Nodes with nothing on them.

use super::{Allowance, Candidate, by_savings, take};

/// Empty candidates within the allowance, to be deleted by one command. No simulation is needed: nothing moves.
pub fn choose<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
    mut allowance: Allowance,
) -> Vec<&'a Candidate> {
    let mut chosen: Vec<&Candidate> =
        candidates.into_iter().filter(|c| c.is_empty() && !c.holds_buffers).collect();
    chosen.sort_by(|a, b| by_savings(a, b));
    chosen.retain(|c| take(&mut allowance, &c.pool));
    chosen
}
