//! What a NodePool says about itself: how much it has, whether it can be used, its drift hash, and whether its nodes manage to
//! register. It creates and removes no node.
//!
//! ```text
//!  watches, cluster view, outcomes of registrations ─► actor ─► status (pure) ─► one write a pool, when something changed
//!                                                        └────► hash (pure)   ─► annotations, also of claims when they migrate
//! ```

mod actor;
mod counter;
mod hash;
mod health;
mod metrics;
mod readiness;
mod shifts;
mod status;
#[cfg(test)]
mod tests;
mod write;

use api::NodeClaim;
use runtime::Shell;
use tokio::sync::mpsc;

use crate::deps::Deps;

pub(crate) use actor::Message;
pub(crate) use shifts::spawn as tell_shifts;

const INBOX: usize = 256;

/// Feeds the actor: an index of NodePools and EC2NodeClasses. Both must be watched.
pub(crate) type Inbox = mpsc::Sender<Message>;

/// Whether the node of a claim came to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    Yes,
    /// In time it did not; in the words of the claim's conditions.
    No {
        reason: String,
        message: String,
    },
}

/// Tells pools what became of their claims. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HealthHandle(mpsc::Sender<Message>);

impl HealthHandle {
    /// Returns at once. A report that finds no room is lost: it is information for people, and the next one comes.
    pub(crate) fn report(&self, claim: &NodeClaim, registered: Registered) {
        let owners = claim.metadata.owner_references.iter().flatten();
        // A pool of the same name that was made anew is not to blame for its predecessor's nodes.
        for owner in owners.filter(|owner| owner.kind == "NodePool") {
            let report =
                Message::Registration { pool_uid: owner.uid.clone(), registered: registered.clone() };
            let _ = self.0.try_send(report);
        }
    }
}

/// Starts keeping pools up to date. Nothing is written before both kinds were listed once and this replica leads.
pub(crate) fn spawn(shell: &mut Shell, deps: &Deps) -> (Inbox, HealthHandle) {
    let (sender, inbox) = mpsc::channel(INBOX);
    let actor = actor::Actor::new(inbox, deps);
    let stop = shell.stop();
    shell.process.spawn("nodepool", actor.run(deps.leadership.clone(), stop));
    (sender.clone(), HealthHandle(sender))
}
