use model::catalog::LabelMap;
use model::labels;
use model::requirement::{Operator, Requirement};
use model::requirements::Requirements;

use super::super::drift::*;
use super::at;

const OLD: i64 = 2 * 3600;

fn v(value: &'static str) -> Hash<'static> {
    Hash { value: Some(value), version: Some("v3") }
}

fn node_labels() -> LabelMap {
    [
        (labels::INSTANCE_TYPE, "m5.large"),
        (labels::ZONE, "us-east-1a"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::ARCH, "amd64"),
        (labels::INSTANCE_CPU, "2"),
        ("team", "a"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

fn claim(labels: &LabelMap) -> Claim<'_> {
    Claim {
        launched: true,
        created: at(0),
        labels,
        pool_hash: v("1"),
        class_hash: v("1"),
        image: Some("ami-1"),
        subnet: Some("subnet-1"),
        security_groups: Some(["sg-1"].into()),
    }
}

fn class<'a>(images: &'a [Image<'a>]) -> Class<'a> {
    Class {
        hash: v("1"),
        images: Some(images),
        subnets: Some(["subnet-1", "subnet-2"].into()),
        security_groups: Some(["sg-1"].into()),
        reservations: Some(["cr-1"].into()),
        placement_group: Some(None),
    }
}

/// The reason's name; empty when fresh, `?` when nothing can be said.
fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fresh => "",
        Verdict::Drifted(reason, what) => {
            assert!(!what.is_empty());
            reason.as_str()
        }
        Verdict::Unknown(_) => "?",
    }
}

fn judged(
    claim: &Claim<'_>,
    requirements: &Requirements,
    seen: TypeSeen<'_>,
    change: impl Fn(&mut Class<'_>),
) -> &'static str {
    let any = Requirements::default();
    let images = [Image { id: "ami-1", requirements: &any }];
    let mut class = class(&images);
    change(&mut class);
    let pool = Pool { hash: v("1"), requirements };
    reason(verdict(claim, Some(pool), seen, Some(&class), at(OLD)))
}

fn by_class(claim: &Claim<'_>, change: impl Fn(&mut Class<'_>)) -> &'static str {
    judged(claim, &Requirements::default(), TypeSeen::NotAsked, change)
}

fn by_requirement(requirement: Requirement) -> &'static str {
    let own = node_labels();
    judged(&claim(&own), &Requirements::default().with(requirement), TypeSeen::NotAsked, |_| {})
}

#[test]
fn a_claim_that_is_what_would_be_made_today_is_fresh() {
    let own = node_labels();
    assert_eq!(by_class(&claim(&own), |_| {}), "");
}

// Cases: DFT-29, DFT-30, DFT-31, DFT-32
#[test]
fn a_changed_template_drifts_and_hashes_that_cannot_be_compared_do_not() {
    let own = node_labels();
    let none = Requirements::default();
    let judged = |mine: Hash<'static>, theirs: Hash<'static>| {
        let claim = Claim { pool_hash: mine, ..claim(&own) };
        let pool = Pool { hash: theirs, requirements: &none };
        reason(verdict(&claim, Some(pool), TypeSeen::NotAsked, None, at(OLD)))
    };
    assert_eq!(judged(v("1"), v("2")), "NodePoolDrifted");
    assert_eq!(judged(v("1"), v("1")), "");
    assert_eq!(judged(v("1"), Hash { version: Some("v4"), ..v("2") }), "", "another version");
    assert_eq!(judged(Hash { version: None, ..v("1") }, v("2")), "");
    assert_eq!(judged(Hash { value: None, ..v("1") }, v("2")), "");
    assert_eq!(judged(v("1"), Hash { value: None, ..v("2") }), "");
    assert_eq!(judged(Hash { version: None, ..v("1") }, Hash { version: None, ..v("2") }), "");
}

