use super::*;
use crate::message::parse;

fn at(text: &str) -> Timestamp {
    format!("2026-11-16T{text}Z").parse().unwrap()
}

fn claim() -> Claim {
    Claim {
        name: "a".into(),
        uid: "1".into(),
        instance: "i-1".into(),
        node: "n".into(),
        nodepool: "default".into(),
        capacity_type: "spot".into(),
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        reservation: "".into(),
        managed: true,
        deleting: false,
        initialized: true,
        deadline: None,
        traceparent: None,
        command: None,
    }
}

const PLAIN: Policy = Policy { drain_on_rebalance: false };

#[test]
fn each_kind_asks_for_what_the_reference_does_with_the_time_that_aws_gives() {
    let now = at("08:00:00");
    let decision = |kind| decide(kind, now, &claim(), PLAIN, true);
    let drain = |deadline| Decision::Drain { deadline };
    assert_eq!(decision(Kind::SpotInterrupted), drain(Some(at("08:02:00"))));
    assert_eq!(decision(Kind::CapacityReservationInterrupted), drain(Some(at("08:02:00"))));
    assert_eq!(decision(Kind::InstanceStopped), drain(Some(now)));
    assert_eq!(decision(Kind::InstanceTerminated), drain(Some(now)));
    assert_eq!(decision(Kind::ScheduledChange), drain(None));
    assert_eq!(decision(Kind::EventStatus), drain(None));
    assert_eq!(decision(Kind::InstanceStatus), Decision::TerminateNow { at: now });
    assert_eq!(decision(Kind::SystemStatus), Decision::TerminateNow { at: now });
    assert!(matches!(decision(Kind::RebalanceRecommendation), Decision::Nothing(_)));
    assert!(matches!(decision(Kind::NoOp), Decision::Nothing(_)));
}

#[test]
fn without_ec2s_word_every_drain_stays_within_budgets() {
    let now = at("08:00:00");
    let deleting = Claim { deleting: true, ..claim() };
    for kind in Kind::ALL {
        let unconfirmed = decide(kind, now, &claim(), PLAIN, false);
        assert!(matches!(unconfirmed, Decision::Nothing(_) | Decision::Drain { deadline: None }), "{kind:?}");
        let again = decide(kind, now, &deleting, PLAIN, false);
        assert!(matches!(again, Decision::Nothing(_)), "{kind:?} hurries a drain");
    }
}

#[test]
fn a_recommendation_is_followed_only_where_the_setting_says_so() {
    let now = at("08:00:00");
    let follow = Policy { drain_on_rebalance: true };
    assert_eq!(decide(Kind::RebalanceRecommendation, now, &claim(), follow, true), Decision::Replace);
    let deleting = Claim { deleting: true, ..claim() };
    let again = decide(Kind::RebalanceRecommendation, now, &deleting, follow, true);
    assert_eq!(again, Decision::Nothing(REMOVED_ALREADY));
}

#[test]
fn a_claim_that_goes_already_is_hurried_by_an_earlier_end_and_left_alone_otherwise() {
    let now = at("08:00:00");
    let going = |deadline: Option<&str>| Claim { deleting: true, deadline: deadline.map(at), ..claim() };
    let judged = |kind, claim: &Claim| decide(kind, now, claim, PLAIN, true);
    let hurried = Decision::Drain { deadline: Some(at("08:02:00")) };
    assert_eq!(judged(Kind::SpotInterrupted, &going(None)), hurried);
    assert_eq!(judged(Kind::SpotInterrupted, &going(Some("09:00:00"))), hurried);
    for early in ["07:00:00", "08:02:00"] {
        assert_eq!(judged(Kind::SpotInterrupted, &going(Some(early))), Decision::Nothing(REMOVED_ALREADY));
    }
    for own_doing in [Kind::InstanceTerminated, Kind::InstanceStopped, Kind::ScheduledChange] {
        assert_eq!(judged(own_doing, &going(None)), Decision::Nothing(REMOVED_ALREADY));
    }
    assert_eq!(judged(Kind::SystemStatus, &going(None)), Decision::TerminateNow { at: now });
}

#[test]
fn a_claim_that_is_not_ours_is_never_ended() {
    let foreign = Claim { managed: false, ..claim() };
    for kind in Kind::ALL {
        assert!(
            matches!(decide(kind, at("08:00:00"), &foreign, PLAIN, true), Decision::Nothing(_)),
            "{kind:?}"
        );
    }
}

#[test]
fn a_pool_is_marked_when_ec2_took_an_instance_back_and_not_when_we_ended_it() {
    let key = |kind, claim: &Claim| shortage(kind, claim).map(|(scope, _)| scope.key());
    let pool = Some("spot:m5.large:us-west-2a".to_owned());
    assert_eq!(key(Kind::SpotInterrupted, &claim()), pool);
    assert_eq!(key(Kind::InstanceTerminated, &claim()), pool);
    let ended_by_us = Claim { deleting: true, ..claim() };
    assert_eq!(key(Kind::InstanceTerminated, &ended_by_us), None);
    assert_eq!(key(Kind::SpotInterrupted, &ended_by_us), pool, "a warning is about the pool, not the claim");
    let on_demand = Claim { capacity_type: "on-demand".into(), ..claim() };
    assert_eq!(key(Kind::InstanceTerminated, &on_demand), None);
    assert_eq!(key(Kind::SpotInterrupted, &Claim { zone: "".into(), ..claim() }), None);
    let reserved = Claim { capacity_type: "reserved".into(), reservation: "cr-1".into(), ..claim() };
    let mark = key(Kind::CapacityReservationInterrupted, &reserved);
    assert_eq!(mark.as_deref(), Some("reservation:cr-1"));
    for quiet in [Kind::RebalanceRecommendation, Kind::ScheduledChange, Kind::InstanceStatus, Kind::NoOp] {
        assert_eq!(key(quiet, &claim()), None, "{quiet:?}");
    }
}

#[test]
fn messages_of_another_region_or_account_are_not_about_our_instances() {
    let message = |account: &str, region: &str| {
        let body = format!(
            r#"{{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","account":"{account}",
               "region":"{region}","detail":{{"instance-id":"i-1"}}}}"#
        );
        parse(&body).unwrap()
    };
    let home = Home { account: "1".into(), region: "us-west-2".into(), also: vec!["3".into()] };
    let refused = |account: &str, region: &str| home.refuses(&message(account, region));
    assert_eq!(refused("1", "us-west-2"), None);
    assert_eq!(refused("3", "us-west-2"), None, "a setting names it");
    for (account, region, reason) in [
        ("1", "eu-west-1", "region"),
        ("3", "eu-west-1", "region"),
        ("1", "", "region"),
        ("2", "us-west-2", "account"),
        ("", "us-west-2", "account"),
    ] {
        let refusal = refused(account, region).unwrap();
        assert_eq!(refusal.reason, reason, "{account:?} {region:?}");
        assert!(refusal.words.contains(if reason == "region" { region } else { account }), "{refusal:?}");
    }
    let unknown = Home { account: String::new(), ..home.clone() };
    assert_eq!(unknown.refuses(&message("2", "us-west-2")), None, "there is nothing to compare with");
    assert_eq!(Home::account_of("arn:aws:sqs:us-west-2:123456789012:demo"), "123456789012");
    assert_eq!(Home::account_of(""), "");
}
