//! One requirement: the recorded tables of the reference, bounds, printing, writing back, and validation.

use model::labels;
use model::requirement::{Entry, Invalid, Operator, Requirement, validate};

const RECORDED: &str = include_str!("data/requirements.tsv");
const KEY: &str = labels::ZONE;

/// `Gt 1`, `In A B`, `Exists`.
fn parse(text: &str, min_values: Option<u32>) -> Requirement {
    let mut words = text.split(' ');
    let operator: Operator = words.next().expect("a first word").parse().expect("an operator");
    Requirement::new(KEY, operator, words, min_values)
}

fn shown(requirement: &Requirement) -> String {
    let text = requirement.to_string();
    text.strip_prefix(KEY).expect("printed with its key").trim_start().to_owned()
}

fn rows(kind: &str) -> Vec<Vec<&'static str>> {
    RECORDED
        .lines()
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix('\t'))
        .map(|line| line.split('\t').collect())
        .collect()
}

/// Existing, incoming, intersection, overlap; without the rows that have no requirement on one side.
fn pairs() -> Vec<Vec<&'static str>> {
    let pairs: Vec<_> = rows("two").into_iter().filter(|row| row[0] != "none" && row[1] != "none").collect();
    assert!(pairs.len() >= 196, "only {} recorded pairs", pairs.len());
    pairs
}

// Cases: SCH-I.1-5, SCH-I.1-6, SCH-I.1-7, SCH-I.1-9, SCH-I.1-10
#[test]
fn every_recorded_requirement_has_the_reference_s_form() {
    let recorded = rows("one");
    assert!(recorded.len() >= 14);
    for row in recorded {
        let [text, printed, operator, len, members, entries] = row[..] else { panic!("{row:?}") };
        let requirement = parse(text, None);
        assert_eq!(shown(&requirement), printed, "printing {text}");
        assert_eq!(requirement.operator().as_str(), operator, "operator of {text}");
        assert_eq!(requirement.len().to_string(), len, "length of {text}");
        let contained: Vec<&str> = ["A", "B", "0", "1", "2", "9", "-1", "x1"]
            .into_iter()
            .filter(|value| requirement.contains(value))
            .collect();
        assert_eq!(contained.join(" "), members, "members of {text}");
        let written: Vec<String> = requirement
            .to_entries()
            .iter()
            .map(|entry| format!("{} {}", entry.operator, entry.values.join(" ")).trim_end().to_owned())
            .collect();
        assert_eq!(written.join("; "), entries, "entries of {text}");
    }
}

// Cases: SCH-I.1-2
#[test]
fn every_recorded_pair_intersects_as_in_the_reference() {
    for row in pairs() {
        let (a, b) = (parse(row[0], None), parse(row[1], None));
        assert_eq!(shown(&a.intersect(&b)), row[2], "{} and {}", row[0], row[1]);
        assert_eq!(a.overlaps(&b), row[3] == "yes", "{} and {}", row[0], row[1]);
    }
}

// Cases: SCH-D-31, SCH-D-32, SCH-D-35, SCH-I.1-3, SCH-I.1-4
#[test]
fn the_larger_min_values_survives_every_intersection() {
    for row in pairs() {
        for (left, right, expected) in
            [(Some(3), None, 3), (None, Some(3), 3), (Some(2), Some(4), 4), (Some(4), Some(2), 4)]
        {
            let both = parse(row[0], left).intersect(&parse(row[1], right));
            assert_eq!(both.min_values(), Some(expected), "{} and {}", row[0], row[1]);
            assert_eq!(shown(&both), format!("{} minValues {expected}", row[2]));
        }
    }
}

// Cases: SCH-I.1-10
#[test]
fn entries_carry_min_values_each() {
    for row in rows("one") {
        let requirement = parse(row[0], Some(2));
        assert!(requirement.to_entries().iter().all(|entry| entry.min_values == Some(2)), "{}", row[0]);
    }
    let between = parse("Gte 2", Some(3)).intersect(&parse("Lte 8", None));
    let written = serde_json::to_string(&between.to_entries()).unwrap();
    let expected = format!(
        r#"[{{"key":"{KEY}","operator":"Gte","values":["2"],"minValues":3}},{{"key":"{KEY}","operator":"Lte","values":["8"],"minValues":3}}]"#
    );
    assert_eq!(written, expected);
}

#[test]
fn exclusions_within_bounds_are_lost_when_written() {
    let both = parse("NotIn 3", None).intersect(&parse("Gt 1", None));
    assert!(!both.contains("3") && both.contains("2"));
    assert_eq!(both.to_entries(), [Entry::new(KEY, Operator::Gte, ["2"])]);
}

