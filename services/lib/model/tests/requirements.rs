//! Sets of requirements: the recorded compatibility matrix, suggestions, conversion.

use std::collections::BTreeMap;

use model::labels;
use model::requirement::{Entry, Operator, Requirement};
use model::requirements::{Incompatible, Requirements};

const RECORDED: &str = include_str!("data/requirements.tsv");

/// `none` is a set without the key.
fn set(text: &str) -> Requirements {
    let mut words = text.split(' ');
    match words.next().expect("split gives a first word") {
        "none" => Requirements::new(),
        operator => {
            Requirement::new(labels::ZONE, operator.parse().expect("a recorded operator"), words, None)
                .into_set()
        }
    }
}

trait IntoSet {
    fn into_set(self) -> Requirements;
}

impl IntoSet for Requirement {
    fn into_set(self) -> Requirements {
        [self].into_iter().collect()
    }
}

// Cases: SCH-I.2-2, SCH-I.2-3
#[test]
fn every_recorded_pair_is_compatible_as_in_the_reference() {
    let mut count = 0;
    for line in RECORDED.lines().filter_map(|line| line.strip_prefix("two\t")) {
        let row: Vec<&str> = line.split('\t').collect();
        let (existing, incoming) = (set(row[0]), set(row[1]));
        let with_undefined = existing.compatible(&incoming, &labels::is_well_known).is_ok();
        assert_eq!(
            with_undefined,
            row[4] == "yes",
            "{} accepts {}, well-known may be undefined",
            row[0],
            row[1]
        );
        let strictly = existing.compatible(&incoming, &|_| false).is_ok();
        assert_eq!(strictly, row[5] == "yes", "{} accepts {} strictly", row[0], row[1]);
        count += 1;
    }
    assert!(count >= 15 * 15, "only {count} recorded pairs");
}

// Cases: SCH-I.2-3
#[test]
fn strictly_a_set_without_the_key_accepts_only_what_allows_its_absence() {
    let none = Requirements::new();
    for (text, accepted) in [
        ("none", true),
        ("DoesNotExist", true),
        ("NotIn A", true),
        ("Exists", false),
        ("In A", false),
        ("Gt 1", false),
    ] {
        assert_eq!(none.is_compatible(&set(text), &|_| false), accepted, "{text}");
        assert!(none.is_compatible(&set(text), &labels::is_well_known), "{text}");
    }
}

fn error_for(key: &str, existing: &Requirements) -> String {
    existing
        .compatible(&Requirement::exists(key).into_set(), &labels::is_well_known)
        .expect_err("an unknown label")
        .to_string()
}

// Cases: SCH-I.2-4, SCH-I.2-5
#[test]
fn truncated_and_misspelt_keys_get_a_suggestion() {
    for (key, meant) in [
        ("zone", "topology.kubernetes.io/zone"),
        ("region", "topology.kubernetes.io/region"),
        ("nodepool", "karpenter.sh/nodepool"),
        ("instance-type", "node.kubernetes.io/instance-type"),
        ("arch", "kubernetes.io/arch"),
        ("capacity-type", "karpenter.sh/capacity-type"),
        ("topology.kubernetesio/zone", "topology.kubernetes.io/zone"),
        ("node.io/zone", "topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/regio", "topology.kubernetes.io/region"),
        ("node.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("karpenter/nodepool", "karpenter.sh/nodepool"),
        ("instance-cpu", "karpenter.k8s.aws/instance-cpu"),
    ] {
        let expected = format!("label \"{key}\" does not have known values (typo of \"{meant}\"?)");
        assert_eq!(error_for(key, &Requirements::new()), expected);
    }
}

// Cases: SCH-I.2-6
#[test]
fn unknown_keys_get_no_suggestion() {
    for key in ["deployment", "example.com/unheard-of", "team"] {
        assert_eq!(
            error_for(key, &Requirements::new()),
            format!("label \"{key}\" does not have known values")
        );
    }
}

#[test]
fn keys_that_exist_are_suggested_after_the_well_known_ones() {
    let existing = Requirements::from_labels([("example.com/team", "a")]);
    assert!(error_for("team", &existing).ends_with("(typo of \"example.com/team\"?)"));
    assert!(error_for("example.org/team", &existing).ends_with("(typo of \"example.com/team\"?)"));
    let strict = existing.compatible(&Requirement::exists("zone").into_set(), &|_| false).unwrap_err();
    assert_eq!(strict, Incompatible::Undefined { key: "zone".to_owned(), suggestion: None });
}

#[test]
fn a_conflict_names_the_key_and_both_sides() {
    let pool = Requirements::new()
        .with(Requirement::one_of(labels::ZONE, ["us-east-1a", "us-east-1b"]))
        .with(Requirement::is(labels::ARCH, "amd64"));
    let pod = Requirements::from_labels([(labels::ZONE, "us-west-2a"), (labels::ARCH, "arm64")]);
    let error = pool.compatible(&pod, &labels::is_well_known).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key kubernetes.io/arch, kubernetes.io/arch In [arm64] not in kubernetes.io/arch In [amd64]; \
         key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [us-west-2a] not in \
         topology.kubernetes.io/zone In [us-east-1a us-east-1b]"
    );
    assert_eq!(error.key(), labels::ARCH);
}

