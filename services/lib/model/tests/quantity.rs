//! Quantities against figures recorded from the implementation that Kubernetes itself uses.

use model::quantity::{Format, ParseError, Quantity};

const RECORDED: &str = include_str!("data/quantities.tsv");

fn figure(text: &str) -> i64 {
    match text {
        "max" => i64::MAX,
        "min" => i64::MIN,
        number => number.parse().expect("a recorded figure"),
    }
}

fn notation(name: &str) -> Format {
    match name {
        "DecimalSI" => Format::DecimalSi,
        "BinarySI" => Format::BinarySi,
        "DecimalExponent" => Format::DecimalExponent,
        other => panic!("unknown notation {other:?} in the recorded figures"),
    }
}

fn rows() -> Vec<[&'static str; 6]> {
    let rows: Vec<_> = RECORDED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| <[&str; 6]>::try_from(line.split('\t').collect::<Vec<_>>()).expect("six columns"))
        .collect();
    assert!(rows.len() > 300, "only {} recorded figures", rows.len());
    rows
}

#[test]
fn every_recorded_text_is_read_printed_and_rounded_as_upstream_does() {
    for [input, outcome, canonical, format, milli, value] in rows() {
        let read = input.parse::<Quantity>();
        let expected_error = match outcome {
            "ok" => None,
            "shape" => Some(ParseError::Shape),
            "number" => Some(ParseError::Number),
            "suffix" => Some(ParseError::Suffix),
            other => panic!("unknown outcome {other:?} in the recorded figures"),
        };
        let quantity = match (read, expected_error) {
            (Err(error), Some(expected)) => {
                assert_eq!(error, expected, "{input:?}");
                continue;
            }
            (Ok(quantity), None) => quantity,
            (read, expected) => panic!("{input:?} gave {read:?}, upstream {expected:?}"),
        };
        assert_eq!(quantity.to_string(), canonical, "canonical text of {input:?}");
        assert_eq!(quantity.format(), notation(format), "notation of {input:?}");
        assert_eq!(quantity.milli_ceil(), figure(milli), "milli-units of {input:?}");
        assert_eq!(quantity.value_ceil(), figure(value), "units of {input:?}");
    }
}

#[test]
fn recorded_quantities_sort_like_their_canonical_selves() {
    let mut all: Vec<Quantity> = rows().iter().filter_map(|row| row[0].parse().ok()).collect();
    all.sort();
    let again: Vec<Quantity> = all.iter().map(|q| q.to_string().parse().unwrap()).collect();
    assert_eq!(all, again);
    assert!(again.is_sorted());
}

#[test]
fn values_beyond_the_limit_are_held_there_and_keep_their_sign() {
    let limit: Quantity = "1e29".parse().unwrap();
    for text in
        ["1e30", "1e38", "1e2147483647", "9223372036854775807E", "999999999999999999999999999999999999999999"]
    {
        assert_eq!(text.parse::<Quantity>(), Ok(limit), "{text}");
        assert_eq!(format!("-{text}").parse::<Quantity>(), Ok(-limit), "-{text}");
    }
    assert_eq!(limit + limit, limit);
    assert_eq!(-limit - limit, -limit);
}

#[test]
fn beyond_the_largest_suffix_the_number_grows() {
    assert_eq!("1000E".parse::<Quantity>().unwrap().to_string(), "1000E");
    let ei: Quantity = "7Ei".parse().unwrap();
    assert_eq!(ei.saturating_mul(1024).to_string(), "7168Ei");
}

#[test]
fn equality_and_hash_ignore_the_notation() {
    use std::collections::BTreeSet;
    let spellings = ["1Gi", "1024Mi", "1073741824", "1073741824000m", "1073.741824e6"];
    let values: BTreeSet<Quantity> = spellings.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(values.len(), 1);
}

#[test]
fn a_zero_takes_over_the_notation_of_what_is_added() {
    let gi: Quantity = "1Gi".parse().unwrap();
    assert_eq!((Quantity::ZERO + gi).to_string(), "1Gi");
    assert_eq!((Quantity::ZERO - gi).to_string(), "-1Gi");
    assert_eq!(("1k".parse::<Quantity>().unwrap() + gi).to_string(), "1073742824");
    assert_eq!((gi + "1k".parse().unwrap()).to_string(), "1073742824");
}

#[test]
fn capacity_is_read_cautiously_and_demand_generously() {
    let q: Quantity = "1.5005".parse().unwrap();
    assert_eq!((q.milli_floor(), q.milli_ceil()), (1500, 1501));
    assert_eq!((q.value_floor(), q.value_ceil()), (1, 2));
    assert_eq!(((-q).milli_floor(), (-q).value_floor()), (-1501, -2));
}

#[test]
fn json_strings_and_numbers_are_read_and_strings_are_written() {
    for (json, canonical) in [
        ("\"500m\"", "500m"),
        ("\" 2Gi \"", "2Gi"),
        ("4", "4"),
        ("-3", "-3"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        ("18446744073709551615", "18446744073709551615"),
        ("null", "0"),
    ] {
        let q: Quantity = serde_json::from_str(json).unwrap();
        assert_eq!(q.to_string(), canonical, "{json}");
        assert_eq!(serde_json::to_string(&q).unwrap(), format!("\"{canonical}\""));
    }
}

#[test]
fn a_bad_quantity_in_json_is_refused_with_its_text() {
    let error = serde_json::from_str::<Quantity>("\"12 GB\"").unwrap_err().to_string();
    assert!(error.contains("\"12 GB\""), "{error}");
    for json in ["true", "[]", "{}", "\"\"", "\"1GB\""] {
        assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
    }
}
