//! What is known about the instances of everything that leaves, who cares about each, and which of them can be meant at all.
//! Asking is done by [`crate::instances`]; this is the removal actor's memory of its answers.

use std::collections::{BTreeSet, HashMap};

use cloud::instance::id_of_provider;
use policy::drain::Instance;

use crate::cluster::{Claim, Key};
use crate::instances::{Instances, News, Subject, Wish};

pub(super) struct Knowledge {
    instances: Instances,
    region: String,
    known: HashMap<Subject, Instance>,
    followers: HashMap<Subject, BTreeSet<Key>>,
}

impl Knowledge {
    pub(super) fn new(instances: Instances, region: String) -> Self {
        Self { instances, region, known: HashMap::new(), followers: HashMap::new() }
    }

    /// The instance behind a node's provider id, and what is known of it. Why it must not be touched, if so.
    pub(super) fn of_node(&self, provider_id: Option<&str>) -> (Option<Subject>, Instance) {
        let Some(provider_id) = provider_id else {
            return (None, Instance::Untouchable(NO_PROVIDER_ID.to_owned()));
        };
        match locate(provider_id, &self.region) {
            Err(why) => (None, Instance::Untouchable(why)),
            Ok(id) => self.look_up(Subject::Id(id.into())),
        }
    }

    /// The instance of a claim: by its id, or by the claim's name where the id was never noted.
    pub(super) fn of_claim(&self, claim: &Claim) -> (Option<Subject>, Instance) {
        match &claim.provider_id {
            Some(id) => self.of_node(Some(id)),
            None => self.look_up(Subject::OfClaim(claim.name.clone())),
        }
    }

    fn look_up(&self, subject: Subject) -> (Option<Subject>, Instance) {
        let known = self.known.get(&subject).cloned().unwrap_or_default();
        (Some(subject), known)
    }

    /// Whoever follows an instance is looked at again when something is heard of it.
    pub(super) fn follow(&mut self, key: &Key, subject: &Subject) {
        self.followers.entry(subject.clone()).or_default().insert(key.clone());
    }

    /// What nobody follows any more is neither asked about nor remembered.
    pub(super) fn unfollow(&mut self, key: &Key, subject: &Subject) {
        let Some(keys) = self.followers.get_mut(subject) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.followers.remove(subject);
            self.known.remove(subject);
            self.instances.forget(subject.clone());
        }
    }

    /// `false`: the mailbox is full, come again.
    pub(super) fn wish(&mut self, subject: Subject, wish: Wish, claim: Option<&Claim>) -> bool {
        if !self.instances.want(subject.clone(), wish, claim.map(|claim| claim.name.clone())) {
            return false;
        }
        // Until it says more: so that the same wish is not sent with every look.
        self.known.insert(subject, Instance::Asking(None));
        true
    }

    /// Who is to be looked at because of it.
    pub(super) fn heard(&mut self, news: News) -> Vec<Key> {
        let keys: Vec<Key> = self.followers.get(&news.subject).into_iter().flatten().cloned().collect();
        // Late news of what was forgotten.
        if !keys.is_empty() {
            self.known.insert(news.subject, news.instance);
        }
        keys
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
        self.followers.clear();
        self.instances.forget_all();
    }
}

const NO_PROVIDER_ID: &str = "the node has no provider id, so no instance is known to be its own";

/// The instance id of a provider id of this region. EC2 here knows nothing of instances elsewhere: "not found" would be
/// taken for "gone".
fn locate<'a>(provider_id: &'a str, region: &str) -> Result<&'a str, String> {
    let advice =
        "correct it, or end the instance yourself and take the finalizer karpenter.sh/termination off";
    let malformed = || format!("provider id {provider_id:?} is not aws:///<zone>/<instance id>; {advice}");
    let of_aws = provider_id.strip_prefix("aws:///").ok_or_else(malformed)?;
    let id = id_of_provider(provider_id).filter(|id| id.starts_with("i-")).ok_or_else(malformed)?;
    let zone = of_aws.split('/').next().unwrap_or_default();
    // A zone is its region and something that begins with a letter or, for local zones, a dash: us-gov-east-1 is no zone
    // of us-gov-east-11, nor the reverse.
    let within =
        zone.strip_prefix(region).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    if !within {
        return Err(format!(
            "provider id {provider_id:?} is not of region {region}, which this service works in; {advice}"
        ));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_provider_ids_of_this_region_lead_to_an_instance() {
        assert_eq!(locate("aws:///us-east-1a/i-0abc", "us-east-1"), Ok("i-0abc"));
        assert_eq!(locate("aws:///us-east-1-bos-1a/i-0abc", "us-east-1"), Ok("i-0abc"), "a local zone");
        for wrong in [
            "aws:///eu-west-1a/i-0abc",
            "aws:///us-east-11a/i-0abc",
            "i-0abc",
            "",
            "aws:///us-east-1a/",
            "aws:///us-east-1a/x",
            "aws:///us-east-1a/i-0abc/more",
            "gce:///us-east-1a/i-0abc",
        ] {
            assert!(locate(wrong, "us-east-1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn news_reach_everyone_who_follows_and_what_nobody_follows_is_forgotten() {
        let (instances, mut commands) = Instances::for_tests();
        let mut knowledge = Knowledge::new(instances, "us-east-1".to_owned());
        let subject = Subject::Id("i-1".into());
        let (node, claim) = (Key::Node("n".into()), Key::Claim("c".into()));
        knowledge.follow(&node, &subject);
        knowledge.follow(&claim, &subject);
        assert!(knowledge.wish(subject.clone(), Wish::End, None));
        let gone = |subject: &Subject| News { subject: subject.clone(), instance: Instance::Gone };
        assert_eq!(knowledge.heard(gone(&subject)), [node.clone(), claim.clone()]);
        knowledge.unfollow(&node, &subject);
        let (_, known) = knowledge.of_node(Some("aws:///us-east-1a/i-1"));
        assert_eq!(known, Instance::Gone, "the claim still needs it");
        knowledge.unfollow(&claim, &subject);
        assert!(knowledge.heard(gone(&subject)).is_empty(), "late news");
        let (_, known) = knowledge.of_node(Some("aws:///us-east-1a/i-1"));
        assert_eq!(known, Instance::Unasked);
        commands.close();
    }
}
