//! Which pods a claim was made for. Written on the claim itself, so that another leader, or this process after a restart, knows
//! it too and does not provide for them again.

use std::sync::Arc;

use api::NodeClaim;
use api::conditions;
use jiff::{SignedDuration, Timestamp};
use model::labels::NOMINATED_PODS;
use rustc_hash::FxHashMap;

/// A pod's UID cut to 40 bits: the annotation stays short, and the worst that a clash could do is let a pod wait for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShortUid(u64);

const DIGITS: usize = 10;
/// The scheduler binds in any order, each pod where it likes best: within this time who is left over may still find room.
const SETTLING: SignedDuration = SignedDuration::from_secs(5);

impl ShortUid {
    pub(crate) fn of(uid: &str) -> Option<Self> {
        let digits: String = uid.chars().filter(|c| *c != '-').take(DIGITS).collect();
        (digits.len() == DIGITS).then(|| u64::from_str_radix(&digits, 16).ok().map(Self)).flatten()
    }
}

/// The annotation's value.
pub(crate) fn written<'a>(uids: impl IntoIterator<Item = &'a str>) -> String {
    let short = |uid: &str| ShortUid::of(uid).map(|s| format!("{:010x}", s.0));
    uids.into_iter().filter_map(short).collect::<Vec<_>>().join(",")
}

fn read(claim: &NodeClaim) -> impl Iterator<Item = ShortUid> {
    let annotation = claim.metadata.annotations.as_ref().and_then(|all| all.get(NOMINATED_PODS));
    annotation.map_or("", String::as_str).split(',').filter_map(ShortUid::of)
}

/// Until when the claim's room is kept for its pods: `None` while it is on its way, a moment after it is initialised (the
/// scheduler needs one to notice), the past when it is going.
pub(super) fn until(claim: &NodeClaim, window: SignedDuration) -> Option<Timestamp> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Some(Timestamp::UNIX_EPOCH);
    }
    let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let initialized =
        conditions::find(all, "Initialized").filter(|c| c.status == conditions::ConditionStatus::True)?;
    initialized.last_transition_time.0.checked_add(window).ok()
}

/// When the scheduler has had its time to use a node that is there: who was meant for it and does not fit any more waits in
/// vain. `None` while it is on its way.
pub(super) fn settled(claim: &NodeClaim) -> Option<Timestamp> {
    until(claim, SETTLING)
}

/// All nominations in force.
#[derive(Default)]
pub(super) struct Nominations {
    by_pod: FxHashMap<ShortUid, Arc<str>>,
    by_claim: FxHashMap<Arc<str>, Vec<ShortUid>>,
}

impl Nominations {
    /// The claim that was made for the pod.
    pub(super) fn claim_for(&self, uid: &str) -> Option<&Arc<str>> {
        self.by_pod.get(&ShortUid::of(uid)?)
    }

    /// Takes in the nominations of a claim. Returns pods whose situation may have changed.
    pub(super) fn set(&mut self, name: &Arc<str>, claim: &NodeClaim) -> Vec<ShortUid> {
        let pods: Vec<ShortUid> = read(claim).collect();
        if self.by_claim.get(name).map_or(&[][..], Vec::as_slice) == pods {
            return Vec::new();
        }
        let mut touched = self.drop(name);
        for pod in &pods {
            self.by_pod.insert(*pod, Arc::clone(name));
        }
        touched.extend(&pods);
        if !pods.is_empty() {
            self.by_claim.insert(Arc::clone(name), pods);
        }
        touched
    }

    /// The claim keeps no room any more. Returns pods whose situation may have changed.
    pub(super) fn drop(&mut self, name: &Arc<str>) -> Vec<ShortUid> {
        let pods = self.by_claim.remove(name).unwrap_or_default();
        for pod in &pods {
            // A later claim may have been made for the same pod.
            if self.by_pod.get(pod) == Some(name) {
                self.by_pod.remove(pod);
            }
        }
        pods
    }

    /// The claim keeps no room for one of its pods any more; that it was made for it stays known.
    pub(super) fn release(&mut self, pod: ShortUid, name: &Arc<str>) {
        if self.by_pod.get(&pod) == Some(name) {
            self.by_pod.remove(&pod);
        }
    }

    pub(super) fn of(&self, claim: &str) -> &[ShortUid] {
        self.by_claim.get(claim).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UIDS: [&str; 2] = ["0a1b2c3d-4e5f-6789-abcd-ef0123456789", "ffffffff-ff00-0000-0000-000000000000"];

    fn claim(value: &str) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.annotations = Some([(NOMINATED_PODS.to_owned(), value.to_owned())].into());
        claim
    }

    // Cases: SCH-H.1-6
    #[test]
    fn what_is_written_on_a_claim_is_read_back_from_it() {
        let claim = claim(&written(UIDS));
        let mut nominations = Nominations::default();
        let name: Arc<str> = Arc::from("default-x");
        assert_eq!(nominations.set(&name, &claim).len(), 2);
        assert_eq!(nominations.claim_for(UIDS[0]), Some(&name));
        assert_eq!(nominations.claim_for("11111111-1111-1111-1111-111111111111"), None);
        assert!(nominations.set(&name, &claim).is_empty(), "nothing new");
        assert_eq!(nominations.drop(&name).len(), 2);
        assert_eq!(nominations.claim_for(UIDS[0]), None);
    }

    #[test]
    fn a_later_claim_for_a_pod_outlives_the_first() {
        let mut nominations = Nominations::default();
        let (first, second): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        nominations.set(&first, &claim(&written([UIDS[0]])));
        nominations.set(&second, &claim(&written([UIDS[0]])));
        nominations.drop(&first);
        assert_eq!(nominations.claim_for(UIDS[0]), Some(&second));
    }

    #[test]
    fn text_that_anybody_may_have_edited_nominates_nothing() {
        for text in ["", ",", "zzzzzzzzzz", "12", "not-a-uid-at-all"] {
            assert_eq!(read(&claim(text)).count(), 0, "{text:?}");
        }
    }
}
