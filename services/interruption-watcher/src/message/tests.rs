use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn envelope(source: &str, detail_type: &str, detail: Value) -> Value {
    json!({
        "version": "0", "id": "8f0b2f14-0000-0000-0000-000000000001", "source": source, "detail-type": detail_type,
        "account": "123456789012", "region": "us-west-2", "time": "2026-11-16T08:00:00Z",
        "resources": ["arn:aws:ec2:us-west-2:123456789012:instance/i-0a1"], "detail": detail,
    })
}

/// One of every kind that asks for something.
fn samples() -> Vec<(Kind, Value)> {
    let health = json!({
        "service": "EC2", "eventTypeCategory": "scheduledChange", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventArn": "arn:aws:health:us-west-2::event/EC2/x", "startTime": "Mon, 16 Nov 2026 10:00:00 GMT",
        "statusCode": "upcoming", "affectedEntities": [{"entityValue": "i-0a1"}],
    });
    let state = |state: &str| json!({"instance-id": "i-0a1", "state": state});
    let warning = json!({"instance-id": "i-0a1", "instance-action": "terminate"});
    let changed = "EC2 Instance State-change Notification";
    vec![
        (Kind::SpotInterrupted, envelope(EC2, "EC2 Spot Instance Interruption Warning", warning.clone())),
        (
            Kind::CapacityReservationInterrupted,
            envelope(EC2, "EC2 Capacity Reservation Instance Interruption Warning", warning),
        ),
        (
            Kind::RebalanceRecommendation,
            envelope(EC2, "EC2 Instance Rebalance Recommendation", json!({"instance-id": "i-0a1"})),
        ),
        (Kind::InstanceStopped, envelope(EC2, changed, state("stopping"))),
        (Kind::InstanceStopped, envelope(EC2, changed, state("Stopped"))),
        (Kind::InstanceTerminated, envelope(EC2, changed, state("shutting-down"))),
        (Kind::InstanceTerminated, envelope(EC2, changed, state("terminated"))),
        (Kind::ScheduledChange, envelope(HEALTH, "AWS Health Event", health)),
    ]
}

#[test]
fn every_kind_of_warning_is_understood() {
    for (kind, body) in samples() {
        let message = parse(&body.to_string()).unwrap();
        assert_eq!(message.kind, kind, "{body}");
        assert_eq!(message.instances, ["i-0a1"], "{body}");
        assert_eq!(message.account, "123456789012");
        assert_eq!(message.region, "us-west-2");
        assert_eq!(message.time, Some("2026-11-16T08:00:00Z".parse().unwrap()));
    }
}

#[test]
fn other_messages_are_nothing_to_act_on_and_say_what_they_are() {
    let health = |detail: Value| envelope(HEALTH, "AWS Health Event", detail).to_string();
    let changed = "EC2 Instance State-change Notification";
    for (body, words) in [
        (String::new(), "empty"),
        (" \n".to_owned(), "empty"),
        ("{}".to_owned(), "source \"\""),
        (envelope("aws.s3", "Object Created", json!({})).to_string(), "aws.s3"),
        (envelope(EC2, changed, json!({"instance-id": "i-1", "state": "running"})).to_string(), "running"),
        (health(json!({"service": "RDS", "eventTypeCategory": "scheduledChange"})), "RDS"),
        (health(json!({"service": "EC2", "eventTypeCategory": "issue"})), "issue"),
        (
            health(json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "statusCode": "closed",
                          "affectedEntities": [{"entityValue": "i-1"}]})),
            "over",
        ),
    ] {
        let message = parse(&body).unwrap();
        assert_eq!(message.kind, Kind::NoOp, "{body}");
        assert!(message.words.contains(words), "{body}: {}", message.words);
    }
    let mut future = samples().swap_remove(0).1;
    future["version"] = json!("1");
    assert_eq!(parse(&future.to_string()).unwrap().kind, Kind::NoOp);
}

#[test]
fn a_health_event_names_each_instance_once_and_no_volumes() {
    let entity = |value: &str| json!({"entityValue": value});
    let entities = ["i-2", "vol-1", "i-1", "i-2", "UNKNOWN", ""].map(entity);
    let detail =
        json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": entities});
    let message = parse(&envelope(HEALTH, "AWS Health Event", detail).to_string()).unwrap();
    assert_eq!((message.kind, message.instances), (Kind::ScheduledChange, vec!["i-1".into(), "i-2".into()]));
}

