//! Nodes that are wrong: one at a time with whatever must replace it, and pools of a fixed size one by one of the same.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::drift::{self, Drifted};
use policy::{Method, Reason};
use proto::provisioner::v1::{SimulateResponse, SimulationPurpose};
use proto::types::v1 as types;
use tonic::Status;

use super::{AT_ONCE, Entry, Look, Verdict, outcome};
use crate::command::Proposal;
use crate::probe::Removal;

/// Drift asks no price, so it saves nothing and pays nothing back.
fn replace(entry: &Entry, method: Method, planned: Vec<types::PlannedNode>) -> Proposal {
    Proposal {
        method,
        members: vec![entry.member.clone()],
        planned,
        saving: MicroDollars::ZERO,
        pods_moved: u32::try_from(entry.pods()).unwrap_or(u32::MAX),
        payback: SignedDuration::ZERO,
    }
}

impl Look {
    /// In the order of `policy`.
    fn drifted(&self, which: impl Fn(&Entry) -> bool) -> Vec<Drifted> {
        let drifted = self.situation.entries.iter().filter(|entry| which(entry)).map(|entry| Drifted {
            node: Arc::clone(&entry.member.node),
            pool: Arc::clone(&entry.member.pool),
            since: entry.drifted.unwrap_or(Timestamp::UNIX_EPOCH),
            pods: u32::try_from(entry.pods()).unwrap_or(u32::MAX),
        });
        let mut drifted: Vec<Drifted> = drifted.collect();
        drift::sort(&mut drifted);
        drifted
    }

    /// Each by a node of the same pool, wherever its pods would go.
    pub(super) fn fixed_drift(&mut self) {
        let allowance = self.allowance(Reason::Drifted);
        let drifted = self.drifted(|entry| entry.methods.fixed_drift);
        for (name, pool) in &self.situation.fixed_pools {
            if self.situation.resting.contains(name) {
                continue;
            }
            let own: Vec<&Drifted> = drifted.iter().filter(|drifted| drifted.pool == *name).collect();
            let count = u32::try_from(own.len()).unwrap_or(u32::MAX);
            let granted = pool.grant(count, allowance.get(name).copied().unwrap_or(u32::MAX));
            self.found.constrained |= granted < count;
            let chosen = own.into_iter().take(usize::try_from(granted).unwrap_or(usize::MAX));
            let proposals = chosen.filter_map(|drifted| self.entry(&drifted.node)).map(|entry| {
                let bare = types::PlannedNode {
                    name: "new-0".into(),
                    node_pool: name.to_string(),
                    ..types::PlannedNode::default()
                };
                replace(entry, Method::StaticDrift, vec![bare])
            });
            let proposals: Vec<Proposal> = proposals.collect();
            self.found.proposals.extend(proposals);
        }
    }

    /// Nodes without pods go together; of the others the first whose pods find a place.
    pub(super) async fn drift(&mut self) -> Result<(), Status> {
        let mut allowance = self.allowance(Reason::Drifted);
        let resting = &self.situation.resting;
        let drifted = self.drifted(|entry| entry.methods.drift && !resting.contains(&entry.member.pool));
        let (mut empty, mut full): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        for one in drifted {
            let left = allowance.get_mut(&one.pool);
            if left.as_ref().is_some_and(|left| **left == 0) {
                self.found.constrained = true;
                continue;
            }
            let Some(entry) = self.entry(&one.node).cloned() else { continue };
            if one.pods > 0 {
                full.push(entry);
                continue;
            }
            if let Some(left) = left {
                *left -= 1;
            }
            empty.push(entry);
        }
        if !empty.is_empty() {
            self.found.proposals.extend(empty.iter().map(|entry| replace(entry, Method::Drift, Vec::new())));
            return Ok(());
        }
        for some in full.chunks(AT_ONCE / 4) {
            let removal = |entry: &Entry| {
                let node = [Arc::clone(&entry.member.node)];
                self.removal(&node, SimulationPurpose::Drift, MicroDollars::ZERO)
            };
            let removals: Vec<Removal> = some.iter().map(removal).collect();
            let answers = self.probes.ask_many(&removals).await?;
            for (entry, answer) in some.iter().zip(answers) {
                let (words, blocked, placed) = read(answer);
                self.found.verdicts.push(Verdict {
                    node: Arc::clone(&entry.member.node),
                    words,
                    blocked,
                    saving: None,
                });
                if let Some(placed) = placed {
                    self.found.proposals.push(replace(entry, Method::Drift, placed.new_nodes));
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// In words, what holds the node, and the answer if all its pods find a place.
fn read(answer: Result<SimulateResponse, String>) -> (String, Option<Blocked>, Option<SimulateResponse>) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return (error, None, None),
    };
    let left_over = outcome(&answer).left_over;
    if !left_over.is_empty() {
        let blocked = Blocked::Unplaceable(left_over);
        return (blocked.to_string(), Some(blocked), None);
    }
    (format!("drifted; can be replaced by {} new node(s)", answer.new_nodes.len()), None, Some(answer))
}
