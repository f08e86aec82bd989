//! Nodes with nothing on them.

use super::{Allowance, Candidate, by_savings, take};

/// Empty candidates within the allowance, to be deleted by one command. No simulation is needed: nothing moves.
pub fn choose(candidates: &[Candidate], mut allowance: Allowance) -> Vec<&Candidate> {
    let mut chosen: Vec<&Candidate> =
        candidates.iter().filter(|c| c.is_empty() && !c.holds_buffers).collect();
    chosen.sort_by(|a, b| by_savings(a, b));
    chosen.retain(|c| take(&mut allowance, &c.pool));
    chosen
}
