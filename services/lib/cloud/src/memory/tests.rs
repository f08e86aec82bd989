use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::launch::{FleetRequest, FleetTarget, FleetTemplate, Launcher, Override};
use crate::queue::{Queue, ReceiveOptions};
use crate::template::{Interface, ReservationChoice, TemplateData};
use crate::terminate::Terminator;
use crate::{CatalogSource, ErrorKind, HealthSource, NodeClassSource, Rules};

fn template(name: &str) -> LaunchTemplate {
    LaunchTemplate {
        name: name.into(),
        tags: Tags::new(),
        data: TemplateData {
            image_id: "ami-1".into(),
            instance_profile: None,
            user_data: None,
            detailed_monitoring: false,
            block_devices: vec![],
            metadata: None,
            nested_virtualization: None,
            interfaces: vec![Interface { security_group_ids: vec!["sg-1".into()], ..Interface::default() }],
            tenancy: "default".into(),
            placement_group_id: None,
            partition: None,
            enclave: false,
            reservation: ReservationChoice::Avoid,
            market: None,
            tags: Tags::new(),
            spot: false,
        },
    }
}

fn request(target: FleetTarget, types: &[&str], token: Option<&str>) -> FleetRequest {
    let place = |t: &&str| Override {
        instance_type: (*t).to_owned(),
        zone: "us-east-1a".into(),
        subnet_id: "subnet-a".into(),
        image_id: None,
        priority: None,
    };
    FleetRequest {
        count: 1,
        client_token: token.map(str::to_owned),
        target,
        prioritized: false,
        context: None,
        tags: Tags::from([("a".into(), "b".into())]),
        templates: vec![FleetTemplate { name: "lt".into(), overrides: types.iter().map(place).collect() }],
    }
}

#[tokio::test]
async fn the_cheapest_pool_with_capacity_is_launched_and_the_others_are_told() {
    let cloud = MemoryCloud::new("us-east-1");
    cloud.create_launch_template(template("lt")).await.unwrap();
    let wanted = request(FleetTarget::OnDemand, &["m5.xlarge", "m5.large", "c5.large"], None);
    cloud.exhaust(false, "c5.large", "us-east-1a");
    let answer = cloud.create_fleet(wanted.clone()).await.unwrap();
    assert_eq!(answer.launched[0].instance_type, "m5.large");
    assert_eq!(answer.errors[0].kind(), ErrorKind::Unfulfillable);

    cloud.exhaust(false, "m5.large", "us-east-1a");
    cloud.exhaust(false, "m5.xlarge", "us-east-1a");
    let none = cloud.create_fleet(wanted).await.unwrap();
    assert!(none.is_insufficient_capacity());
    assert_eq!(none.errors.len(), 3);
    assert_eq!(cloud.running().len(), 1);
}

#[tokio::test]
async fn a_repeated_client_token_launches_nothing_new() {
    let cloud = MemoryCloud::new("us-east-1");
    cloud.create_launch_template(template("lt")).await.unwrap();
    let wanted = request(FleetTarget::Spot, &["m5.large"], Some("claim-1"));
    let first = cloud.create_fleet(wanted.clone()).await.unwrap();
    assert_eq!(cloud.create_fleet(wanted).await.unwrap(), first);
    assert_eq!(cloud.running().len(), 1);
    assert_eq!(cloud.calls("CreateFleet"), 2);
}

#[tokio::test]
async fn faults_hit_the_named_call_as_often_as_told() {
    let cloud = MemoryCloud::new("us-east-1");
    cloud.fail_times("DescribeInstanceTypes", "RequestLimitExceeded", "slow down", 2);
    for _ in 0..2 {
        let error = cloud.instance_types().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Throttled);
    }
    assert!(cloud.instance_types().await.unwrap().len() > 60);
    assert!(cloud.zones().await.is_ok());
}

#[tokio::test]
async fn instances_end_in_two_steps_and_are_then_not_listed() {
    let cloud = MemoryCloud::new("us-east-1");
    cloud.create_launch_template(template("lt")).await.unwrap();
    let launched = cloud.create_fleet(request(FleetTarget::Spot, &["m5.large"], None)).await.unwrap();
    let id = launched.launched[0].id.clone();
    cloud.settle_instances();
    let answers = Terminator::terminate(&cloud, vec![id.clone(), "i-none".into()]).await;
    assert_eq!(answers[0].1, Ok(crate::instance::InstanceState::ShuttingDown));
    assert!(answers[1].1.as_ref().is_err_and(CloudError::is_not_found));
    assert_eq!(Terminator::instances_by_id(&cloud, vec![id.clone()]).await.unwrap().len(), 1);
    cloud.settle_instances();
    assert_eq!(Terminator::instances_by_id(&cloud, vec![id]).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_received_message_is_hidden_until_its_visibility_ends_or_it_is_deleted() {
    let cloud = MemoryCloud::new("us-east-1");
    cloud.create_queue("q");
    let url = cloud.find("q").await.unwrap().url;
    cloud.send("q", "hello");
    let options = ReceiveOptions::default();
    let first = cloud.receive(&url, options).await.unwrap();
    assert_eq!((first[0].body.as_str(), first[0].deliveries), ("hello", 1));
    let none = cloud.receive(&url, ReceiveOptions { wait: Duration::from_secs(5), ..options }).await.unwrap();
    assert_eq!(none, []);
    let again = cloud.receive(&url, options).await.unwrap();
    assert_eq!(again[0].deliveries, 2);
    assert_eq!(
        cloud.extend(&url, vec![first[0].receipt.clone()], options.visibility).await.unwrap().len(),
        1
    );
    cloud.delete(&url, vec![again[0].receipt.clone()]).await.unwrap();
    assert!(cloud.state().queues["q"].is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_when_a_message_arrives() {
    let cloud = Arc::new(MemoryCloud::new("us-east-1"));
    cloud.create_queue("q");
    let url = cloud.find("q").await.unwrap().url;
    let start = tokio::time::Instant::now();
    let (received, ()) = tokio::join!(cloud.receive(&url, ReceiveOptions::default()), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cloud.send("q", "late");
    });
    assert_eq!(received.unwrap().len(), 1);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[test]
fn the_cloud_stands_behind_every_trait() {
    let cloud = Arc::new(MemoryCloud::new("us-east-1"));
    let _: Arc<dyn CatalogSource> = cloud.clone();
    let _: Arc<dyn Launcher> = cloud.clone();
    let _: Arc<dyn NodeClassSource> = cloud.clone();
    let _: Arc<dyn Terminator> = cloud.clone();
    let _: Arc<dyn Queue> = cloud.clone();
    let _: Arc<dyn Rules> = cloud.clone();
    let _: Arc<dyn HealthSource> = cloud;
}
