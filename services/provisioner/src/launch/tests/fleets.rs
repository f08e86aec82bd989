use std::collections::BTreeSet;
use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim};
use cloud::instance::{CLUSTER_TAG, NODECLAIM_TAG};
use cloud::launch::{FleetAnswer, FleetError};
use cloud::memory::MemoryCloud;
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType, Overlaid};
use model::labels;
use model::price::MicroDollars;
use model::resources::PODS;
use serde_json::json;

use super::fixture::{Heard, NoBatches, ZONES, buying, claim, class, kind, parts, reserved, sold_both_ways};
use crate::launch::candidates::{Terms, candidates};
use crate::launch::fleet::{self, Asked, Images, Place};
use crate::launch::{ClaimRequest, Failure, Launch, LaunchError, Launched};

struct World {
    cloud: Arc<MemoryCloud>,
    heard: Arc<Heard>,
    launch: Launch,
    types: Vec<InstanceType>,
}

fn world() -> World {
    let cloud = Arc::new(MemoryCloud::new("us-west-2"));
    let heard = Arc::new(Heard::default());
    let launch = process(&cloud, &heard);
    let types = vec![kind("a.large", 4, sold_both_ways(90)), kind("b.large", 4, sold_both_ways(120))];
    World { cloud, heard, launch, types }
}

/// A process that has just begun to lead and knows nothing of earlier ones.
fn process(cloud: &Arc<MemoryCloud>, heard: &Arc<Heard>) -> Launch {
    Launch::new(parts(Arc::clone(cloud) as _, Arc::new(NoBatches), Arc::clone(heard)))
}

impl World {
    async fn launch(&self, claim: &NodeClaim) -> Result<Launched, LaunchError> {
        self.launch.launch(claim, &class(), Some(&self.types)).await
    }

    fn exhaust_spot(&self) {
        for kind in &self.types {
            for zone in ZONES {
                self.cloud.exhaust(true, &kind.name, zone);
            }
        }
    }
}

