//! The second look.

use super::*;

fn same(planned: &[&[&str]], fresh: &[&[&str]]) -> bool {
    same_shape(&owned(planned), &owned(fresh)).is_ok()
}

fn owned<'a>(list: &[&[&'a str]]) -> Vec<Vec<&'a str>> {
    list.iter().map(|types| types.to_vec()).collect()
}

// Cases: TTL-2
#[test]
fn a_plan_holds_while_its_nodes_are_still_what_is_needed() {
    assert!(same(&[], &[]));
    assert!(same(&[&["a", "b"]], &[&["a", "b", "c"]]));
    assert!(!same(&[&["a", "b"]], &[&["a"]]), "a planned type would not do any more");
    assert!(!same(&[], &[&["a"]]), "a node is needed where none was planned");
    assert!(!same(&[&["a"]], &[]), "the planned node is not needed any more");
    assert!(!same(&[&["a"]], &[&["a"], &["a"]]));
}

#[test]
fn planned_nodes_are_matched_in_any_order() {
    assert!(same(&[&["a"], &["b"]], &[&["b"], &["a"]]));
    assert!(same(&[&["a"], &["a", "b"]], &[&["a", "b"], &["a"]]));
    assert!(!same(&[&["a"], &["a"]], &[&["a"], &["b"]]));
}

// Cases: TXT-2, TXT-3, TXT-4, TXT-5, TXT-6, TXT-7
#[test]
fn failures_fall_into_the_categories_of_the_reference() {
    let node: Arc<str> = Arc::from("n");
    let cases = [
        (Invalid::Unanswered("timeout".to_owned()), "unknown", false),
        (Invalid::Nominated { node: Arc::clone(&node) }, "budget", true),
        (Invalid::Budget { pool: Arc::from("p") }, "budget", true),
        (Invalid::Scheduling("other nodes".to_owned()), "scheduling", false),
        (Invalid::Churn { node: Arc::clone(&node), by: None }, "churn", true),
        (Invalid::Churn { node, by: Some(Blocked::NotEmpty { pods: 1 }) }, "churn", true),
    ];
    for (invalid, category, counted) in cases {
        assert_eq!((invalid.category(), invalid.is_counted()), (category, counted), "{invalid}");
    }
}
