//! The claims of one launch: who waits, who has an instance, and by what their instances are known.

use std::collections::BTreeMap;

use cloud::instance::{BATCH_TAG, NODECLAIM_TAG};

use super::batch::Member;
use super::error::LaunchError;
use super::launched::Launched;
use super::{Answer, ClaimRequest, unanswered};

/// What tokens and tags of a launch are made of.
pub(super) struct Key {
    /// Uid of the claim, or id of the batch.
    pub(super) id: String,
    /// On every instance from its first moment.
    pub(super) tag: (&'static str, String),
    pub(super) is_batch: bool,
}

impl Key {
    pub(super) fn of_claim(wanted: &ClaimRequest) -> Self {
        Self { id: wanted.uid.clone(), tag: (NODECLAIM_TAG, wanted.name.clone()), is_batch: false }
    }

    pub(super) fn of_batch(id: &str) -> Self {
        Self { id: id.to_owned(), tag: (BATCH_TAG, id.to_owned()), is_batch: true }
    }
}

pub(super) struct Shares {
    open: Vec<Member>,
    got: BTreeMap<String, Launched>,
    /// Somebody may have asked before, and EC2 may answer with what claims have already.
    pub(super) unsure: bool,
}

impl Shares {
    pub(super) fn new<'a>(claims: impl Iterator<Item = &'a ClaimRequest>, unsure: bool) -> Self {
        let member = |wanted: &ClaimRequest| Member { uid: wanted.uid.clone(), name: wanted.name.clone() };
        let mut open: Vec<Member> = claims.map(member).collect();
        open.sort();
        open.dedup();
        Self { open, got: BTreeMap::new(), unsure }
    }

    /// Those that wait, by uid.
    pub(super) fn open(&self) -> &[Member] {
        &self.open
    }

    pub(super) fn give(&mut self, member: &Member, launched: Launched) {
        self.open.retain(|waiting| waiting != member);
        self.got.insert(member.uid.clone(), launched);
    }

    /// `failed` is why the rest has none.
    pub(super) fn answers(self, failed: Option<LaunchError>) -> BTreeMap<String, Answer> {
        let without = self.open.into_iter().map(|member| {
            let answer = failed.clone().map_or_else(unanswered, Err);
            (member.uid, answer)
        });
        let with = self.got.into_iter().map(|(uid, launched)| (uid, Ok(launched)));
        without.chain(with).collect()
    }
}
