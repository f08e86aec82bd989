//! Laws of requirement sets over generated sets.

use proptest::prelude::*;

use super::Requirements;
use crate::labels;
use crate::requirement::{Operator, Requirement};

const KEYS: [&str; 4] = [labels::ZONE, labels::CAPACITY_TYPE, "example.com/team", "tier"];

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = proptest::collection::vec("[a-c1-3]", 0..3);
    (0..KEYS.len(), 0..Operator::ALL.len(), values, 0_i64..4).prop_map(|(key, operator, values, bound)| {
        let operator = Operator::ALL[operator];
        let values = if operator.is_bound() { vec![bound.to_string()] } else { values };
        Requirement::new(KEYS[key], operator, values, None)
    })
}

fn requirements() -> impl Strategy<Value = Requirements> {
    proptest::collection::vec(requirement(), 0..5).prop_map(|list| list.into_iter().collect())
}

proptest! {
    #[test]
    fn order_of_adding_does_not_matter_to_what_is_allowed(mut list in proptest::collection::vec(requirement(), 0..5), value in "[a-c1-3]") {
        let forward: Requirements = list.iter().cloned().collect();
        list.reverse();
        let backward: Requirements = list.into_iter().collect();
        prop_assert!(forward.keys().eq(backward.keys()));
        for (a, b) in forward.iter().zip(&backward) {
            prop_assert_eq!(a.contains(&value), b.contains(&value));
        }
    }

    #[test]
    fn intersects_is_symmetric(a in requirements(), b in requirements()) {
        prop_assert_eq!(a.intersects(&b).is_ok(), b.intersects(&a).is_ok());
    }

    #[test]
    fn the_quick_answer_equals_the_one_with_a_reason(a in requirements(), b in requirements()) {
        prop_assert_eq!(a.overlaps(&b), a.intersects(&b).is_ok());
        prop_assert_eq!(a.is_compatible(&b, &labels::is_well_known), a.compatible(&b, &labels::is_well_known).is_ok());
        prop_assert_eq!(a.is_compatible(&b, &|_| false), a.compatible(&b, &|_| false).is_ok());
    }

    #[test]
    fn strict_compatibility_implies_compatibility_with_undefined_labels(a in requirements(), b in requirements()) {
        prop_assert!(a.compatible(&b, &|_| false).is_err() || a.compatible(&b, &labels::is_well_known).is_ok());
    }

    /// Asking for less is never refused: every subset of accepted requests is accepted.
    #[test]
    fn compatibility_is_monotone_in_what_is_asked(a in requirements(), b in requirements(), drop in 0..KEYS.len()) {
        let mut less = b.clone();
        less.remove(KEYS[drop]);
        for allow in [&labels::is_well_known as &dyn Fn(&str) -> bool, &|_| false] {
            prop_assert!(!a.is_compatible(&b, allow) || a.is_compatible(&less, allow));
        }
    }

    /// What is accepted by a set is accepted by one that forbids less on a defined label.
    #[test]
    fn compatibility_is_monotone_in_what_is_offered(a in requirements(), b in requirements(), widen in 0..KEYS.len()) {
        let mut wider = a.clone();
        if let Some(narrow) = a.get(KEYS[widen]).filter(|narrow| !narrow.allows_absence()) {
            wider.replace(Requirement::exists(narrow.key()));
        }
        // Exists meets every request that allows some value; a request for absence is met by absence only.
        let wants_absence = b.get(KEYS[widen]).is_some_and(Requirement::is_empty);
        prop_assert!(wants_absence || !a.is_compatible(&b, &|_| false) || wider.is_compatible(&b, &|_| false));
    }

    #[test]
    fn labels_satisfy_the_requirements_they_came_from(a in requirements()) {
        for (key, value) in a.labels() {
            prop_assert!(a.get(&key).is_some_and(|r| r.contains(&value)));
        }
    }

    #[test]
    fn node_labels_are_accepted_iff_each_is_contained(value in "[a-c1-3]", b in requirements()) {
        let node = Requirements::from_labels(KEYS.map(|key| (key, value.clone())));
        let expected = b.iter().all(|asked| asked.contains(&value));
        prop_assert_eq!(node.is_compatible(&b, &|_| false), expected);
    }
}
