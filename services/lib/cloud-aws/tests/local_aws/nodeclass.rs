use aws_sdk_ec2::types::PlacementStrategy as PlacementStrategyName;
use cloud::ErrorKind;
use cloud::NodeClassSource;
use cloud::Tags;
use cloud::nodeclass::{ImageQuery, PlacementGroupSelect, PlacementStrategy, ReservationQuery};
use cloud::reservation::MatchCriteria;
use cloud::select::{Select, TagFilter};
use jiff::Timestamp;
use serde_json::json;

use crate::server::{CLUSTER, REGION, connect};

#[tokio::test]
async fn subnets_are_found_by_tags_and_by_id() {
    let local = connect(REGION, "subnets").await;
    let private = local.network().await.subnets;
    assert_eq!(private.len(), 4);
    assert!(private.iter().all(|s| s.free_addresses > 1000 && s.zone_id.starts_with("usw2-az")));
    let two: Vec<String> = private.iter().take(2).map(|s| s.id.clone()).collect();
    let mut wanted = two.clone();
    wanted.push("subnet-0123456789abcdef0".into());
    let found = local.aws.subnets(Select::Ids(wanted)).await.unwrap();
    assert_eq!(found.iter().map(|s| s.id.clone()).collect::<Vec<_>>(), two, "unknown ids are left out");
    let none = local.aws.subnets(Select::Tags(vec![TagFilter::is("no", "such")])).await.unwrap();
    assert_eq!(none, []);
}

#[tokio::test]
async fn an_empty_selection_is_refused_rather_than_taken_for_everything() {
    let local = connect(REGION, "empty").await;
    for select in [Select::Tags(vec![]), Select::Ids(vec![])] {
        let error = local.aws.subnets(select.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(local.aws.security_groups(select).await.is_err());
    }
    assert_eq!(local.calls("DescribeSubnets").await, 0);
}

#[tokio::test]
async fn security_groups_are_found_by_tags_names_and_ids() {
    let local = connect(REGION, "groups").await;
    let tagged = Select::Tags(vec![TagFilter::is("karpenter.sh/discovery", CLUSTER)]);
    let all = local.aws.security_groups(tagged).await.unwrap();
    assert_eq!(all.len(), 2);
    let node = all.iter().find(|g| g.name == format!("{CLUSTER}-node")).unwrap();
    let by_name = local.aws.security_groups(Select::Names(vec![node.name.clone()])).await.unwrap();
    let by_id = local.aws.security_groups(Select::Ids(vec![node.id.clone()])).await.unwrap();
    assert_eq!(by_name, by_id);
    assert_eq!(by_id[0], *node);
}

#[tokio::test]
async fn images_are_found_by_parameter_id_name_and_tags_also_when_deprecated() {
    let local = connect(REGION, "images").await;
    let id = local.image().await;
    let query = |select, owners: &[&str]| ImageQuery {
        select,
        owners: owners.iter().map(|o| (*o).to_owned()).collect(),
    };
    let found = local.aws.images(query(Select::Ids(vec![id.clone()]), &[])).await.unwrap();
    assert_eq!((found.len(), found[0].architecture.as_str()), (1, "x86_64"));
    assert!(found[0].created_at.is_some_and(|at| at < Timestamp::now()));
    let name = found[0].name.clone();
    let by_name = local.aws.images(query(Select::Names(vec![name]), &["amazon"])).await.unwrap();
    assert!(by_name.iter().any(|i| i.id == id));

    let body = json!({"name": "golden-adapter", "architecture": "arm64", "tags": {"adapter": "golden"}});
    let made = local.control("PUT", "/ami", body).await;
    let golden = made["images"][0]["id"].as_str().unwrap().to_owned();
    let tags = || query(Select::Tags(vec![TagFilter::is("adapter", "golden")]), &[]);
    let before = local.aws.images(tags()).await.unwrap();
    assert_eq!((before[0].id.as_str(), before[0].architecture.as_str()), (golden.as_str(), "arm64"));
    assert!(!before[0].is_deprecated(Timestamp::now()));
    let both = |stage: &str| Select::NameAndTags("golden-*".into(), vec![TagFilter::is("adapter", stage)]);
    let found = local.aws.images(query(both("golden"), &["self"])).await.unwrap();
    assert_eq!(found.iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), [golden.as_str()]);
    assert_eq!(local.aws.images(query(both("other"), &["self"])).await.unwrap(), []);
    local.control("PUT", "/ami", json!({"id": golden, "deprecate": true})).await;
    let after = local.aws.images(tags()).await.unwrap();
    assert!(after[0].is_deprecated(Timestamp::now()));
}

#[tokio::test]
async fn a_missing_parameter_is_no_error() {
    let local = connect(REGION, "parameter").await;
    let missing = "/aws/service/eks/optimized-ami/1.35/none/recommended/image_id";
    assert_eq!(local.aws.parameter(missing).await.unwrap(), None);
}