// Cases: DFT-13, DFT-14, DFT-15, DFT-16, DFT-17, DFT-18, DFT-19, DFT-20
#[test]
fn requirements_drift_when_the_labels_do_not_meet_them_any_more() {
    let bound = |operator, value: &str| Requirement::new(labels::INSTANCE_CPU, operator, [value], None);
    let is = |key: &str, values: &[&str]| Requirement::one_of(key, values.iter().copied());
    assert_eq!(by_requirement(is(labels::ZONE, &["us-east-1b"])), "RequirementsDrifted");
    assert_eq!(by_requirement(is(labels::ZONE, &["us-east-1a", "us-east-1b"])), "", "widened");
    assert_eq!(by_requirement(is("rack", &["1"])), "RequirementsDrifted", "a key that the claim lacks");
    assert_eq!(by_requirement(Requirement::exists("team")), "");
    assert_eq!(by_requirement(Requirement::exists("rack")), "RequirementsDrifted");
    assert_eq!(by_requirement(Requirement::does_not_exist("team")), "RequirementsDrifted");
    assert_eq!(by_requirement(Requirement::does_not_exist("rack")), "");
    assert_eq!(by_requirement(Requirement::none_of("rack", ["1"])), "");
    assert_eq!(by_requirement(Requirement::none_of("team", ["a"])), "RequirementsDrifted");
    assert_eq!(by_requirement(bound(Operator::Gt, "1")), "");
    assert_eq!(by_requirement(bound(Operator::Lt, "3")), "");
    assert_eq!(by_requirement(bound(Operator::Gt, "2")), "RequirementsDrifted");
}

// Cases: DFT-3, DFT-4
#[test]
fn a_type_that_is_offered_no_more_drifts_once_the_claim_is_an_hour_old() {
    let none = Requirements::default();
    let judge = |own: &LabelMap, seen: TypeSeen<'_>| judged(&claim(own), &none, seen, |_| {});
    let own = node_labels();
    let offer = |zone, capacity_type| Offering { zone, capacity_type };
    let here = [offer("us-east-1a", "on-demand"), offer("us-east-1b", "spot")];
    let elsewhere = [offer("us-east-1b", "on-demand"), offer("us-east-1a", "spot")];
    assert_eq!(judge(&own, TypeSeen::Offered(&here)), "");
    assert_eq!(judge(&own, TypeSeen::Offered(&elsewhere)), "InstanceTypeNotFound");
    assert_eq!(judge(&own, TypeSeen::Offered(&[])), "InstanceTypeNotFound");
    assert_eq!(judge(&own, TypeSeen::Missing), "InstanceTypeNotFound");
    assert_eq!(judge(&own, TypeSeen::NotAsked), "");
    let mut nameless = node_labels();
    nameless.remove(labels::INSTANCE_TYPE);
    assert_eq!(judge(&nameless, TypeSeen::NotAsked), "InstanceTypeNotFound");
    let young = Claim { created: at(OLD - 3600), ..claim(&nameless) };
    assert_eq!(judged(&young, &none, TypeSeen::Missing, |_| {}), "");
}

// Cases: DFT-33, DFT-34, DFT-35
#[test]
fn reserved_claims_may_live_on_as_on_demand() {
    let mut own = node_labels();
    own.insert(labels::CAPACITY_TYPE.to_owned(), "reserved".to_owned());
    own.insert(labels::CAPACITY_RESERVATION_ID.to_owned(), "cr-1".to_owned());
    let none = Requirements::default();
    for (kinds, expected) in [
        (vec!["reserved", "on-demand"], ""),
        (vec!["reserved"], ""),
        (vec!["on-demand"], ""),
        (vec!["spot"], "InstanceTypeNotFound"),
        (vec![], "InstanceTypeNotFound"),
    ] {
        let offered: Vec<Offering<'_>> =
            kinds.iter().map(|kind| Offering { zone: "us-east-1a", capacity_type: kind }).collect();
        assert_eq!(judged(&claim(&own), &none, TypeSeen::Offered(&offered), |_| {}), expected, "{kinds:?}");
    }
}

