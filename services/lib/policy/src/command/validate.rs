//! The second look: is the plan still the plan?

use std::fmt;
use std::sync::Arc;

use crate::candidate::Blocked;

/// Why a proposal is not carried out. The category is the label of the reference's ConsolidationRejected event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Members are no candidates any more.
    Churn {
        node: Arc<str>,
        by: Option<Blocked>,
    },
    /// Pods were promised to a member.
    Nominated {
        node: Arc<str>,
    },
    Budget {
        pool: Arc<str>,
    },
    /// Pods would have no place, or other nodes would be needed than planned.
    Scheduling(String),
    /// The question could not be asked.
    Unanswered(String),
}

impl Invalid {
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Churn { .. } => "churn",
            Self::Nominated { .. } | Self::Budget { .. } => "budget",
            Self::Scheduling(_) => "scheduling",
            Self::Unanswered(_) => "unknown",
        }
    }

    /// The reference's counter of failed validations leaves out plans that merely changed.
    pub const fn is_counted(&self) -> bool {
        matches!(self, Self::Churn { .. } | Self::Nominated { .. } | Self::Budget { .. })
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Churn { node, by: Some(by) } => write!(f, "node {node} is no candidate any more: {by}"),
            Self::Churn { node, by: None } => write!(f, "node {node} is no candidate any more"),
            Self::Nominated { node } => write!(f, "pending pods were promised to node {node}"),
            Self::Budget { pool } => write!(f, "the budgets of NodePool {pool} do not allow it any more"),
            Self::Scheduling(what) => f.write_str(what),
            Self::Unanswered(why) => write!(f, "it could not be asked: {why}"),
        }
    }
}

/// Whether a fresh simulation would make the nodes that were planned: as many, and each of the planned ones still possible
/// in all its types. `planned` and `fresh`: the instance types of each new node. Nodes are compared in any order.
pub fn same_shape(planned: &[Vec<&str>], fresh: &[Vec<&str>]) -> Result<(), Invalid> {
    if planned.len() != fresh.len() {
        return Err(Invalid::Scheduling(format!(
            "{} new nodes would be needed where {} were planned",
            fresh.len(),
            planned.len()
        )));
    }
    let mut free: Vec<&Vec<&str>> = fresh.iter().collect();
    // Those with the most types are the hardest to match.
    let mut order: Vec<&Vec<&str>> = planned.iter().collect();
    order.sort_by_key(|types| std::cmp::Reverse(types.len()));
    for types in order {
        let fits = |candidate: &&Vec<&str>| types.iter().all(|name| candidate.contains(name));
        // The tightest fit leaves the wider ones to others.
        let found = (0..free.len()).filter(|&i| fits(&free[i])).min_by_key(|&i| free[i].len());
        let Some(found) = found else {
            return Err(Invalid::Scheduling(
                "a planned node would not do any more: other instance types are needed".to_owned(),
            ));
        };
        free.remove(found);
    }
    Ok(())
}
