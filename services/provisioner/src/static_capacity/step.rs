//! How many claims a static pool lacks, or which of them it can do without. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use model::duration::NillableDuration;

/// A claim of the pool.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) claim: Arc<str>,
    pub(super) presence: Presence,
    /// No pods, or only daemons.
    pub(super) empty: bool,
    /// Runs a pod that must not be disrupted.
    pub(super) protected: bool,
    /// What evicting its pods costs, times the part of its life that is left; only the order matters.
    pub(super) cost: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    Unlaunched,
    There,
    /// A disruption command is about to replace it.
    Chosen,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    Create(usize),
    /// Nodes are missing and the limit allows none.
    Limited,
    Delete(Vec<Arc<str>>),
}

/// Claims that are about to be replaced count while nodes are made, so that a pool in the middle of a drift does not
/// overshoot, and not while too many are looked for. `limit` counts every node that there still is.
pub(super) fn step(replicas: usize, limit: Option<usize>, members: &[Member]) -> Step {
    let count = |of: &[Presence]| members.iter().filter(|m| of.contains(&m.presence)).count();
    let active = count(&[Presence::Unlaunched, Presence::There]);
    let chosen = count(&[Presence::Chosen]);
    if active + chosen < replicas {
        let missing = replicas - active - chosen;
        let allowed = limit.map_or(missing, |most| missing.min(most.saturating_sub(members.len())));
        return if allowed == 0 { Step::Limited } else { Step::Create(allowed) };
    }
    let too_many = active.saturating_sub(replicas);
    if too_many == 0 {
        return Step::Nothing;
    }
    let mut victims: Vec<&Member> =
        members.iter().filter(|m| matches!(m.presence, Presence::Unlaunched | Presence::There)).collect();
    let full = |m: &Member| !m.empty;
    victims.sort_by_key(|m| {
        let there = m.presence == Presence::There;
        let order = if there {
            (full(m), full(m) && m.protected, if full(m) { m.cost } else { 0 })
        } else {
            (false, false, 0)
        };
        (there, order, Arc::clone(&m.claim))
    });
    Step::Delete(victims.into_iter().take(too_many).map(|m| Arc::clone(&m.claim)).collect())
}

/// Millionths of a node's life that are left; all of it where it does not expire.
pub(super) fn life_left(life: &NillableDuration, created: Option<Timestamp>, now: Timestamp) -> i128 {
    const WHOLE: i128 = 1_000_000;
    let (NillableDuration::After(life), Some(created)) = (life, created) else { return WHOLE };
    let life = i128::from(life.nanos());
    if life <= 0 {
        return WHOLE;
    }
    let age = now.duration_since(created).as_nanos();
    ((life - age) * WHOLE / life).clamp(0, WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(claim: &str, presence: Presence) -> Member {
        Member { claim: Arc::from(claim), presence, empty: false, protected: false, cost: 1 }
    }

    fn there(count: usize) -> Vec<Member> {
        (0..count).map(|n| member(&format!("n{n}"), Presence::There)).collect()
    }

    fn deleted(step: Step) -> Vec<String> {
        match step {
            Step::Delete(names) => names.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    // Cases: SDP-4, SDP-8, SPR-7, SPR-8, SPR-9, SPR-10, SPR-12, SCH-H.9-17, SCH-H.9-18, SCH-H.9-19, SCH-H.9-20, SCH-L.1-8
    // Cases: SCH-L.1-10, SCH-L.1-11, SCH-L.1-12, SCH-L.2-4, SCH-L.2-8
    #[test]
    fn a_pool_is_filled_up_to_its_size_and_not_beyond_its_limit() {
        assert_eq!(step(5, None, &there(2)), Step::Create(3));
        assert_eq!(step(5, Some(4), &there(2)), Step::Create(2));
        assert_eq!(step(5, Some(2), &there(2)), Step::Limited);
        assert_eq!(step(2, None, &there(2)), Step::Nothing);
        assert_eq!(step(0, None, &[]), Step::Nothing);
    }

    // Cases: SDP-5, SCH-H.9-21, SCH-L.2-5
    #[test]
    fn a_node_that_is_being_deleted_is_replaced_and_counts_against_the_limit_until_it_is_gone() {
        let mut members = there(2);
        members.push(member("going", Presence::Deleted));
        assert_eq!(step(3, None, &members), Step::Create(1));
        assert_eq!(step(3, Some(3), &members), Step::Limited);
    }

    // Cases: SPR-6
    #[test]
    fn nodes_about_to_be_replaced_are_neither_missing_nor_too_many() {
        let mut members = there(2);
        members.push(member("drifted", Presence::Chosen));
        assert_eq!(step(3, None, &members), Step::Nothing, "its replacement is disruption's to make");
        members.push(member("new", Presence::There));
        assert_eq!(step(3, None, &members), Step::Nothing, "the replacement does not count as too many");
    }

    // Cases: SDP-6, SDP-7, SDP-10, SDP-11, SDP-12, SDP-13, SDP-14, SDP-15, SDP-16, SPR-6, SCH-L.2-5, SCH-L.2-6, SCH-L.2-7
    // Cases: SCH-L.2-10, SCH-L.2-11, SCH-L.2-12, SCH-L.2-13, SCH-L.2-14, SCH-L.2-15, SCH-L.2-16
    #[test]
    fn the_least_missed_go_first() {
        let mut members = vec![
            Member { cost: 9, ..member("dear", Presence::There) },
            Member { cost: 2, ..member("cheap", Presence::There) },
            Member { cost: 1, protected: true, ..member("protected", Presence::There) },
            Member { empty: true, ..member("empty", Presence::There) },
            member("unlaunched", Presence::Unlaunched),
            member("deleted", Presence::Deleted),
            member("chosen", Presence::Chosen),
        ];
        let order = ["unlaunched", "empty", "cheap", "dear", "protected"];
        for left in 0..5 {
            assert_eq!(deleted(step(left, None, &members)), order[..5 - left]);
        }
        members.reverse();
        assert_eq!(deleted(step(0, None, &members)), order, "the order of the list does not matter");
    }

    #[test]
    fn the_older_node_is_missed_less() {
        let life: NillableDuration = serde_json::from_value(serde_json::json!("10h")).unwrap();
        let at = |hours: i64| Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap();
        assert_eq!(life_left(&life, Some(at(0)), at(4)), 600_000);
        assert_eq!(life_left(&life, Some(at(0)), at(40)), 0);
        assert_eq!(life_left(&NillableDuration::Never, Some(at(0)), at(40)), 1_000_000);
    }
}
