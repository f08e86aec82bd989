//! What EC2 says about types and zones, and whether an answer may replace the one before. Pure.
//!
//! A listing that is empty, or half gone, is a fault on the way and no news about EC2: it is refused and the last good
//! answer stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud::facts::{TypeFacts, Zone};

/// One answer of EC2: its three listings as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) types: Vec<TypeFacts>,
    /// Zone names by type.
    pub(crate) offered: BTreeMap<String, BTreeSet<String>>,
    pub(crate) zones: Vec<Zone>,
}

/// What is kept of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionFacts {
    /// By name.
    pub(crate) types: Vec<Sold>,
    /// By name.
    pub(crate) zones: Vec<Zone>,
}

/// A type and where it is sold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) facts: Arc<TypeFacts>,
    /// Indexes into the zones, ascending.
    pub(crate) zones: Vec<u32>,
}

/// Why an answer is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("EC2 listed no {0}; the last good answer is kept")]
    Empty(&'static str),
    #[error(
        "EC2 listed {now} {what} where it listed {before}; too many are gone to believe it, the last good answer is kept. \
         If it is true, delete ConfigMap karpenter-instance-types and restart"
    )]
    Shrunk { what: &'static str, before: usize, now: usize },
}

/// The answer in order and without entries that make no sense, and how many those were. Equal types are shared with what was
/// known.
pub(crate) fn accept(
    before: Option<&RegionFacts>,
    listing: Listing,
) -> Result<(RegionFacts, usize), Refused> {
    let Listing { mut types, offered, mut zones } = listing;
    let listed = types.len();
    types.retain(|t| !t.name.is_empty() && t.vcpus > 0 && t.memory_mib > 0);
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types.dedup_by(|a, b| a.name == b.name);
    let left_out = listed - types.len();
    zones.retain(|z| !z.name.is_empty());
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones.dedup_by(|a, b| a.name == b.name);
    zones.shrink_to_fit();

    let known = |name: &str| {
        let types = &before?.types;
        types.binary_search_by(|t| t.facts.name.as_str().cmp(name)).ok().map(|at| &types[at])
    };
    let nowhere = BTreeSet::new();
    let sold = |facts: TypeFacts| {
        let names = offered.get(&facts.name).unwrap_or(&nowhere);
        let mut sold_in: Vec<u32> =
            (0..).zip(&zones).filter(|(_, zone)| names.contains(&zone.name)).map(|(at, _)| at).collect();
        sold_in.shrink_to_fit();
        let facts = match known(&facts.name) {
            Some(same) if *same.facts == facts => Arc::clone(&same.facts),
            _ => Arc::new(facts),
        };
        Sold { facts, zones: sold_in }
    };
    let mut kept = Vec::with_capacity(types.len());
    kept.extend(types.into_iter().map(sold));
    let answer = RegionFacts { types: kept, zones };

    for (at, (what, now)) in counts(&answer).into_iter().enumerate() {
        if now == 0 {
            return Err(Refused::Empty(what));
        }
        let known = before.map_or(0, |facts| counts(facts)[at].1);
        if now < known.div_ceil(2) {
            return Err(Refused::Shrunk { what, before: known, now });
        }
    }
    Ok((answer, left_out))
}

fn counts(facts: &RegionFacts) -> [(&'static str, usize); 3] {
    let pools = facts.types.iter().map(|sold| sold.zones.len()).sum();
    [("instance types", facts.types.len()), ("zones", facts.zones.len()), ("offerings", pools)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(types: usize) -> Listing {
        let name = |n: usize| format!("m{n}.large");
        let facts = |n| TypeFacts { name: name(n), vcpus: 2, memory_mib: 8192, ..TypeFacts::default() };
        let zone = Zone { name: "us-west-2a".into(), ..Zone::default() };
        Listing {
            types: (0..types).map(facts).collect(),
            offered: (0..types).map(|n| (name(n), BTreeSet::from(["us-west-2a".to_owned()]))).collect(),
            zones: vec![zone],
        }
    }

    #[test]
    fn an_empty_or_half_gone_listing_never_replaces_a_full_one() {
        let (full, _) = accept(None, answer(10)).unwrap();
        assert!(accept(Some(&full), answer(5)).is_ok());
        let refused = accept(Some(&full), answer(4)).unwrap_err();
        assert_eq!(refused, Refused::Shrunk { what: "instance types", before: 10, now: 4 });
        assert_eq!(accept(None, answer(0)), Err(Refused::Empty("instance types")));
        let nowhere = Listing { offered: BTreeMap::new(), ..answer(10) };
        assert_eq!(accept(None, nowhere), Err(Refused::Empty("offerings")));
        let zoneless = Listing { zones: Vec::new(), ..answer(10) };
        assert_eq!(accept(None, zoneless), Err(Refused::Empty("zones")));
    }

    #[test]
    fn entries_that_no_instance_type_can_be_are_left_out_and_counted() {
        let mut odd = answer(3);
        odd.types[0].vcpus = 0;
        odd.types[1].name.clear();
        let (kept, left_out) = accept(None, odd).unwrap();
        assert_eq!((kept.types.len(), left_out), (1, 2));
    }

    #[test]
    fn types_that_did_not_change_are_shared_with_the_answer_before() {
        let (before, _) = accept(None, answer(2)).unwrap();
        let mut next = answer(2);
        next.types[1].vcpus = 4;
        let (after, _) = accept(Some(&before), next).unwrap();
        assert!(Arc::ptr_eq(&before.types[0].facts, &after.types[0].facts));
        assert_eq!(after.types[1].facts.vcpus, 4);
        assert_eq!(after.types[0].zones, [0]);
    }
}