// Cases: SCH-I.1-11, SCH-I.1-12, SCH-I.1-13
#[test]
fn bounds_are_inclusive_and_refuse_what_is_no_integer() {
    let least = parse("Gte 5", None);
    assert!(!least.contains("4") && least.contains("5") && least.contains("6"));
    let most = parse("Lte 5", None);
    assert!(most.contains("4") && most.contains("5") && !most.contains("6"));
    let between = least.intersect(&most);
    assert!(between.contains("5") && !between.contains("4") && !between.contains("6"));
    for text in ["", "five", "5.0", "5 ", "99999999999999999999"] {
        assert!(!least.contains(text) && !most.contains(text), "{text:?}");
    }
}

// Cases: SCH-I.1-14
#[test]
fn exclusive_bounds_equal_the_inclusive_ones_beside_them() {
    assert_eq!(parse("Gte 2", None), parse("Gt 1", None));
    assert_eq!(parse("Lte 8", None), parse("Lt 9", None));
}

// Cases: SCH-I.1-9, SCH-I.1-15, SCH-I.1-16, SCH-I.1-17, SCH-I.1-18, SCH-I.1-19
#[test]
fn of_several_bounds_the_strictest_stays() {
    for (a, b, expected) in [
        ("Gte 2", "Gte 2", "Exists >=2"),
        ("Gt 5", "Gte 3", "Exists >=6"),
        ("Gt 2", "Gte 9", "Exists >=9"),
        ("Lt 3", "Lte 8", "Exists <=2"),
        ("Lt 9", "Lte 3", "Exists <=3"),
        ("Gte 2", "Lte 8", "Exists >=2 <=8"),
        ("Gte 9", "Lte 8", "DoesNotExist"),
        ("Gt 8", "Lt 9", "DoesNotExist"),
        ("Gte 8", "Lte 8", "Exists >=8 <=8"),
    ] {
        assert_eq!(shown(&parse(a, None).intersect(&parse(b, None))), expected, "{a} and {b}");
        assert_eq!(shown(&parse(b, None).intersect(&parse(a, None))), expected, "{b} and {a}");
    }
}

// Cases: SCH-I.1-20, SCH-I.1-21
#[test]
fn zero_is_a_bound_like_any_other() {
    let least = parse("Gte 0", None);
    assert!(least.contains("0") && least.contains("1") && !least.contains("-1"));
    let most = parse("Lte 0", None);
    assert!(most.contains("0") && most.contains("-1") && !most.contains("1"));
}

// Cases: SCH-I.1-24
#[test]
fn a_bound_beyond_the_integers_matches_nothing() {
    assert_eq!(shown(&parse("Gt 9223372036854775807", None)), "DoesNotExist");
    assert_eq!(shown(&parse("Lt -9223372036854775808", None)), "DoesNotExist");
    assert!(parse("Gte 9223372036854775807", None).contains("9223372036854775807"));
}

#[test]
fn a_bound_without_an_integer_matches_nothing() {
    for values in [vec![], vec!["many"]] {
        assert!(Requirement::new(KEY, Operator::Gt, values, None).is_empty());
    }
}

// Cases: SCH-I.1-8, SCH-I.1-22, SCH-I.1-23
#[test]
fn any_is_an_allowed_value() {
    for (text, expected) in [
        ("In B A", Some("A")),
        ("NotIn 1 2", Some("0")),
        ("NotIn 0 1", Some("2")),
        ("Exists", Some("0")),
        ("DoesNotExist", None),
        ("Gt 1", Some("2")),
        ("Lt 1", Some("0")),
        ("Lt 9", Some("0")),
        ("Gte 7", Some("7")),
        ("Lte 7", Some("0")),
        ("Lt 0", Some("-1")),
    ] {
        assert_eq!(parse(text, None).any().as_deref(), expected, "{text}");
    }
    let excluded = parse("NotIn 3", None).intersect(&parse("Gte 3", None)).intersect(&parse("Lte 3", None));
    assert_eq!(excluded.any(), None);
}

#[test]
fn long_lists_are_cut_when_printed() {
    let many = Requirement::one_of("k", ["g", "f", "e", "d", "c", "b", "a"]);
    assert_eq!(many.to_string(), "k In [a b c d e and 2 others]");
    let min = Requirement::new("k", Operator::In, ["a"], Some(1));
    assert_eq!(min.to_string(), "k In [a] minValues 1");
}

