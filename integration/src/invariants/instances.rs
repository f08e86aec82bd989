//! A NodeClaim never has two instances at the same time, and no instance outlives its NodeClaim.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

const CLAIM: &str = "karpenter.sh/nodeclaim";
/// EC2 gives this tag to what CreateFleet launched. Tests make instances in other ways and may tag them as they like.
const FLEET: &str = "aws:ec2:fleet-id";
/// Seconds in which the launch of a claim that is being deleted may still be under way; garbage collection terminates what it
/// launched.
const GRACE: f64 = 60.0;

/// An instance as the local AWS lists it, for ten minutes also after its end.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Instance {
    id: String,
    state: String,
    tags: BTreeMap<String, String>,
    /// Seconds since 1970.
    launched: f64,
    ended: Option<f64>,
}

impl Instance {
    fn overlaps(&self, later: &Self) -> bool {
        self.ended.is_none_or(|ended| later.launched < ended)
    }
}

/// Pairs of instances of one claim that existed at the same time.
pub(super) fn problems(all: &[Instance]) -> Vec<String> {
    let mut by_claim: BTreeMap<&str, Vec<&Instance>> = BTreeMap::new();
    for instance in all.iter().filter(|instance| instance.tags.contains_key(FLEET)) {
        if let Some(claim) = instance.tags.get(CLAIM) {
            by_claim.entry(claim).or_default().push(instance);
        }
    }
    let mut found = Vec::new();
    for (claim, mut instances) in by_claim {
        instances.sort_by(|a, b| a.launched.total_cmp(&b.launched));
        for (index, later) in instances.iter().enumerate() {
            let earlier = instances[..index].iter().filter(|earlier| earlier.overlaps(later));
            found.extend(
                earlier.map(|earlier| {
                    format!("NodeClaim {claim} had two instances: {}, {}", earlier.id, later.id)
                }),
            );
        }
    }
    found
}

/// Instances that run although their claim is gone: a finalizer was released while the instance might run. `excused` remembers
/// those that were younger than the grace period when they were first seen so. `now`: seconds since 1970.
pub(super) fn orphans(
    all: &[Instance],
    claims: &BTreeSet<&str>,
    now: f64,
    excused: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    let is_live = |one: &&Instance| !matches!(one.state.as_str(), "shutting-down" | "terminated");
    for instance in all.iter().filter(is_live).filter(|instance| instance.tags.contains_key(FLEET)) {
        let Some(claim) = instance.tags.get(CLAIM).filter(|claim| !claims.contains(claim.as_str())) else {
            continue;
        };
        if now < instance.launched + GRACE {
            excused.insert(instance.id.clone());
        } else if !excused.contains(&instance.id) {
            found.push(format!(
                "instance {} is {} without its NodeClaim {claim}",
                instance.id, instance.state
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(id: &str, claim: &str, launched: f64, ended: Option<f64>) -> Instance {
        let tags =
            [(CLAIM, claim), (FLEET, "fleet-1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let state = if ended.is_some() { "terminated" } else { "running" };
        Instance { id: id.into(), state: state.into(), tags: BTreeMap::from(tags), launched, ended }
    }

    #[test]
    fn an_instance_that_outlives_its_claim_is_found() {
        let all = [
            instance("i-1", "a", 10.0, None),
            instance("i-2", "b", 10.0, None),
            instance("i-3", "c", 10.0, Some(20.0)),
        ];
        let (claims, mut excused) = (BTreeSet::from(["b"]), BTreeSet::new());
        let found = orphans(&all, &claims, 100.0, &mut excused);
        assert_eq!(found, ["instance i-1 is running without its NodeClaim a"]);
    }

    #[test]
    fn a_launch_that_was_under_way_when_its_claim_was_deleted_is_left_to_garbage_collection() {
        let (all, mut excused) = ([instance("i-1", "a", 90.0, None)], BTreeSet::new());
        assert_eq!(orphans(&all, &BTreeSet::new(), 100.0, &mut excused), Vec::<String>::new());
        // The services that would terminate it may have been stopped with their test.
        assert_eq!(orphans(&all, &BTreeSet::new(), 900.0, &mut excused), Vec::<String>::new());
    }

    #[test]
    fn two_instances_of_one_claim_at_the_same_time_are_found_even_when_one_has_ended() {
        let all = [instance("i-1", "a", 10.0, Some(20.0)), instance("i-2", "a", 15.0, None)];
        let found = problems(&all);
        assert_eq!(found, ["NodeClaim a had two instances: i-1, i-2"]);
        assert_eq!(problems(&[instance("i-2", "a", 5.0, None), instance("i-1", "a", 10.0, None)]).len(), 1);
    }

    #[test]
    fn a_later_claim_of_the_same_name_and_instances_of_tests_are_no_problem() {
        let mut own = instance("i-4", "b", 1.0, None);
        own.tags.remove(FLEET);
        let all = [
            instance("i-1", "a", 10.0, Some(20.0)),
            instance("i-2", "a", 20.0, None),
            instance("i-3", "b", 1.0, None),
            own,
        ];
        assert_eq!(problems(&all), Vec::<String>::new());
    }

    #[test]
    fn the_local_aws_listing_is_understood() {
        let listed =
            r#"[{"id": "i-1", "state": "running", "launched": 1.5, "ended": null, "tags": {"a": "b"}}]"#;
        let read: Vec<Instance> = serde_json::from_str(listed).expect("a listing");
        assert!(read[0].ended.is_none() && problems(&read).is_empty());
    }
}