#[tokio::test]
async fn an_instance_profile_lives_from_creation_to_deletion() {
    let local = connect(REGION, "profiles").await;
    let (name, path) = ("adapter-profile", "/karpenter/us-west-2/adapter/uid-1/");
    let role = format!("KarpenterNodeRole-{CLUSTER}");
    assert_eq!(local.aws.instance_profile(name).await.unwrap(), None);
    let tags = Tags::from([("topology.kubernetes.io/region".into(), REGION.into())]);
    let created = local.aws.create_instance_profile(name, path, tags.clone()).await.unwrap();
    assert_eq!((created.name.as_str(), created.path.as_str(), created.role), (name, path, None));
    let again = local.aws.create_instance_profile(name, path, tags).await.unwrap_err();
    assert_eq!(again.kind, ErrorKind::AlreadyExists, "{again}");

    let no_role = local.aws.add_role(name, "no-such-role").await.unwrap_err();
    assert_eq!(no_role.kind, ErrorKind::NotFound, "{no_role}");
    assert!(no_role.message.to_lowercase().contains("role"), "{no_role}");
    local.aws.add_role(name, &role).await.unwrap();
    assert_eq!(local.aws.instance_profile(name).await.unwrap().unwrap().role, Some(role.clone()));
    let listed = local.aws.instance_profiles("/karpenter/us-west-2/adapter/").await.unwrap();
    assert_eq!(listed.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), [name]);
    assert_eq!(local.aws.instance_profiles("/karpenter/us-west-2/other/").await.unwrap(), []);

    local.aws.remove_role(name, &role).await.unwrap();
    local.aws.remove_role("no-such-profile", &role).await.unwrap();
    local.aws.delete_instance_profile(name).await.unwrap();
    local.aws.delete_instance_profile(name).await.unwrap();
    assert_eq!(local.aws.instance_profile(name).await.unwrap(), None);
}

#[tokio::test]
async fn the_cluster_and_our_identity_are_known() {
    let local = connect(REGION, "identity").await;
    let cluster = local.aws.cluster(CLUSTER).await.unwrap();
    assert_eq!(cluster.endpoint, "https://127.0.0.1:6443");
    assert_eq!(cluster.version, "1.35");
    assert_eq!(cluster.service_cidr.as_deref(), Some("10.96.0.0/16"));
    let missing = local.aws.cluster("nowhere").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound, "{missing}");
    let identity = local.aws.identity().await.unwrap();
    assert_eq!(identity.account_id.len(), 12);
    assert!(identity.arn.starts_with("arn:aws:"));
}

#[tokio::test]
async fn reservations_are_selected_by_id_tags_and_criteria() {
    let local = connect("eu-north-1", "reserved-class").await;
    let make = async |criteria: &str, team: &str| {
        let body = json!({"instanceType": "m5.large", "zone": "eu-north-1a", "total": 1, "criteria": criteria, "tags": {"team": team}});
        let made = local.control("PUT", "/capacity-reservation", body).await;
        made["id"].as_str().unwrap().to_owned()
    };
    let (a, b) = (make("open", "a").await, make("targeted", "b").await);
    let ids = async |query| {
        let found = NodeClassSource::reservations(&local.aws, query).await.unwrap();
        found.into_iter().map(|r| r.id).collect::<Vec<_>>()
    };
    let matching = |tags: Vec<TagFilter>, match_criteria| ReservationQuery::Matching {
        tags,
        owner_id: None,
        match_criteria,
    };
    assert_eq!(ids(ReservationQuery::Id(a.clone())).await, std::slice::from_ref(&a));
    assert_eq!(ids(ReservationQuery::Id("cr-0123456789abcdef0".into())).await, [""; 0]);
    assert_eq!(ids(matching(vec![TagFilter::is("team", "b")], None)).await, std::slice::from_ref(&b));
    assert_eq!(ids(matching(vec![], Some(MatchCriteria::Open))).await, [a]);
    assert_eq!(ids(matching(vec![TagFilter::exists("team")], Some(MatchCriteria::Targeted))).await, [b]);
}

#[tokio::test]
async fn placement_groups_are_found_by_name_and_id_and_unknown_ones_told() {
    let local = connect(REGION, "placement").await;
    let made = local
        .ec2()
        .create_placement_group()
        .group_name("adapter-spread")
        .strategy(PlacementStrategyName::Partition)
        .partition_count(3)
        .send()
        .await
        .unwrap();
    let id = made.placement_group().and_then(|g| g.group_id()).unwrap().to_owned();
    let by_name = PlacementGroupSelect::Name("adapter-spread".into());
    let found = local.aws.placement_group(by_name).await.unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.strategy), (id.as_str(), PlacementStrategy::Partition(3)));
    assert_eq!(local.aws.placement_group(PlacementGroupSelect::Id(id)).await.unwrap(), Some(found));
    for select in [PlacementGroupSelect::Name("none".into()), PlacementGroupSelect::Id("pg-0123".into())] {
        let error = local.aws.placement_group(select).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
}
