use cloud::ErrorKind;
use cloud::HealthSource;
use cloud::Launcher;
use cloud::Tags;
use cloud::Terminator;
use cloud::error::CloudError;
use cloud::instance::{InstanceState, NAME_TAG};
use cloud::launch::FleetTarget;
use cloud::select::TagFilter;
use futures::future::join_all;
use serde_json::json;
use tokio::sync::Mutex;

use crate::server::{Local, REGION, connect};

/// Short pages concern every caller: those who count pages do so one after the other.
static PAGES: Mutex<()> = Mutex::const_new(());

async fn launch(local: &Local, name: &str, count: u32) -> Vec<String> {
    let network = local.template(name).await;
    let mut request = network.fleet(name, FleetTarget::OnDemand, &["m5.large"]);
    request.count = count;
    request.tags.insert("adapter".into(), name.to_owned());
    let answer = local.aws.create_fleet(request).await.expect("the fleet is launched");
    answer.launched.into_iter().map(|l| l.id).collect()
}

#[tokio::test]
async fn instances_are_listed_by_tags_over_many_pages() {
    let local = connect(REGION, "listing").await;
    let _pages = PAGES.lock().await;
    let mut ids = launch(&local, "listing", 25).await;
    ids.sort();
    local.control("PUT", "/partial-pages", json!({"action": "DescribeInstances", "size": 4})).await;
    let tags = vec![TagFilter::is("adapter", "listing")];
    let listed = Terminator::instances_by_tags(&local.aws, tags).await.unwrap();
    assert_eq!(listed.iter().map(|i| i.id.clone()).collect::<Vec<_>>(), ids);
    assert!(local.calls("DescribeInstances").await >= 7);
    local.control("DELETE", "/partial-pages", json!({"action": "DescribeInstances"})).await;
}

#[tokio::test]
async fn single_looks_share_a_call_and_unknown_instances_are_absent() {
    let local = connect(REGION, "looks").await;
    let _pages = PAGES.lock().await;
    let ids = launch(&local, "looks", 8).await;
    let looks = ids.iter().map(|id| Terminator::instances_by_id(&local.aws, vec![id.clone()]));
    let found = join_all(looks).await;
    assert!(found.iter().zip(&ids).all(|(f, id)| f.as_ref().unwrap()[0].id == *id));
    assert_eq!(local.calls("DescribeInstances").await, 1);
    let unknown = vec!["i-0123456789abcdef0".to_owned(), ids[0].clone()];
    let some = Terminator::instances_by_id(&local.aws, unknown).await.unwrap();
    assert_eq!(some.len(), 1);
}

#[tokio::test]
async fn many_looks_go_in_as_few_calls_as_ec2_allows() {
    let local = connect(REGION, "many").await;
    let _pages = PAGES.lock().await;
    let ids = launch(&local, "many", 210).await;
    let found = Terminator::instances_by_id(&local.aws, ids.clone()).await.unwrap();
    assert_eq!(found.len(), 210);
    assert_eq!(local.calls("DescribeInstances").await, 2, "a filter takes 200 values");
    let ended = local.aws.terminate(ids).await;
    assert!(ended.iter().all(|(_, answer)| answer.is_ok()));
    assert_eq!(local.calls("TerminateInstances").await, 1);
}

#[tokio::test]
async fn terminations_share_a_call_and_end_what_they_name() {
    let local = connect(REGION, "ending").await;
    let ids = launch(&local, "ending", 12).await;
    let ended = join_all(ids.iter().map(|id| local.aws.terminate(vec![id.clone()]))).await;
    for (id, answers) in ids.iter().zip(ended) {
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].0, *id);
        assert!(answers[0].1.as_ref().is_ok_and(|state| state.is_ending()), "{answers:?}");
    }
    assert_eq!(local.calls("TerminateInstances").await, 1);
    let again = local.aws.terminate(vec![ids[0].clone()]).await;
    assert!(again[0].1.is_ok(), "ending an ended instance is fine: {again:?}");
}

