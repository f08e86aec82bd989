//! What PodDisruptionBudgets say about a pod, for explanations and for the pace of evictions. The eviction API decides;
//! nothing here allows anything.

use std::fmt;
use std::sync::Arc;

use model::pod::LabelSelector;

use super::pod::{Phase, Pod};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdb {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `None` selects nothing.
    pub selector: Option<LabelSelector>,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub unhealthy_always: bool,
    pub allowed: i32,
    pub healthy: i32,
    pub desired: i32,
    pub expected: i32,
}

impl Pdb {
    pub fn selects(&self, pod: &Pod) -> bool {
        let by_labels = || self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        self.namespace == pod.namespace && by_labels()
    }

    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// As the eviction API judges a pod that only this budget covers.
    fn lets_go(&self, pod: &Pod) -> bool {
        self.allowed > 0 || self.ignores(pod)
    }

    /// The eviction API lets this pod go whatever the budget allows, and does not count it: it has not started, or it is
    /// unready and `unhealthyPodEvictionPolicy` lets such pods go.
    pub fn ignores(&self, pod: &Pod) -> bool {
        let unhealthy =
            pod.unhealthy && (self.unhealthy_always || (self.healthy >= self.desired && self.desired > 0));
        pod.phase != Phase::Running || unhealthy
    }
}

/// Why a pod may not be evicted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The one budget that covers it allows no disruption.
    Spent { budget: String, healthy: i32, expected: i32 },
    /// The eviction API refuses pods of more than one budget, whatever these allow.
    Several(Vec<String>),
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent { budget, healthy, expected } => {
                write!(f, "PDB {budget} allows 0 disruptions: {healthy} of {expected} healthy")
            }
            Self::Several(budgets) => write!(
                f,
                "{} PDBs cover it and no pod of several can be evicted: {}; change the selectors so that one is left",
                budgets.len(),
                budgets.join(", ")
            ),
        }
    }
}

/// All budgets that cover the pod, in the order given.
pub fn covering<'a>(pod: &'a Pod, pdbs: &'a [Arc<Pdb>]) -> impl Iterator<Item = &'a Arc<Pdb>> {
    pdbs.iter().filter(|pdb| pdb.selects(pod))
}

/// `pdbs`: all budgets of the pod's namespace.
pub fn block(pod: &Pod, pdbs: &[Arc<Pdb>]) -> Option<Block> {
    let mut found = covering(pod, pdbs);
    let first = found.next()?;
    if let Some(second) = found.next() {
        let all = [first, second].into_iter().chain(found);
        return Some(Block::Several(all.map(|pdb| pdb.key()).collect()));
    }
    (!first.lets_go(pod)).then(|| Block::Spent {
        budget: first.key(),
        healthy: first.healthy,
        expected: first.expected,
    })
}
