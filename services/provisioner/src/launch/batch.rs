//! Claims that share fleet requests: who gets which instance, also after the process that asked was killed. Pure.
//!
//! Claims that differ in nothing but their name are given the id of a batch when they are created (annotation
//! `karpenter.k8s.aws/launch-batch`). Those of them that wait for an instance ask for as many with one fleet request. Its token
//! is made of the batch's id and the number of the attempt, and its instances carry the id as a tag from their first moment. An
//! instance belongs to the claim whose status names it, and to nobody before. `karpenter.sh/nodeclaim` and `Name` are written on
//! it later, when its node has joined; nothing depends on them.
//!
//! A claim that is alone has its own uid in place of the batch's id and its name as the tag; everything else is the same.
//!
//! What a process that knows nothing finds, depending on when the one before it was killed:
//!
//! | killed | what it finds and does |
//! |---|---|
//! | before the call | no instance with the tag; the first token is unused and launches |
//! | during the call, or before its answer was read | instances with the tag that no status names: they are handed out. EC2 may show them late; then the first token is answered as before (equal request) or with a mismatch (another one), which is followed by patient looks, and only then by the next token |
//! | after the answer, some statuses written | the same, less the instances that statuses name. Statuses are read from the API server after every claim of the batch without an instance was written to, so that no write of the killed process can come in afterwards |
//! | after all statuses were written | nobody asks |
//!
//! - A claim of the batch that is deleted meanwhile: its instance goes to another claim of the batch that waits, or else no status
//!   ever names it, and garbage collection ends it once no claim of the batch lacks an instance.
//! - A partial answer: those first in order get an instance, the others ask on with the next token.
//! - A second leader beside one that has not noticed yet: tokens are the same for both, so EC2 launches once; of two that write
//!   one status the second finds another version and reads again, and a status that names an instance keeps it.
//! - Claims of one batch that come late ask for themselves, after those before them are served: calls of one batch never overlap.
//! - A young instance without a claim's name is left alone by garbage collection while a claim of its batch has none.

use std::collections::BTreeSet;

/// A claim that waits for its instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) uid: String,
    pub(super) name: String,
}

/// An instance that was launched for the batch and runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub(super) id: String,
    /// The claim that its tags name.
    pub(super) claim: Option<String>,
}

/// Pairs of uid and instance, at most one for each of both. `seen` is in the order in which instances are handed out;
/// `taken` are those that statuses name, or that were handed out before. Tags are kept to, the rest follows the order of uids.
pub(super) fn assign(members: &[Member], seen: &[Seen], taken: &BTreeSet<String>) -> Vec<(Member, String)> {
    let mut free: Vec<&Seen> = seen.iter().filter(|instance| !taken.contains(&instance.id)).collect();
    let mut waiting: Vec<&Member> = members.iter().collect();
    waiting.sort();
    let mut pairs = Vec::new();
    waiting.retain(|member| {
        let own = free.iter().position(|instance| instance.claim.as_ref() == Some(&member.name));
        let Some(at) = own else { return true };
        pairs.push(((*member).clone(), free.remove(at).id.clone()));
        false
    });
    // An instance that names another claim is that claim's, or garbage.
    free.retain(|instance| instance.claim.is_none());
    pairs.extend(
        waiting.into_iter().zip(free).map(|(member, instance)| (member.clone(), instance.id.clone())),
    );
    pairs
}

/// How many claims were created with this batch id.
pub(super) fn size(id: &str) -> Option<usize> {
    id.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u32) -> Member {
        Member { uid: format!("u{n}"), name: format!("claim-{n}") }
    }

    fn seen(id: &str, claim: Option<&str>) -> Seen {
        Seen { id: id.to_owned(), claim: claim.map(str::to_owned) }
    }

    fn pairs(members: &[Member], seen: &[Seen], taken: &[&str]) -> Vec<(String, String)> {
        let taken = taken.iter().map(|id| (*id).to_owned()).collect();
        assign(members, seen, &taken).into_iter().map(|(member, id)| (member.name, id)).collect()
    }

    fn pair(n: u32, id: &str) -> (String, String) {
        (format!("claim-{n}"), id.to_owned())
    }

    #[test]
    fn instances_go_to_those_they_name_and_the_rest_in_order() {
        let members = [member(3), member(1), member(2)];
        let all = [
            seen("i-a", None),
            seen("i-b", Some("claim-1")),
            seen("i-c", Some("claim-9")),
            seen("i-d", None),
        ];
        assert_eq!(pairs(&members, &all, &[]), [pair(1, "i-b"), pair(2, "i-a"), pair(3, "i-d")]);
        assert_eq!(pairs(&members, &all, &["i-a"]), [pair(1, "i-b"), pair(2, "i-d")], "taken by a status");
        assert_eq!(pairs(&members[..1], &all, &[]), [pair(3, "i-a")], "fewer claims than instances");
        assert_eq!(pairs(&members, &[], &[]), []);
    }

    #[test]
    fn of_several_that_name_one_claim_the_first_is_taken() {
        let twice = [seen("i-a", Some("claim-1")), seen("i-b", Some("claim-1"))];
        assert_eq!(pairs(&[member(1)], &twice, &[]), [pair(1, "i-a")]);
    }

    #[test]
    fn a_batch_id_says_how_many_there_were() {
        assert_eq!(
            (size("k7x2p-30"), size("a-b-2"), size("k7x2p"), size("k-x")),
            (Some(30), Some(2), None, None)
        );
    }
}
