//! Watches against a scripted API server: what a real one does only under stress.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::*;
use crate::{
    Readiness, Service,
    testing::{Asked, Reply, api_server},
};

fn pod(name: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "resourceVersion": version.to_string(),
            "managedFields": [{ "manager": "kubectl" }],
        },
        "spec": { "containers": [] },
    })
}

fn malformed(name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "resourceVersion": "11" }, "spec": { "containers": "not a list" } })
}

fn list(version: u64, items: Vec<Value>) -> Reply {
    Reply::Json(200, json!({ "metadata": { "resourceVersion": version.to_string() }, "items": items }))
}

fn event(kind: &str, object: Value) -> Value {
    let mut object = object;
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    json!({ "type": kind, "object": object })
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.name_any()).collect()
}

/// Managed fields only cost memory, and the spec is what these watches take off.
fn assert_slim(pod: &Pod) {
    assert!(pod.metadata.managed_fields.is_none() && pod.spec.is_none(), "{pod:?}");
}

/// Every change as a word, for comparison.
#[derive(Clone)]
struct Log(mpsc::Sender<String>);

impl Index<Pod> for Log {
    async fn change(&mut self, change: Change<Pod>) {
        let text = match change {
            Change::Applied(pod) => {
                assert_slim(&pod);
                format!("+{}", pod.name_any())
            }
            Change::Deleted(pod) => format!("-{}", pod.name_any()),
            Change::Reset(pods) => {
                pods.iter().for_each(|pod| assert_slim(pod));
                format!("={}", names(&pods).join(","))
            }
        };
        self.0.send(text).await.unwrap();
    }
}

