//! Laws of the requirement algebra over generated requirements.

use proptest::prelude::*;

use super::{Operator, Requirement};

/// Few values, so that generated requirements meet.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("b".to_owned()), (-1_i64..6).prop_map(|n| n.to_string())]
}

fn simple() -> impl Strategy<Value = Requirement> {
    let min_values = proptest::option::of(1_u32..4);
    (0..Operator::ALL.len(), proptest::collection::vec(value(), 0..4), 0_i64..6, min_values).prop_map(
        |(operator, values, bound, min_values)| {
            let operator = Operator::ALL[operator];
            let values = if operator.is_bound() { vec![bound.to_string()] } else { values };
            Requirement::new("key", operator, values, min_values)
        },
    )
}

/// Also what only intersection can make: exclusions within bounds.
pub(crate) fn requirement() -> impl Strategy<Value = Requirement> {
    prop_oneof![simple(), (simple(), simple()).prop_map(|(a, b)| a.intersect(&b))]
}

proptest! {
    // Cases: SCH-I.1-2
    #[test]
    fn a_value_is_in_both_iff_it_is_in_the_intersection(a in requirement(), b in requirement(), v in value()) {
        prop_assert_eq!(a.intersect(&b).contains(&v), a.contains(&v) && b.contains(&v));
    }

    #[test]
    fn intersection_is_commutative(a in requirement(), b in requirement()) {
        prop_assert_eq!(a.intersect(&b), b.intersect(&a));
    }

    #[test]
    fn intersection_is_associative_in_what_it_allows(a in requirement(), b in requirement(), c in requirement(), v in value()) {
        let left = a.intersect(&b).intersect(&c);
        let right = a.intersect(&b.intersect(&c));
        prop_assert_eq!(left.contains(&v), right.contains(&v));
        prop_assert_eq!(left.min_values(), right.min_values());
        prop_assert_eq!(left.is_empty(), right.is_empty());
    }

    #[test]
    fn intersection_with_itself_changes_nothing(a in requirement()) {
        prop_assert_eq!(a.intersect(&a), a);
    }

    #[test]
    fn exists_allows_every_value_but_not_absence(a in requirement(), v in value()) {
        let both = a.intersect(&Requirement::exists("key"));
        prop_assert_eq!(both.contains(&v), a.contains(&v));
        prop_assert!(!both.allows_absence());
        if !a.allows_absence() {
            prop_assert_eq!(both, a);
        }
    }

    #[test]
    fn a_node_without_the_label_satisfies_both_iff_it_satisfies_the_intersection(a in requirement(), b in requirement()) {
        prop_assert_eq!(a.intersect(&b).allows_absence(), a.allows_absence() && b.allows_absence());
    }

    #[test]
    fn what_nothing_satisfies_came_from_a_contradiction(a in requirement(), b in requirement()) {
        let both = a.intersect(&b);
        prop_assert_eq!(both.is_impossible(), !(a.overlaps(&b) || a.allows_absence() && b.allows_absence()));
    }

    #[test]
    fn does_not_exist_absorbs_everything_but_min_values(a in requirement()) {
        let none = a.intersect(&Requirement::does_not_exist("key"));
        prop_assert!(none.is_empty());
        prop_assert_eq!(none.min_values(), a.min_values());
    }

    #[test]
    fn overlap_says_whether_the_intersection_is_empty(a in requirement(), b in requirement()) {
        prop_assert_eq!(a.overlaps(&b), !a.intersect(&b).is_empty());
        prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
    }

    #[test]
    fn any_gives_an_allowed_value(a in requirement()) {
        match a.any() {
            Some(value) => prop_assert!(a.contains(&value), "{a} does not contain {value}"),
            // All integers between the bounds are excluded, or nothing is allowed.
            None => prop_assert!(a.is_empty() || (a.gte().is_some() && a.lte().is_some())),
        }
    }

    #[test]
    fn written_entries_allow_at_least_what_the_requirement_does(a in requirement(), v in value()) {
        let entries = a.to_entries();
        let read = entries.iter().map(Requirement::from).reduce(|a, b| a.intersect(&b)).expect("at least one entry");
        prop_assert!(read.contains(&v) || !a.contains(&v));
        prop_assert_eq!(read.min_values(), a.min_values());
        // Only exclusions within bounds cannot be written.
        if a.gte().is_none() && a.lte().is_none() || a.values().is_empty() {
            let written = |r: &Requirement| (r.operator(), r.values().clone(), r.gte(), r.lte());
            prop_assert_eq!(written(&read), written(&a));
        }
    }
}