#[test]
fn a_malformed_body_says_where_the_trouble_is() {
    let spot = |detail: Value| envelope(EC2, "EC2 Spot Instance Interruption Warning", detail);
    let mut without_detail = spot(json!({}));
    without_detail.as_object_mut().unwrap().remove("detail");
    let with = |name: &str, value: Value| {
        let mut body = spot(json!({"instance-id": "i-1"}));
        body[name] = value;
        body
    };
    for (body, words) in [
        (without_detail, "detail: it is missing"),
        (spot(json!({})), "detail.instance-id: it is missing"),
        (spot(json!({"instance-id": 7})), "detail.instance-id: expected a string, found a number"),
        (spot(json!({"instance-id": "node-1"})), "detail.instance-id: \"node-1\" is no instance id"),
        (spot(json!("i-1")), "detail: expected an object, found a string"),
        (with("time", json!("yesterday")), "time: \"yesterday\" is no RFC 3339 time"),
        (with("source", json!([])), "source: expected a string, found an array"),
        (with("resources", json!(["arn", true])), "resources[1]: expected a string, found a boolean"),
        (json!([]), "body: expected an object, found an array"),
    ] {
        assert_eq!(parse(&body.to_string()).unwrap_err().to_string(), words, "{body}");
    }
    let cut = &samples()[0].1.to_string()[..90];
    assert!(parse(cut).unwrap_err().to_string().starts_with("body: no JSON: EOF"), "{cut}");
}

#[test]
fn the_largest_body_of_a_queue_is_read_and_anything_longer_is_not() {
    let mut body = samples().swap_remove(0).1;
    body["detail"]["padding"] = json!("x".repeat(256 * 1024));
    assert_eq!(parse(&body.to_string()).unwrap().kind, Kind::SpotInterrupted);
    let long = format!("\"{}\"", "x".repeat(LONGEST));
    assert!(parse(&long).unwrap_err().to_string().contains("bytes"));
    let deep = "[".repeat(100_000);
    assert!(parse(&deep).unwrap_err().to_string().contains("recursion"));
}

#[test]
fn a_warning_without_time_is_still_a_warning() {
    let mut body = samples().swap_remove(0).1;
    body.as_object_mut().unwrap().remove("time");
    let message = parse(&body.to_string()).unwrap();
    assert_eq!((message.kind, message.time), (Kind::SpotInterrupted, None));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "i-[0-9a-f]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z-]{0,12}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place in a document that can hold something else.
fn paths(value: &Value, here: &str, into: &mut Vec<String>) {
    into.push(here.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| paths(value, &format!("{here}/{key}"), into))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| paths(value, &format!("{here}/{at}"), into));
        }
        _ => {}
    }
}

/// Whatever is said about a body, it is usable: instances are ids, and a kind that acts names some.
fn check(body: &str) {
    if let Ok(message) = parse(body) {
        assert!(message.instances.iter().all(|id| fields::is_instance_id(id)), "{message:?}");
        assert!(message.instances.is_sorted(), "{message:?}");
        if !matches!(message.kind, Kind::NoOp | Kind::ScheduledChange) {
            assert_eq!(message.instances.len(), 1, "{message:?}");
        }
        assert_eq!(parse(body), Ok(message));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_answered(body in any::<String>()) {
        check(&body);
    }

    #[test]
    fn any_json_is_answered(body in any_value()) {
        check(&body.to_string());
    }

    #[test]
    fn any_value_in_any_place_of_a_warning_is_answered(
        which in 0..8_usize, place in any::<prop::sample::Index>(), value in any_value()
    ) {
        let mut body = samples().swap_remove(which).1;
        let mut all = Vec::new();
        paths(&body, "", &mut all);
        if let Some(slot) = body.pointer_mut(place.get(&all).as_str()) {
            *slot = value;
        }
        check(&body.to_string());
    }

    #[test]
    fn a_warning_cut_anywhere_is_malformed(which in 0..8_usize, cut in any::<prop::sample::Index>()) {
        let body = samples().swap_remove(which).1.to_string();
        let cut = &body[..1 + cut.index(body.len() - 1)];
        prop_assert!(parse(cut).is_err(), "{}", cut);
    }

    #[test]
    fn bytes_that_were_overwritten_are_answered(
        which in 0..8_usize, at in any::<prop::sample::Index>(), byte in 0x20_u8..0x7f
    ) {
        let mut bytes = samples().swap_remove(which).1.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check(&String::from_utf8(bytes).unwrap());
    }
}

#[test]
fn kinds_have_the_references_words_and_each_its_own() {
    let words: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), Kind::ALL.len());
    for (kind, body) in samples() {
        assert_ne!(kind, Kind::NoOp, "{body}");
    }
}

#[test]
fn the_end_is_two_minutes_after_a_warning_and_at_once_when_the_instance_goes() {
    let at: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
    let later: Timestamp = "2026-11-16T08:02:00Z".parse().unwrap();
    assert_eq!(Kind::SpotInterrupted.end(at), Some(later));
    assert_eq!(Kind::CapacityReservationInterrupted.end(at), Some(later));
    assert_eq!(Kind::InstanceTerminated.end(at), Some(at));
    for polite in [Kind::ScheduledChange, Kind::EventStatus, Kind::RebalanceRecommendation, Kind::NoOp] {
        assert_eq!(polite.end(at), None);
    }
    assert_eq!(Kind::SpotInterrupted.end(Timestamp::MAX), Some(Timestamp::MAX));
}
