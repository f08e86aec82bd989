use std::collections::BTreeSet;

use cloud::ErrorKind;
use cloud::Launcher;
use cloud::NodeClassSource;
use cloud::instance::{CLUSTER_TAG, InstanceState, Lifecycle, ours};
use cloud::launch::{FleetRequest, FleetTarget, FleetTemplate, InstanceDryRun, Override};
use cloud::select::TagFilter;
use cloud::template::{Interface, ReservationChoice};
use futures::future::join_all;
use model::catalog::CapacityType;
use model::price::MicroDollars;
use serde_json::json;

use crate::server::{CLUSTER, REGION, connect, launch_template, node_tags};

#[tokio::test]
async fn the_cheapest_type_is_launched_as_the_template_says() {
    let local = connect(REGION, "launch").await;
    let network = local.template("launch").await;
    let answer = local
        .aws
        .create_fleet(network.fleet("launch", FleetTarget::OnDemand, &["m5.xlarge", "m5.large"]))
        .await
        .unwrap();
    assert_eq!(answer.errors, []);
    let launched = &answer.launched[0];
    assert_eq!(
        (answer.launched.len(), launched.instance_type.as_str(), launched.spot),
        (1, "m5.large", false)
    );
    assert!(network.subnets.iter().any(|s| Some(&s.id) == launched.subnet_id.as_ref()));

    let found = Launcher::instances_by_id(&local.aws, vec![launched.id.clone()]).await.unwrap();
    let instance = &found[0];
    assert!(instance.belongs_to(CLUSTER));
    assert_eq!(instance.zone, launched.zone);
    assert_eq!(instance.image_id, local.image().await);
    assert_eq!(instance.security_group_ids, network.groups);
    assert_eq!(instance.capacity_type(true), CapacityType::OnDemand);
    let profile = format!("KarpenterNodeInstanceProfile-{CLUSTER}");
    assert_eq!(instance.instance_profile, Some(profile));
    assert!(matches!(instance.state, InstanceState::Pending | InstanceState::Running));
    assert!(instance.launched_at.is_some() && instance.private_dns_name.is_some());
}

#[tokio::test]
async fn spot_capacity_is_bought_as_spot_and_by_priority_when_told() {
    let local = connect(REGION, "spot-launch").await;
    let network = local.template("spot-launch").await;
    let mut request = network.fleet("spot-launch", FleetTarget::Spot, &["c5.large", "c5.xlarge"]);
    let cheap = local.aws.create_fleet(request.clone()).await.unwrap();
    assert_eq!((cheap.launched[0].instance_type.as_str(), cheap.launched[0].spot), ("c5.large", true));
    let found = Launcher::instances_by_id(&local.aws, vec![cheap.launched[0].id.clone()]).await.unwrap();
    assert_eq!((found[0].lifecycle, found[0].capacity_type(true)), (Lifecycle::Spot, CapacityType::Spot));

    request.prioritized = true;
    for place in &mut request.templates[0].overrides {
        let price = if place.instance_type == "c5.xlarge" { 1 } else { 2 };
        place.priority = Some(MicroDollars::new(price * 1_000_000));
    }
    let preferred = local.aws.create_fleet(request).await.unwrap();
    assert_eq!(preferred.launched[0].instance_type, "c5.xlarge");
}

#[tokio::test]
async fn exhausted_pools_are_told_and_the_next_one_is_launched() {
    let local = connect(REGION, "ice").await;
    let network = local.template("ice").await;
    local.control("PUT", "/ice", json!({"capacityType": "spot", "instanceType": "r6i.large"})).await;
    let request = network.fleet("ice", FleetTarget::Spot, &["r6i.large", "r6i.xlarge"]);
    let partial = local.aws.create_fleet(request.clone()).await.unwrap();
    assert_eq!(partial.launched[0].instance_type, "r6i.xlarge");
    assert!(!partial.is_insufficient_capacity());
    let error = &partial.errors[0];
    assert_eq!((error.kind(), error.spot), (ErrorKind::Unfulfillable, true));
    assert_eq!(error.instance_type.as_deref(), Some("r6i.large"));
    let subnet = network.subnets.iter().find(|s| Some(&s.id) == error.subnet_id.as_ref()).unwrap();
    assert!(error.zone.is_none() || error.zone.as_ref() == Some(&subnet.zone));

    local.control("PUT", "/ice", json!({"capacityType": "spot", "instanceType": "r6i.xlarge"})).await;
    let none = local.aws.create_fleet(request).await.unwrap();
    assert!(none.is_insufficient_capacity(), "{none:?}");
    assert!(none.error_text().contains("InsufficientInstanceCapacity"));
}