// Cases: SCH-I.1-1
#[test]
fn aliases_become_the_stable_key() {
    for (alias, canonical) in labels::ALIASES {
        assert_eq!(Requirement::exists(alias).key(), canonical);
        assert_eq!(Requirement::from(&Entry::new(alias, Operator::In, ["x"])).key(), canonical);
    }
}

fn check(entry: Entry) -> Result<(), Invalid> {
    validate(&entry)
}

fn with_min_values(mut entry: Entry, min_values: u32) -> Entry {
    entry.min_values = Some(min_values);
    entry
}

// Cases: SCH-A.5-3, SCH-A.5-4
#[test]
fn requirements_a_user_may_write_are_accepted() {
    for entry in [
        Entry::new("team", Operator::In, ["a"]),
        Entry::new("example.com/team", Operator::NotIn, ["a", "b"]),
        Entry::new("example.com/team", Operator::NotIn, [""; 0]),
        Entry::new(labels::ZONE, Operator::Exists, [""; 0]),
        Entry::new(labels::ZONE, Operator::DoesNotExist, ["ignored"]),
        Entry::new(labels::INSTANCE_CPU, Operator::Gt, ["0"]),
        Entry::new(labels::INSTANCE_CPU, Operator::Lte, ["128"]),
        Entry::new(labels::CAPACITY_TYPE, Operator::In, ["spot", "on-demand"]),
        Entry::new(labels::CAPACITY_TYPE, Operator::In, ["spot", "unheard-of"]),
        Entry::new(labels::CAPACITY_TYPE, Operator::NotIn, ["unheard-of"]),
        Entry::new("beta.kubernetes.io/arch", Operator::In, ["amd64"]),
        Entry::new("kubernetes.io/anything", Operator::Exists, [""; 0]),
        Entry::new("team", Operator::In, [""]),
        with_min_values(Entry::new("team", Operator::In, ["a", "b"]), 2),
        with_min_values(Entry::new("team", Operator::Exists, [""; 0]), 50),
    ] {
        assert_eq!(check(entry.clone()), Ok(()), "{entry:?}");
    }
}

#[test]
fn requirements_that_cannot_hold_are_refused_with_their_reason() {
    let long = "x".repeat(64);
    let prefix = format!("{}.com/x", "a".repeat(250));
    for (entry, reason) in [
        (Entry::new(labels::HOSTNAME, Operator::In, ["a"]), "restricted"),
        (Entry::new("karpenter.sh/registered", Operator::Exists, [""; 0]), "restricted"),
        (Entry::new(labels::EC2NODECLASS, Operator::In, ["a"]), "restricted"),
        (Entry::new(labels::CAPACITY_TYPE, Operator::In, ["cheap"]), "none of the values"),
        (Entry::new(labels::INSTANCE_TENANCY, Operator::In, ["host"]), "none of the values"),
        (
            with_min_values(Entry::new(labels::CAPACITY_TYPE, Operator::In, ["spot", "cheap"]), 2),
            "1 known values",
        ),
        (Entry::new("", Operator::Exists, [""; 0]), "no label key"),
        (Entry::new("a/b/c", Operator::Exists, [""; 0]), "no label key"),
        (Entry::new("/a", Operator::Exists, [""; 0]), "prefix is empty"),
        (Entry::new("Upper.com/a", Operator::Exists, [""; 0]), "lower case"),
        (Entry::new("-a", Operator::Exists, [""; 0]), "both ends"),
        (Entry::new(long.clone(), Operator::Exists, [""; 0]), "63"),
        (Entry::new(prefix, Operator::Exists, [""; 0]), "253"),
        (Entry::new("team", Operator::In, [long.as_str()]), "63"),
        (Entry::new("team", Operator::In, ["a b"]), "no label value"),
        (Entry::new("team", Operator::In, [""; 0]), "at least one value"),
        (with_min_values(Entry::new("team", Operator::In, ["a"]), 2), "1 values are listed"),
        (Entry::new("size", Operator::Gt, [""; 0]), "one integer"),
        (Entry::new("size", Operator::Gt, ["1", "2"]), "one integer"),
        (Entry::new("size", Operator::Lt, ["many"]), "one integer"),
        (Entry::new("size", Operator::Gte, ["99999999999999999999"]), "one integer"),
    ] {
        let error = check(entry.clone()).expect_err(&format!("{entry:?}")).to_string();
        assert!(error.contains(reason), "{entry:?}: {error}");
    }
    // A minus sign is no label value, so a negative bound falls there.
    assert!(check(Entry::new("size", Operator::Lte, ["-1"])).is_err());
}
