//! NodeClaims that were created, or may have been, and that no watch has shown yet. They count from the moment they were sent:
//! another node would be made for the same pods otherwise.

use std::sync::Arc;

use api::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use super::state::{Due, State};

/// A NodeClaim that we created counts this long before it is looked up, as no watch has shown it; then again and again.
const ASSUMED: SignedDuration = SignedDuration::from_secs(15);
/// The same for a create that was not answered: an API server carries it out within a minute (its `--request-timeout`) or
/// never.
const UNANSWERED: SignedDuration = SignedDuration::from_secs(75);

impl State {
    /// Claims that were just created, or may have been: they count from now on, whenever the watch shows them.
    pub(super) fn assume(&mut self, claim: Arc<NodeClaim>, now: Timestamp) {
        let name: Arc<str> = Arc::from(claim.metadata.name.as_deref().unwrap_or_default());
        if self.nodes.claims.contains_key(&name) {
            return;
        }
        let answered = claim.metadata.uid.is_some();
        let wait = if answered { ASSUMED } else { UNANSWERED };
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.assumed.insert(Arc::clone(&name), until);
        self.due.insert((until, Due::Assumed(Arc::clone(&name))));
        self.keep_claim(&name, claim, now);
    }

    /// Claims that no watch has shown in time. They go on to count, and come due again.
    pub(super) fn overdue_claims(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        let overdue = std::mem::take(&mut self.overdue);
        let again = now.checked_add(ASSUMED).unwrap_or(Timestamp::MAX);
        let still = overdue.into_iter().filter(|name| self.assumed.contains_key(name));
        let names: Vec<Arc<str>> = still.collect();
        for name in &names {
            self.assumed.insert(Arc::clone(name), again);
            self.due.insert((again, Due::Assumed(Arc::clone(name))));
        }
        names
    }

    /// The API server does not have a claim that was assumed to be there.
    pub(super) fn claim_absent(&mut self, name: &Arc<str>, now: Timestamp) {
        if self.assumed.contains_key(name) {
            warn!(nodeclaim = &**name, "the API server does not have the claim: it does not count any more");
            self.drop_claim(name, now);
        }
    }
}