#[tokio::test]
async fn a_request_for_several_gives_as_many_as_there_are_and_says_why_not_more() {
    let local = connect(REGION, "short").await;
    let network = local.template("short").await;
    local
        .control(
            "PUT",
            "/ice",
            json!({"capacityType": "on-demand", "instanceType": "r5.2xlarge", "remaining": 3}),
        )
        .await;
    let mut request = network.fleet("short", FleetTarget::OnDemand, &["r5.2xlarge"]);
    request.count = 5;
    let answer = local.aws.create_fleet(request).await.unwrap();
    let ids: BTreeSet<&str> = answer.launched.iter().map(|launched| launched.id.as_str()).collect();
    assert_eq!(ids.len(), 3, "{answer:?}");
    assert!(answer.error_text().contains("InsufficientInstanceCapacity"), "{answer:?}");
    assert_eq!(local.calls("CreateFleet").await, 1);
}

#[tokio::test]
async fn a_repeated_client_token_gives_the_same_instance() {
    let local = connect(REGION, "token").await;
    let network = local.template("token").await;
    let mut request = network.fleet("token", FleetTarget::OnDemand, &["m5.large"]);
    request.client_token = Some("adapter-claim-1".into());
    let first = local.aws.create_fleet(request.clone()).await.unwrap();
    let second = local.aws.create_fleet(request.clone()).await.unwrap();
    assert_eq!(first.launched, second.launched);
    let other = local.aws.create_fleet(FleetRequest { count: 2, ..request }).await.unwrap_err();
    assert_eq!(other.code, "IdempotentParameterMismatch");
    assert_eq!(local.calls("CreateFleet").await, 3);
}

#[tokio::test]
async fn throttled_launches_wait_for_their_turn_and_all_come_through() {
    let local = connect(REGION, "paced").await;
    let network = local.template("paced").await;
    let rule = json!({"action": "CreateFleet", "rate": 5, "burst": 2, "accessKey": "paced"});
    local.control("PUT", "/throttle", rule).await;
    let request = |n: usize| FleetRequest {
        client_token: Some(format!("paced-{n}")),
        ..network.fleet("paced", FleetTarget::OnDemand, &["m5.large"])
    };
    let answers = join_all((0..12).map(|n| local.aws.create_fleet(request(n)))).await;
    let ids: BTreeSet<String> = answers.into_iter().flat_map(|a| a.unwrap().launched).map(|l| l.id).collect();
    assert_eq!(ids.len(), 12);
    let calls = local.calls("CreateFleet").await;
    assert!(calls <= 12 + 12, "the burst is throttled once, then nearly none: {calls} calls");
}

#[tokio::test]
async fn a_launch_from_a_template_that_is_gone_says_so() {
    let local = connect(REGION, "gone").await;
    let network = local.network().await;
    let error = local
        .aws
        .create_fleet(network.fleet("never-made", FleetTarget::OnDemand, &["m5.large"]))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::LaunchTemplateNotFound, "{error}");
}

#[tokio::test]
async fn dry_runs_launch_nothing_and_tell_missing_rights() {
    let local = connect(REGION, "dry").await;
    let network = local.template("dry").await;
    let fleet = network.fleet("dry", FleetTarget::OnDemand, &["m5.large"]);
    let instance = InstanceDryRun {
        template: "dry".into(),
        instance_type: "m5.large".into(),
        image_id: local.image().await,
        subnet_id: network.subnets[0].id.clone(),
        interfaces: vec![Interface { security_group_ids: network.groups.clone(), ..Interface::default() }],
        tags: node_tags(),
    };
    local.aws.dry_run_fleet(fleet.clone()).await.unwrap();
    local.aws.dry_run_instance(instance.clone()).await.unwrap();
    for action in ["CreateFleet", "RunInstances"] {
        let rule = json!({"action": action, "code": "UnauthorizedOperation", "accessKey": "dry"});
        local.control("PUT", "/errors", rule).await;
    }
    let refused = local.aws.dry_run_fleet(fleet).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unauthorized);
    let refused = local.aws.dry_run_instance(instance).await.unwrap_err();
    assert_eq!((refused.kind, refused.operation), (ErrorKind::Unauthorized, "RunInstances"));
}

