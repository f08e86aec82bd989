//! What an observer sees of a command. It follows from the step that comes next and decides nothing.

use super::{Step, View, Waiting};

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for its second look, or is being looked at: nothing was written yet.
    Proposed,
    /// Notes, taints and reasons are being written.
    Taking,
    /// Until the scheduler has seen the taints, and the pods were read.
    Settling,
    /// Replacements are being ordered.
    Ordering,
    /// For replacements to be initialised, or for a PodDisruptionBudget.
    Waiting,
    Removing,
    RollingBack,
    Done,
    RolledBack,
}

impl Step {
    /// The stage of a command whose next step this is.
    pub fn stage(&self, view: &View) -> Stage {
        match self {
            Self::Validate if view.is_begun() => Stage::Settling,
            Self::Wait { what: Waiting::SecondLook, .. } | Self::Validate => Stage::Proposed,
            Self::Take(_) | Self::Mark(_) => Stage::Taking,
            Self::Look(_) if view.needs > 0 && view.replacements.len() >= view.needs => Stage::Waiting,
            Self::Wait { what: Waiting::Scheduler, .. } | Self::Look(_) | Self::Release { .. } => {
                Stage::Settling
            }
            Self::Replace => Stage::Ordering,
            Self::Wait { what: Waiting::Replacements | Waiting::DisruptionBudget, .. } => Stage::Waiting,
            Self::Delete(_) => Stage::Removing,
            Self::Drop { .. } | Self::Undo { .. } => Stage::RollingBack,
            Self::Done => Stage::Done,
            Self::RolledBack(_) => Stage::RolledBack,
        }
    }

    /// What the command is doing or waits for, or why it is taken back; empty where the stage says it all.
    pub fn words(&self) -> String {
        match self {
            Self::Wait { what, .. } => what.words().to_owned(),
            Self::Validate => "being looked at again".to_owned(),
            Self::Take(_) => "tainting its nodes".to_owned(),
            Self::Look(_) => "reading its pods once more".to_owned(),
            Self::Replace => "ordering replacements".to_owned(),
            Self::Mark(_) => "writing the reason on its claims".to_owned(),
            Self::Release { why, .. } => format!("some of its nodes stay: {why}"),
            Self::Drop { why, .. } | Self::Undo { why, .. } | Self::RolledBack(why) => why.to_string(),
            Self::Delete(_) | Self::Done => String::new(),
        }
    }
}
