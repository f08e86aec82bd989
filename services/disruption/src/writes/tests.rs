use super::*;
use crate::testing::{Asked, api_server, failure};

fn pods() -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}))
}

/// Reads pods from a server that answers `versioned` where a version is asked for; also how often it was asked.
async fn read(versioned: (u16, Value)) -> (Result<(Timestamp, Vec<Pod>), Error>, usize) {
    let (client, log) = api_server(move |asked: &Asked| match asked.target.contains("resourceVersion=") {
        true => versioned.clone(),
        false => pods(),
    });
    let result = Writes::new(client).pods_on("n", Some(7)).await;
    let asked = log.lock().unwrap().len();
    (result, asked)
}

#[tokio::test]
async fn pods_are_read_at_the_version_of_the_taint() {
    let (client, log) = api_server(|_| pods());
    Writes::new(client).pods_on("n", Some(7)).await.unwrap();
    let log = log.lock().unwrap();
    let [asked] = log.as_slice() else { panic!("{log:?}") };
    for part in ["resourceVersion=7", "resourceVersionMatch=NotOlderThan", "fieldSelector=spec.nodeName%3Dn"]
    {
        assert!(asked.target.contains(part), "{part} in {asked:?}");
    }
}

#[tokio::test]
async fn the_newest_list_is_read_where_the_server_does_not_have_the_version() {
    let mut behind = failure(504, "Timeout: wait");
    behind.1["details"] =
        json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
    let older = failure(504, "Too large resource version: 7, current: 3");
    for answer in [behind, older, failure(410, "The provided resource version is too old")] {
        let (result, asked) = read(answer.clone()).await;
        assert!(result.is_ok() && asked == 2, "{answer:?}: {result:?} after {asked}");
    }
}

#[tokio::test]
async fn a_server_in_trouble_is_not_asked_for_more() {
    for answer in [
        failure(504, "upstream is slow"),
        failure(500, "no storage"),
        failure(429, "too many"),
        failure(403, "no"),
    ] {
        let (result, asked) = read(answer.clone()).await;
        assert!(result.is_err() && asked == 1, "{answer:?}: {result:?} after {asked}");
    }
}