#[tokio::test]
async fn launch_templates_are_created_found_and_deleted() {
    let local = connect(REGION, "templates").await;
    let network = local.template("karpenter.k8s.aws/1").await;
    let image = local.image().await;
    let again =
        local.aws.create_launch_template(launch_template("karpenter.k8s.aws/1", &image, &network.groups));
    assert_eq!(again.await.unwrap_err().kind, ErrorKind::AlreadyExists);
    let mut other = launch_template("karpenter.k8s.aws/2", &image, &network.groups);
    other.tags.insert("adapter".into(), "templates".into());
    let other = local.aws.create_launch_template(other).await.unwrap();
    assert_eq!(local.aws.launch_template("karpenter.k8s.aws/2").await.unwrap(), Some(other.clone()));
    assert_eq!(local.aws.launch_template("karpenter.k8s.aws/3").await.unwrap(), None);
    let tags = || vec![TagFilter::is(CLUSTER_TAG, CLUSTER), TagFilter::is("adapter", "templates")];
    assert_eq!(local.aws.launch_templates(tags()).await.unwrap(), std::slice::from_ref(&other));
    local.aws.delete_launch_template(&other.id).await.unwrap();
    local.aws.delete_launch_template(&other.id).await.unwrap();
    assert_eq!(local.aws.launch_templates(tags()).await.unwrap(), []);
}

#[tokio::test]
async fn a_reservation_is_launched_into_and_counts_down() {
    let local = connect(REGION, "reserved").await;
    let network = local.network().await;
    let subnet = &network.subnets[0];
    let body = json!({"instanceType": "m5.2xlarge", "zone": subnet.zone, "total": 1, "criteria": "targeted"});
    let made = local.control("PUT", "/capacity-reservation", body).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let mut template = launch_template("reserved", &local.image().await, &network.groups);
    template.data.reservation = ReservationChoice::Only(id.clone());
    local.aws.create_launch_template(template).await.unwrap();
    let mut request = network.fleet("reserved", FleetTarget::OnDemand, &[]);
    request.templates = vec![FleetTemplate {
        name: "reserved".into(),
        overrides: vec![Override {
            instance_type: "m5.2xlarge".into(),
            zone: subnet.zone.clone(),
            subnet_id: subnet.id.clone(),
            image_id: None,
            priority: None,
        }],
    }];
    let answer = local.aws.create_fleet(request.clone()).await.unwrap();
    let found = Launcher::instances_by_id(&local.aws, vec![answer.launched[0].id.clone()]).await.unwrap();
    assert_eq!(found[0].capacity_type(true), CapacityType::Reserved);
    assert_eq!(found[0].capacity_type(false), CapacityType::OnDemand);
    let query = cloud::nodeclass::ReservationQuery::Id(id);
    let left = NodeClassSource::reservations(&local.aws, query).await.unwrap();
    assert_eq!(left[0].available, 0);
    let full = local.aws.create_fleet(request).await.unwrap();
    assert!(full.is_insufficient_capacity(), "{full:?}");
}

#[tokio::test]
async fn a_fleet_without_overrides_is_refused_before_any_call() {
    let local = connect(REGION, "nothing").await;
    let network = local.network().await;
    let error = local.aws.create_fleet(network.fleet("x", FleetTarget::Spot, &[])).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert_eq!(local.calls("CreateFleet").await, 0);
    assert!(Launcher::instances_by_tags(&local.aws, vec![]).await.is_err());
    assert!(Launcher::instances_by_tags(&local.aws, ours("no-such-cluster")).await.unwrap().is_empty());
}