// Cases: LCH-1
#[tokio::test]
async fn a_launch_tells_everything_the_claim_is_to_say() {
    let world = world();
    let launched = world.launch(&claim(buying(&["on-demand"]))).await.unwrap();
    assert_eq!(launched.provider_id, format!("aws:///{}/{}", launched.zone, launched.instance_id));
    assert_eq!(launched.capacity_type, CapacityType::OnDemand);
    assert_eq!(launched.image_id, "ami-1");
    assert!(launched.price.is_some() && !launched.adopted);
    assert_eq!(launched.capacity.get(PODS).value_floor(), 29);
    for (key, value) in [
        (labels::INSTANCE_TYPE, launched.instance_type.as_str()),
        (labels::ZONE, launched.zone.as_str()),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "default"),
        (labels::INSTANCE_TENANCY, "default"),
        (labels::ARCH, "amd64"),
    ] {
        assert_eq!(launched.labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(!launched.labels.contains_key(labels::CAPACITY_RESERVATION_ID));
    assert_eq!(launched.annotations[labels::EC2NODECLASS_HASH], "7");
    assert_eq!(launched.annotations[labels::INSTANCE_PROFILE_NAME], "profile-1");
    let state = world.cloud.state();
    let instance = &state.instances[&launched.instance_id];
    assert_eq!(instance.tags[NODECLAIM_TAG], "claim-1");
    assert_eq!(instance.tags[CLUSTER_TAG], "blue");
    assert!(instance.belongs_to("blue"));
}

#[tokio::test]
async fn overlays_decide_what_is_launched_and_are_written_on_the_claim() {
    let mut world = world();
    let device = |launched: &Launched| {
        (launched.capacity.get("example.com/dongle"), launched.allocatable.get("example.com/dongle"))
    };
    let plain = world.launch(&claim(buying(&["on-demand"]))).await.unwrap();
    assert_eq!(plain.instance_type, "a.large");
    for key in [labels::PRICE_OVERLAY_APPLIED, labels::CAPACITY_OVERLAY_APPLIED] {
        assert!(!plain.annotations.contains_key(key), "{key}");
    }

    let dear = &mut world.types[1];
    dear.capacity.insert("example.com/dongle", "2".parse().unwrap());
    dear.offerings.iter_mut().for_each(|offering| offering.price = MicroDollars::new(1));
    dear.overlaid = Overlaid { price: true, capacity: true };
    let mut second = claim(buying(&["on-demand"]));
    (second.metadata.name, second.metadata.uid) = (Some("claim-2".into()), Some("uid-2".into()));
    let requests = second.spec.resources.as_mut().unwrap().requests.as_mut().unwrap();
    requests.insert("example.com/dongle".to_owned(), "1".into());
    let launched = world.launch(&second).await.unwrap();
    assert_eq!(launched.instance_type, "b.large");
    assert_eq!(device(&launched), ("2".parse().unwrap(), "2".parse().unwrap()));
    assert_eq!(launched.price, Some(MicroDollars::new(1)));
    for key in [labels::PRICE_OVERLAY_APPLIED, labels::CAPACITY_OVERLAY_APPLIED] {
        assert_eq!(launched.annotations.get(key).map(String::as_str), Some("true"), "{key}");
    }
}

#[tokio::test]
async fn exhausted_spot_becomes_on_demand_in_the_same_launch_and_is_reported() {
    let world = world();
    world.exhaust_spot();
    let launched = world.launch(&claim(buying(&["spot", "on-demand"]))).await.unwrap();
    assert_eq!(launched.capacity_type, CapacityType::OnDemand);
    assert_eq!(world.cloud.calls("CreateFleet"), 2);
    let heard = world.heard.0.lock().unwrap();
    let pools: BTreeSet<String> = heard.iter().map(|(scope, _)| scope.key()).collect();
    let expected: BTreeSet<String> =
        ["a", "b"].iter().flat_map(|t| ZONES.map(|z| format!("spot:{t}.large:{z}"))).collect();
    assert_eq!(pools, expected);
    assert!(heard.iter().all(|(_, code)| code == "InsufficientInstanceCapacity"));
}

// Cases: LCH-4
#[tokio::test]
async fn where_only_spot_is_allowed_its_lack_is_insufficient_capacity() {
    let world = world();
    world.exhaust_spot();
    let error = world.launch(&claim(buying(&["spot"]))).await.unwrap_err();
    assert_eq!(error.kind, Failure::InsufficientCapacity);
    assert!(error.message.contains("InsufficientInstanceCapacity"), "{}", error.message);
    assert_eq!(error.unavailable.len(), 4);
    assert!(world.cloud.state().instances.is_empty());
}

#[tokio::test]
async fn a_process_that_died_before_it_recorded_the_launch_leaves_no_second_instance() {
    let world = world();
    let claim = claim(buying(&["spot", "on-demand"]));
    let first = world.launch(&claim).await.unwrap();
    for _ in 0..3 {
        let later = process(&world.cloud, &world.heard);
        let again = later.launch(&claim, &class(), Some(&world.types)).await.unwrap();
        assert_eq!((again.instance_id.as_str(), again.adopted), (first.instance_id.as_str(), true));
        assert_eq!(again.labels, first.labels);
        assert_eq!((again.capacity, again.price), (first.capacity.clone(), first.price));
    }
    assert_eq!(world.cloud.state().instances.len(), 1);
}

#[tokio::test]
async fn a_call_without_an_answer_is_repeated_with_the_same_token_after_a_look() {
    let world = world();
    world.launch.inner.attempts.term_began(Timestamp::UNIX_EPOCH);
    let mut claim = claim(buying(&["on-demand"]));
    claim.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    world.cloud.fail("CreateFleet", "", "connection reset");
    let error = world.launch(&claim).await.unwrap_err();
    assert_eq!((error.kind, error.reason), (Failure::Retryable, "LaunchFailed"));
    assert_eq!(world.cloud.calls("DescribeInstances"), 0, "a fresh claim of this term is not looked for");
    world.launch(&claim).await.unwrap();
    assert_eq!(world.cloud.calls("DescribeInstances"), 1);
    assert_eq!(world.cloud.state().tokens.keys().collect::<Vec<_>>(), ["uid-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_another_request_used_up_leads_to_the_next_one_when_no_instance_shows() {
    let world = world();
    world.cloud.fail("CreateFleet", "IdempotentParameterMismatch", "different parameters");
    let launched = world.launch(&claim(buying(&["on-demand"]))).await.unwrap();
    assert!(!launched.adopted);
    assert_eq!(world.cloud.state().tokens.keys().collect::<Vec<_>>(), ["uid-1-1"]);
    assert_eq!(world.cloud.calls("DescribeInstances"), 6, "once before, then with patience");
}

#[tokio::test]
async fn a_launch_template_that_somebody_deleted_is_made_again() {
    let world = world();
    world.launch(&claim(buying(&["on-demand"]))).await.unwrap();
    world.cloud.state().templates.clear();
    let mut second = claim(buying(&["on-demand"]));
    (second.metadata.name, second.metadata.uid) = (Some("claim-2".into()), Some("uid-2".into()));
    world.launch(&second).await.unwrap();
    assert_eq!(world.cloud.calls("CreateLaunchTemplate"), 2);
    assert_eq!(world.cloud.state().instances.len(), 2);
}

#[tokio::test]
async fn equal_launches_share_one_template() {
    let world = world();
    for n in 0..5 {
        let mut claim = claim(buying(&["on-demand"]));
        (claim.metadata.name, claim.metadata.uid) = (Some(format!("claim-{n}")), Some(format!("uid-{n}")));
        world.launch(&claim).await.unwrap();
    }
    assert_eq!(world.cloud.calls("CreateLaunchTemplate"), 1);
}

#[tokio::test]
async fn a_class_that_is_not_ready_launches_nothing() {
    let world = world();
    let claim = claim(buying(&["on-demand"]));
    let with_ready = |status: &str, generation: i64| {
        let mut class = class();
        class.metadata.generation = Some(generation);
        let conditions = class.status.as_mut().unwrap().conditions.as_mut().unwrap();
        let ready = conditions.iter_mut().find(|c| c.type_ == "Ready").unwrap();
        ready.status = status.into();
        class
    };
    let deleting = EC2NodeClass {
        metadata: serde_json::from_value(
            json!({"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        )
        .unwrap(),
        ..class()
    };
    let tagged = {
        let mut class = class();
        class.spec.tags = Some([("karpenter.sh/nodepool".to_owned(), "x".to_owned())].into());
        class
    };
    for (class, kind, reason) in [
        (with_ready("False", 1), Failure::NodeClassNotReady, "NodeClassNotReady"),
        (with_ready("Unknown", 1), Failure::Retryable, "NodeClassReadinessUnknown"),
        (with_ready("True", 2), Failure::NodeClassNotReady, "NodeClassNotReady"),
        (deleting, Failure::InsufficientCapacity, "InsufficientCapacity"),
        (tagged, Failure::NodeClassNotReady, "NodeClassNotReady"),
    ] {
        let error = world.launch.launch(&claim, &class, Some(&world.types)).await.unwrap_err();
        assert_eq!((error.kind, error.reason), (kind, reason), "{error}");
    }
    let error = world.launch.launch(&claim, &class(), None).await.unwrap_err();
    assert_eq!(error.reason, "InstanceTypeResolutionFailed");
    assert_eq!(world.cloud.calls("CreateFleet") + world.cloud.calls("CreateLaunchTemplate"), 0);
}

fn error(code: &str, zone: &str) -> FleetError {
    FleetError {
        code: code.to_owned(),
        instance_type: Some("a.large".to_owned()),
        zone: Some(zone.to_owned()),
        subnet_id: Some("subnet-a".to_owned()),
        ..FleetError::default()
    }
}

fn learned(codes: &[&str], buying_: CapacityType, group: Option<&str>) -> Vec<String> {
    let mut offerings = sold_both_ways(90);
    offerings.push(reserved("cr-1", "default", ZONES[0], 1));
    let types = [kind("a.large", 4, offerings)];
    let wanted = ClaimRequest::of(&claim(buying(&[buying_.as_str()]))).unwrap();
    let left = candidates(&types, &wanted, &Terms::default()).unwrap();
    let images = Images::of(class().status.unwrap().amis.as_deref().unwrap());
    let shapes = fleet::shapes(&left, buying_, &images, false);
    let places: Vec<(String, Place<'_>)> =
        shapes.values().flatten().map(|place| ("template".to_owned(), *place)).collect();
    let errors = codes.iter().map(|code| error(code, ZONES[0])).collect();
    let answer = FleetAnswer { errors, ..FleetAnswer::default() };
    let lessons =
        fleet::lessons(&answer, &Asked { buying: buying_, places: &places, placement_group: group });
    lessons.marks.into_iter().map(|(scope, _)| scope.key()).collect()
}

#[test]
fn each_kind_of_shortage_marks_what_it_is_about_and_other_errors_mark_nothing() {
    let zone = ZONES[0];
    assert_eq!(
        learned(&["InsufficientInstanceCapacity"], CapacityType::Spot, None),
        [format!("spot:a.large:{zone}")]
    );
    assert_eq!(
        learned(&["UnfulfillableCapacity"], CapacityType::OnDemand, Some("pg-1")),
        [format!("on-demand:a.large:{zone}:group:pg-1")]
    );
    assert_eq!(
        learned(&["InsufficientFreeAddressesInSubnet"], CapacityType::Spot, None),
        ["subnet:subnet-a"]
    );
    assert_eq!(learned(&["ReservationCapacityExceeded"], CapacityType::Reserved, None), ["reservation:cr-1"]);
    assert_eq!(
        learned(&["AuthFailure.ServiceLinkedRoleCreationNotPermitted"], CapacityType::Spot, None),
        ["spot"]
    );
    assert_eq!(learned(&["InternalError", "UnauthorizedOperation"], CapacityType::Spot, None), [""; 0]);
}

/// By their names, as these tools have them: of the NodeClaim, and of the Node, which gets them at its registration.
#[tokio::test]
async fn eks_node_viewer_and_headlamp_find_the_labels_they_read() {
    let launched = world().launch(&claim(buying(&["spot"]))).await.unwrap();
    for (key, value) in [
        ("karpenter.sh/capacity-type", "spot"),
        ("node.kubernetes.io/instance-type", launched.instance_type.as_str()),
        ("topology.kubernetes.io/zone", launched.zone.as_str()),
    ] {
        assert_eq!(launched.labels.get(key).map(String::as_str), Some(value), "{key}");
    }
}