#[test]
fn both_sides_keep_their_place_whichever_set_is_larger() {
    let few = Requirements::from_labels([("tier", "a")]);
    let many = Requirements::from_labels([("tier", "b"), ("team", "x"), ("size", "1")]);
    for (existing, incoming) in [(&few, &many), (&many, &few)] {
        let Err(Incompatible::Conflicts(conflicts)) = existing.intersects(incoming) else {
            panic!("no conflict")
        };
        assert_eq!(Some(&conflicts[0].existing), existing.get("tier"));
        assert_eq!(Some(&conflicts[0].incoming), incoming.get("tier"));
    }
}

// Cases: SCH-I.2-1
#[test]
fn aliased_labels_are_one_key() {
    for (alias, canonical) in labels::ALIASES {
        let old = Requirements::from_labels([(alias, "x")]);
        let new = Requirements::from_labels([(canonical, "x")]);
        assert_eq!(old, new);
        assert!(old.get(alias).is_some() && old.contains_key(canonical));
        assert!(new.is_compatible(&old, &|_| false));
    }
    let crossed = Requirements::from_entries(&[
        Entry::new("failure-domain.beta.kubernetes.io/zone", Operator::In, ["a", "b"]),
        Entry::new(labels::ZONE, Operator::In, ["b", "c"]),
    ]);
    assert_eq!(crossed.get(labels::ZONE).and_then(Requirement::single), Some("b"));
}

#[test]
fn several_entries_on_one_key_are_intersected() {
    let set = Requirements::from_entries(&[
        Entry::new("size", Operator::Gt, ["1"]),
        Entry::new("size", Operator::NotIn, ["3"]),
        Entry::new("size", Operator::In, ["1", "2", "3", "4"]),
    ]);
    assert_eq!(set.to_string(), "size In [2 4]");
    assert_eq!(set.len(), 1);
}

#[test]
fn an_undefined_key_behaves_as_exists() {
    let none = Requirements::new();
    assert_eq!(none.get("tier"), None);
    assert_eq!(none.get_or_exists("tier"), Requirement::exists("tier"));
}

// Cases: SCH-I.2-7, SCH-I.2-8, SCH-I.2-9
#[test]
fn entries_are_written_in_order_of_the_keys() {
    let mut entries = vec![
        Entry::new("tier", Operator::Lt, ["9"]),
        Entry::new("arch", Operator::In, ["b", "a"]),
        Entry::new("tier", Operator::Gt, ["1"]),
        Entry::new("gone", Operator::DoesNotExist, [""; 0]),
        Entry::new("other", Operator::NotIn, ["x"]),
    ];
    entries[0].min_values = Some(4);
    let set = Requirements::from_entries(&entries);
    let written: Vec<String> = set
        .to_entries()
        .iter()
        .map(|e| format!("{} {} {:?} {:?}", e.key, e.operator, e.values, e.min_values))
        .collect();
    assert_eq!(
        written,
        [
            "arch In [\"a\", \"b\"] None",
            "gone DoesNotExist [] None",
            "other NotIn [\"x\"] None",
            "tier Gte [\"2\"] Some(4)",
            "tier Lte [\"8\"] Some(4)",
        ]
    );
    assert_eq!(Requirements::from_entries(&set.to_entries()), set);
}

// Cases: SCH-I.2-10
#[test]
fn the_printed_order_is_stable() {
    let forward = Requirements::from_labels([("b", "2"), ("a", "1"), ("c", "3")]);
    let backward = Requirements::from_labels([("c", "3"), ("a", "1"), ("b", "2")]);
    assert_eq!(forward.to_string(), "a In [1], b In [2], c In [3]");
    assert_eq!(forward.to_string(), backward.to_string());
}

#[test]
fn decided_labels_are_those_with_one_value() {
    let set = Requirements::new()
        .with(Requirement::is("one", "1"))
        .with(Requirement::one_of("two", ["1", "2"]))
        .with(Requirement::exists("any"))
        .with(Requirement::none_of("not", ["1"]))
        .with(Requirement::does_not_exist("gone"));
    assert_eq!(set.labels(), BTreeMap::from([("one".to_owned(), "1".to_owned())]));
}

#[test]
fn keys_with_min_values_are_listed() {
    let set = Requirements::new()
        .with(Requirement::new("family", Operator::Exists, [""; 0], Some(5)))
        .with(Requirement::is("tier", "a"));
    assert_eq!(set.min_values().collect::<Vec<_>>(), [("family", 5)]);
    assert!(set.has_min_values());
    assert!(!Requirements::from_labels([("tier", "a")]).has_min_values());
}