// Cases: DFT-1
#[test]
fn each_part_of_the_node_class_drifts_by_its_name() {
    let own = node_labels();
    let fresh = || claim(&own);
    assert_eq!(by_class(&fresh(), |class| class.hash = v("2")), "NodeClassDrift");
    assert_eq!(by_class(&Claim { image: Some("ami-0"), ..fresh() }, |_| {}), "AMIDrift");
    assert_eq!(by_class(&fresh(), |class| class.subnets = Some(["subnet-9"].into())), "SubnetDrift");
    assert_eq!(
        by_class(&fresh(), |class| class.security_groups = Some(["sg-1", "sg-2"].into())),
        "SecurityGroupDrift"
    );
    assert_eq!(by_class(&fresh(), |class| class.placement_group = Some(Some("pg-1"))), "PlacementGroupDrift");
    let mut reserved = node_labels();
    reserved.insert(labels::CAPACITY_TYPE.to_owned(), "reserved".to_owned());
    reserved.insert(labels::CAPACITY_RESERVATION_ID.to_owned(), "cr-2".to_owned());
    assert_eq!(by_class(&claim(&reserved), |_| {}), "CapacityReservationDrift");
    reserved.insert(labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
    assert_eq!(by_class(&claim(&reserved), |_| {}), "", "its reservation has ended; it is on-demand now");
}

#[test]
fn the_image_is_the_first_that_fits_the_node() {
    let own = node_labels();
    let on = |arch: &str| Requirements::default().with(Requirement::is(labels::ARCH, arch));
    let (arm, amd) = (on("arm64"), on("amd64"));
    let gpu = amd.clone().with(Requirement::exists(labels::INSTANCE_GPU_COUNT));
    let images = [
        Image { id: "ami-arm", requirements: &arm },
        Image { id: "ami-gpu", requirements: &gpu },
        Image { id: "ami-new", requirements: &amd },
        Image { id: "ami-1", requirements: &amd },
    ];
    let none = Requirements::default();
    let judged = |image: Option<&'static str>, images: &[Image<'_>]| {
        let pool = Pool { hash: v("1"), requirements: &none };
        let class = class(images);
        reason(verdict(
            &Claim { image, ..claim(&own) },
            Some(pool),
            TypeSeen::NotAsked,
            Some(&class),
            at(OLD),
        ))
    };
    assert_eq!(judged(Some("ami-new"), &images), "");
    assert_eq!(judged(Some("ami-1"), &images), "AMIDrift", "a newer one comes first");
    assert_eq!(judged(Some("ami-gpu"), &images), "AMIDrift");
    assert_eq!(judged(Some("ami-1"), &images[..1]), "?", "none fits: nothing is said");
    assert_eq!(judged(Some("ami-1"), &[]), "?");
    assert_eq!(judged(None, &images), "?");
}

// Cases: DFT-7, DFT-8
#[test]
fn what_the_pool_says_comes_before_what_the_class_says() {
    let own = node_labels();
    let old = Claim { image: Some("ami-0"), pool_hash: v("0"), ..claim(&own) };
    assert_eq!(by_class(&old, |_| {}), "NodePoolDrifted");
    let narrowed = Requirements::default().with(Requirement::exists("rack"));
    let old = Claim { image: Some("ami-0"), ..claim(&own) };
    assert_eq!(judged(&old, &narrowed, TypeSeen::Missing, |_| {}), "RequirementsDrifted");
    assert_eq!(judged(&old, &Requirements::default(), TypeSeen::Missing, |_| {}), "InstanceTypeNotFound");
    assert_eq!(by_class(&old, |class| class.hash = v("2")), "NodeClassDrift");
}

// Cases: DFT-9, DFT-10, DFT-11
#[test]
fn claims_that_are_not_launched_or_have_no_pool_do_not_drift() {
    let own = node_labels();
    let unlaunched = Claim { launched: false, pool_hash: v("0"), ..claim(&own) };
    assert_eq!(by_class(&unlaunched, |class| class.hash = v("2")), "");
    let orphan = Claim { pool_hash: v("0"), ..claim(&own) };
    assert_eq!(reason(verdict(&orphan, None, TypeSeen::Missing, None, at(OLD))), "");
}

#[test]
fn a_status_without_answers_says_nothing_rather_than_drift() {
    let own = node_labels();
    assert_eq!(by_class(&claim(&own), |class| class.security_groups = Some([].into())), "?");
    assert_eq!(by_class(&claim(&own), |class| class.subnets = Some([].into())), "?");
    assert_eq!(
        by_class(&claim(&own), |class| {
            class.images = None;
            class.security_groups = None;
            class.subnets = None;
        }),
        ""
    );
    let unknown = Claim { subnet: None, security_groups: None, ..claim(&own) };
    assert_eq!(by_class(&unknown, |class| class.subnets = Some(["subnet-9"].into())), "");
}