struct Run {
    changes: mpsc::Receiver<String>,
    metrics: Metrics,
    readiness: Readiness,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

#[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
fn run(script: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Run {
    let (sender, changes) = mpsc::channel(64);
    let metrics = Metrics::new(Service::Provisioner);
    let readiness = Readiness::default();
    let synced = readiness.check("pods", "first list");
    let stop = CancellationToken::new();
    let watch = Watch::<Pod>::all(api_server(script)).slimmed(|pod| pod.spec = None);
    let task = tokio::spawn(watch.run(Log(sender), metrics.clone(), synced, stop.clone()));
    Run { changes, metrics, readiness, stop, task }
}

#[tokio::test(start_paused = true)]
async fn malformed_objects_are_counted_and_left_out_and_the_others_go_on() {
    let mut run = run(|asked| {
        if asked.target.contains("watch=true") {
            return Reply::OpenAfter(vec![
                event("ADDED", malformed("bad-2")),
                event("MODIFIED", malformed("bad-2")),
                event("ADDED", pod("c", 12)),
                event("DELETED", pod("a", 13)),
            ]);
        }
        list(10, vec![pod("a", 1), malformed("bad-1"), pod("b", 2)])
    });
    assert!(!run.readiness.is_ready());
    assert_eq!(run.changes.recv().await.unwrap(), "=a,b");
    assert_eq!(run.changes.recv().await.unwrap(), "+c");
    assert_eq!(run.changes.recv().await.unwrap(), "-a");
    assert!(run.readiness.is_ready());
    let text = run.metrics.prometheus_text();
    assert!(text.contains("karpenter_watch_malformed_objects_total{kind=\"Pod\"} 3"), "{text}");
    run.stop.cancel();
    run.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_expired_resource_version_leads_to_a_new_list_in_one_piece() {
    let lists = AtomicUsize::new(0);
    let mut run = run(move |asked| {
        if !asked.target.contains("watch=true") {
            return match lists.fetch_add(1, Ordering::SeqCst) {
                0 => list(10, vec![pod("a", 1), pod("b", 2)]),
                _ => list(20, vec![pod("b", 15), pod("c", 16)]),
            };
        }
        if asked.target.contains("resourceVersion=10") {
            let gone = json!({ "kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410 });
            return Reply::Lines(vec![json!({ "type": "ERROR", "object": gone })]);
        }
        Reply::OpenAfter(vec![])
    });
    assert_eq!(run.changes.recv().await.unwrap(), "=a,b");
    assert_eq!(run.changes.recv().await.unwrap(), "=b,c");
    assert!(run.metrics.prometheus_text().contains("karpenter_watch_errors_total{kind=\"Pod\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_away_for_a_minute_is_not_pestered_and_noticed_soon_after_its_return() {
    let asked = Arc::new(Mutex::new(Vec::<Instant>::new()));
    let (log, began) = (asked.clone(), Instant::now());
    let minute = Duration::from_secs(60);
    let mut run = run(move |request| {
        log.lock().unwrap().push(Instant::now());
        match began.elapsed() < minute {
            true => Reply::Broken,
            false if request.target.contains("watch=true") => Reply::OpenAfter(vec![]),
            false => list(1, vec![pod("a", 1)]),
        }
    });
    assert_eq!(run.changes.recv().await.unwrap(), "=a");
    let took = began.elapsed();
    assert!(took < minute + Duration::from_secs(11), "noticed after {took:?}");
    let tries = asked.lock().unwrap().len();
    assert!((6..60).contains(&tries), "{tries} tries in a minute");
    assert!(!run.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn one_watch_feeds_several_indexes_in_the_same_order() {
    let (left, mut seen_left) = mpsc::channel(8);
    let (right, mut seen_right) = mpsc::channel(8);
    let mut both = (Log(left), Log(right));
    both.change(Change::Reset(vec![])).await;
    let object: Pod = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    both.change(Change::Applied(Arc::new(object))).await;
    for seen in [&mut seen_left, &mut seen_right] {
        assert_eq!(
            (seen.recv().await.unwrap(), seen.recv().await.unwrap()),
            ("=".to_owned(), "+a".to_owned())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_comes_object_by_object_and_says_when_it_is_complete() {
    struct Word(String);
    impl From<Streamed<Pod>> for Word {
        fn from(change: Streamed<Pod>) -> Self {
            Self(match change {
                Streamed::Listing => "[".to_owned(),
                Streamed::Applied(pod) => format!("+{}", pod.name_any()),
                Streamed::Deleted(pod) => format!("-{}", pod.name_any()),
                Streamed::Listed => "]".to_owned(),
            })
        }
    }
    let client = api_server(|asked| {
        if asked.target.contains("watch=true") {
            return Reply::OpenAfter(vec![event("DELETED", pod("a", 13))]);
        }
        list(10, vec![pod("a", 1), malformed("bad"), pod("b", 2)])
    });
    let (sender, mut changes) = mpsc::channel::<Word>(1);
    let (readiness, stop) = (Readiness::default(), CancellationToken::new());
    let synced = readiness.check("pods", "first list");
    let metrics = Metrics::new(Service::Provisioner);
    #[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
    let task = tokio::spawn(Watch::<Pod>::all(client).run_streamed(sender, metrics, synced, stop.clone()));
    let mut seen = Vec::new();
    while seen.last().is_none_or(|word| word != "-a") {
        seen.push(changes.recv().await.unwrap().0);
    }
    assert_eq!(seen, ["[", "+a", "+b", "]", "-a"]);
    assert!(readiness.is_ready());
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_that_does_not_parse_any_more_leaves_the_index() {
    let lists = AtomicUsize::new(0);
    let mut run = run(move |asked| {
        if !asked.target.contains("watch=true") {
            return match lists.fetch_add(1, Ordering::SeqCst) {
                0 => list(10, vec![pod("a", 1), pod("b", 2)]),
                _ => list(20, vec![pod("b", 2)]),
            };
        }
        match asked.target.contains("resourceVersion=10") {
            true => Reply::OpenAfter(vec![event("DELETED", malformed("a"))]),
            false => Reply::OpenAfter(vec![]),
        }
    });
    assert_eq!(run.changes.recv().await.unwrap(), "=a,b");
    assert_eq!(run.changes.recv().await.unwrap(), "=b");
}

#[tokio::test(start_paused = true)]
async fn an_object_updated_to_something_that_does_not_parse_leaves_the_index_at_the_cost_of_one_list() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = lists.clone();
    let mut run = run(move |asked| {
        if !asked.target.contains("watch=true") {
            return match counted.fetch_add(1, Ordering::SeqCst) {
                0 => list(10, vec![pod("a", 1), pod("b", 2)]),
                _ => list(20, vec![malformed("a"), pod("b", 2)]),
            };
        }
        match asked.target.contains("resourceVersion=10") {
            true => Reply::OpenAfter(vec![event("MODIFIED", malformed("a")), event("ADDED", pod("c", 11))]),
            // From here on no index holds it: neither its updates nor its deletion change anything.
            false => Reply::OpenAfter(vec![
                event("MODIFIED", malformed("a")),
                event("DELETED", malformed("a")),
                event("ADDED", pod("d", 21)),
            ]),
        }
    });
    assert_eq!(run.changes.recv().await.unwrap(), "=a,b");
    assert_eq!(run.changes.recv().await.unwrap(), "+c", "the others go on meanwhile");
    assert_eq!(run.changes.recv().await.unwrap(), "=b");
    assert_eq!(run.changes.recv().await.unwrap(), "+d");
    // Less than the server's own time for a watch: only a list that we want could come.
    tokio::time::sleep(LIST_AGAIN * 3).await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_word_is_opened_again_within_75_seconds() {
    let watches = Arc::new(Mutex::new(Vec::<Instant>::new()));
    let log = watches.clone();
    let mut run = run(move |asked| {
        if !asked.target.contains("watch=true") {
            return list(10, vec![pod("a", 1)]);
        }
        assert!(asked.target.contains("timeoutSeconds=60"), "{}", asked.target);
        let mut watches = log.lock().unwrap();
        watches.push(Instant::now());
        match watches.len() {
            1 => Reply::OpenAfter(vec![]),
            _ => Reply::OpenAfter(vec![event("ADDED", pod("b", 11))]),
        }
    });
    assert_eq!(run.changes.recv().await.unwrap(), "=a");
    assert_eq!(run.changes.recv().await.unwrap(), "+b");
    let watches = watches.lock().unwrap().clone();
    let silent = watches[1] - watches[0];
    assert!(silent <= Duration::from_secs(75), "{silent:?}");
}
