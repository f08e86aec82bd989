//! Drifted nodes: one at a time with whatever must replace it; in static NodePools each by a node of the same pool.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::drift::{self, Drifted};
use policy::{Method, Reason};

use super::{Answer, Entry, PlannedNode, Proposal, Purpose, Question, Search, Verdict};

/// Simulations asked for at once. Most succeed, so that more would be wasted.
const AT_ONCE: usize = 16;

/// Drifted nodes with pods, in their order, and how many of them were asked about.
pub(super) struct Drifting<'a> {
    order: Vec<&'a Entry>,
    asked: usize,
}

impl<'a> Drifting<'a> {
    pub(super) fn is_over(&self) -> bool {
        self.asked >= self.order.len()
    }

    fn next(&self) -> &[&'a Entry] {
        let rest = self.order.get(self.asked..).unwrap_or_default();
        &rest[..rest.len().min(AT_ONCE)]
    }

    pub(super) fn questions<N: PlannedNode>(&self, search: &Search<'a, N>) -> Vec<Question> {
        let question = |entry: &&Entry| {
            search.question(vec![Arc::clone(&entry.candidate.node)], Purpose::Drift, MicroDollars::ZERO)
        };
        self.next().iter().map(question).collect()
    }
}

/// Drift asks no price, so it saves nothing and pays nothing back.
fn replace<N>(entry: &Entry, method: Method, planned: Vec<N>) -> Proposal<N> {
    Proposal {
        method,
        nodes: vec![Arc::clone(&entry.candidate.node)],
        planned,
        saving: MicroDollars::ZERO,
        pods_moved: entry.pods,
        payback: SignedDuration::ZERO,
    }
}

impl<'a, N: PlannedNode> Search<'a, N> {
    /// In the order of `policy`.
    fn drifted(&self, which: impl Fn(&Entry) -> bool) -> Vec<Drifted> {
        let backing_off = &self.situation.backing_off;
        let entries = self.situation.entries.iter();
        let drifted = entries
            .filter(|entry| which(entry) && !backing_off.contains(&entry.candidate.pool))
            .map(|entry| Drifted {
                node: Arc::clone(&entry.candidate.node),
                pool: Arc::clone(&entry.candidate.pool),
                since: entry.drifted.unwrap_or(Timestamp::UNIX_EPOCH),
                pods: entry.pods,
            });
        let mut drifted: Vec<Drifted> = drifted.collect();
        drift::sort(&mut drifted);
        drifted
    }

    /// Each by a node of the same pool, wherever its pods would go.
    pub(super) fn find_static_drift(&mut self) {
        let allowance = self.situation.allowance(Reason::Drifted);
        let drifted = self.drifted(|entry| entry.methods.fixed_drift);
        for (name, pool) in &self.situation.fixed_pools {
            let own: Vec<&Drifted> = drifted.iter().filter(|drifted| drifted.pool == *name).collect();
            let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
            let granted = pool.grant(count, allowance.get(name).copied().unwrap_or(u32::MAX));
            self.found.constrained |= granted < count;
            let chosen = own.into_iter().take(usize::try_from(granted).unwrap_or(usize::MAX));
            let entries = chosen.filter_map(|drifted| self.situation.entry(&drifted.node));
            self.found.proposals.extend(entries.map(|entry| replace(entry, Method::StaticDrift, Vec::new())));
        }
    }

    /// Nodes without pods go together and at once; of the others the first whose pods find a place.
    pub(super) fn begin_drift(&mut self) -> Drifting<'a> {
        let mut allowance = self.situation.allowance(Reason::Drifted);
        let mut order = Vec::new();
        for one in self.drifted(|entry| entry.methods.drift) {
            let left = allowance.get_mut(&one.pool);
            if left.as_ref().is_some_and(|left| **left == 0) {
                self.found.constrained = true;
                continue;
            }
            let Some(entry) = self.situation.entry(&one.node) else { continue };
            if one.pods > 0 {
                order.push(entry);
                continue;
            }
            if let Some(left) = left {
                *left -= 1;
            }
            self.found.proposals.push(replace(entry, Method::Drift, Vec::new()));
        }
        Drifting { order, asked: 0 }
    }

    pub(super) fn answer_drift(
        &mut self,
        mut drifting: Drifting<'a>,
        answers: Vec<Result<Answer<N>, String>>,
    ) -> Drifting<'a> {
        let asked = drifting.next().len();
        for (entry, answer) in drifting.next().iter().zip(answers) {
            // No answer is no verdict on the node.
            let Ok(answer) = answer else { continue };
            let left_over = answer.outcome.left_over;
            let blocked = (!left_over.is_empty()).then_some(Blocked::Unplaceable(left_over));
            let words = match &blocked {
                Some(blocked) => blocked.to_string(),
                None => format!("drifted; can be replaced by {} new node(s)", answer.nodes.len()),
            };
            let placed = blocked.is_none();
            self.found.verdicts.push(Verdict {
                node: Arc::clone(&entry.candidate.node),
                words,
                blocked,
                saving: None,
            });
            if placed {
                self.found.proposals.push(replace(entry, Method::Drift, answer.nodes));
                break;
            }
        }
        drifting.asked += asked.max(1);
        drifting
    }
}
