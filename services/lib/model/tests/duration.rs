//! Durations against figures recorded from Go, and the codec that keeps the text a user wrote.

use model::duration::{GoDuration, NillableDuration};

const RECORDED: &str = include_str!("data/durations.tsv");

#[test]
fn every_recorded_text_is_read_and_printed_as_go_does() {
    let mut count = 0;
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let [input, nanos, printed] = <[&str; 3]>::try_from(line.split('\t').collect::<Vec<_>>()).unwrap();
        let read = input.parse::<GoDuration>();
        match nanos {
            "error" => assert!(read.is_err(), "{input:?} gave {read:?}"),
            nanos => {
                let read = read.unwrap();
                assert_eq!(read.nanos(), nanos.parse::<i64>().unwrap(), "{input:?}");
                assert_eq!(read.canonical(), printed, "{input:?}");
                assert_eq!(read.as_str(), input);
            }
        }
        count += 1;
    }
    assert!(count > 100, "only {count} recorded figures");
}

#[test]
fn the_original_text_survives_reading_and_writing() {
    for text in ["1h", "60m", "1h0m0s", "720h", "0s", "90s"] {
        let json = format!("\"{text}\"");
        let plain: GoDuration = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&plain).unwrap(), json);
        let nillable: NillableDuration = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&nillable).unwrap(), json);
    }
}

#[test]
fn never_is_a_value_of_nillable_durations_only() {
    let never: NillableDuration = serde_json::from_str("\"Never\"").unwrap();
    assert_eq!(never, NillableDuration::Never);
    assert_eq!(never.get(), None);
    assert_eq!(serde_json::to_string(&never).unwrap(), "\"Never\"");
    assert_eq!(NillableDuration::default().to_string(), "Never");
    assert!("Never".parse::<GoDuration>().is_err());
    assert!("never".parse::<NillableDuration>().is_err());
}

#[test]
fn different_spellings_of_one_span_are_equal() {
    let hour: GoDuration = "1h".parse().unwrap();
    let minutes: GoDuration = "60m".parse().unwrap();
    assert_eq!(hour, minutes);
    assert!(hour > "59m59s".parse().unwrap());
    assert_eq!(GoDuration::from_secs(3600), hour);
    assert_eq!(GoDuration::from_secs(3600).as_str(), "1h0m0s");
}

#[test]
fn a_negative_span_becomes_zero_in_the_standard_library() {
    let past: GoDuration = "-5m".parse().unwrap();
    assert_eq!(past.to_std(), std::time::Duration::ZERO);
    assert_eq!(past.secs(), -300);
}

#[test]
fn an_error_names_the_text_and_what_is_wrong() {
    let error = "3d".parse::<GoDuration>().unwrap_err().to_string();
    assert!(error.contains("\"3d\"") && error.contains("unit"), "{error}");
}