#[tokio::test]
async fn one_unknown_instance_does_not_save_the_others() {
    let local = connect(REGION, "unknown").await;
    let mut ids = launch(&local, "unknown", 6).await;
    let unknown = "i-0fedcba9876543210".to_owned();
    ids.insert(3, unknown.clone());
    let answers = local.aws.terminate(ids).await;
    for (id, answer) in answers {
        if id == unknown {
            assert!(answer.as_ref().is_err_and(CloudError::is_not_found), "{answer:?}");
        } else {
            assert!(answer.is_ok_and(|state| state.is_ending()), "{id}");
        }
    }
}

#[tokio::test]
async fn a_throttled_termination_is_told_to_all_without_more_calls() {
    let local = connect(REGION, "throttled").await;
    let ids = launch(&local, "throttled", 5).await;
    let rule = json!({"action": "TerminateInstances", "rate": 0, "accessKey": "throttled"});
    local.control("PUT", "/throttle", rule).await;
    let answers = local.aws.terminate(ids).await;
    assert!(answers.iter().all(|(_, a)| a.as_ref().is_err_and(|e| e.kind == ErrorKind::Throttled)));
    assert_eq!(local.calls("TerminateInstances").await, 3, "the attempts of one call");
}

#[tokio::test]
async fn terminated_instances_are_absent() {
    let local = connect(REGION, "absent").await;
    let ids = launch(&local, "absent", 2).await;
    local.control("PUT", "/instance", json!({"id": ids[0], "state": "terminated"})).await;
    local.control("PUT", "/instance", json!({"id": ids[1], "state": "stopped"})).await;
    let found = Terminator::instances_by_id(&local.aws, ids.clone()).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id.as_str(), found[0].state), (ids[1].as_str(), InstanceState::Stopped));
}

#[tokio::test]
async fn tags_are_added_to_what_is_there() {
    let local = connect(REGION, "tags").await;
    let ids = launch(&local, "tags", 1).await;
    let tags = Tags::from([(NAME_TAG.into(), "node-1".into())]);
    local.aws.tag_instance(&ids[0], tags.clone()).await.unwrap();
    let found = Launcher::instances_by_id(&local.aws, ids).await.unwrap();
    assert_eq!(found[0].tags[NAME_TAG], "node-1");
    assert_eq!(found[0].tags["adapter"], "tags");
    let gone = local.aws.tag_instance("i-0123456789abcdef0", tags).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound, "{gone}");
}

#[tokio::test]
async fn impaired_instances_and_open_events_are_reported_until_they_are_over() {
    let local = connect(REGION, "health").await;
    let ids = launch(&local, "health", 4).await;
    let mine = async || {
        let all = local.aws.unhealthy().await.unwrap();
        all.into_iter().filter(|h| ids.contains(&h.instance_id)).collect::<Vec<_>>()
    };
    assert_eq!(mine().await, []);
    let put = async |body| local.control("PUT", "/status-event", body).await;
    put(json!({"id": ids[0], "impaired": ["instance"], "sinceSeconds": 300})).await;
    put(json!({"id": ids[1], "impaired": ["system"], "sinceSeconds": 300})).await;
    put(json!({"id": ids[2], "code": "instance-retirement", "notBeforeSeconds": 3600})).await;
    let found = mine().await;
    let of = |n: usize| found.iter().find(|h| h.instance_id == ids[n]);
    assert!(of(0).unwrap().instance_impaired_since.is_some());
    assert!(of(1).unwrap().system_impaired_since.is_some());
    assert_eq!(of(2).unwrap().events[0].code, "instance-retirement");
    assert!(of(2).unwrap().events[0].not_before.is_some());
    assert_eq!(of(3), None);
    put(json!({"id": ids[2], "complete": true})).await;
    put(json!({"id": ids[0], "impaired": []})).await;
    let left: Vec<String> = mine().await.into_iter().map(|h| h.instance_id).collect();
    assert_eq!(left, [ids[1].clone()]);
}
