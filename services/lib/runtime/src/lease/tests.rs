//! The elector against a Lease that behaves like the API server's: versions, conflicts, and silence when it is away.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::{
    Service,
    events::{self, Recorder},
    notes,
    testing::{Asked, Reply, api_server},
};

#[derive(Default)]
struct Store {
    lease: Option<Value>,
    versions: u64,
    /// Karpenter's own Lease.
    reference: Option<Value>,
}

impl Store {
    fn answer(&mut self, asked: Asked) -> Reply {
        let mut write = |mut lease: Value, lease_slot: &mut Option<Value>| {
            self.versions += 1;
            lease["metadata"]["resourceVersion"] = json!(self.versions.to_string());
            *lease_slot = Some(lease.clone());
            Reply::Json(200, lease)
        };
        if asked.target.contains(reference::LEASE) {
            return self
                .reference
                .clone()
                .map_or_else(|| Reply::error(404, "NotFound"), |lease| Reply::Json(200, lease));
        }
        match (asked.method, &mut self.lease) {
            (Method::GET, None) => Reply::error(404, "NotFound"),
            (Method::GET, Some(lease)) => Reply::Json(200, lease.clone()),
            (Method::POST, Some(_)) => Reply::error(409, "AlreadyExists"),
            (Method::POST, slot @ None) => write(asked.body, slot),
            (Method::PUT, slot @ Some(_)) => {
                let live = slot.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
                if live.as_ref() != Some(&asked.body["metadata"]["resourceVersion"]) {
                    return Reply::error(409, "Conflict");
                }
                write(asked.body, slot)
            }
            (method, _) => panic!("unexpected {method} {}", asked.target),
        }
    }
}

struct Replica {
    leadership: Leadership,
    readiness: crate::Readiness,
    stop: CancellationToken,
    away: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

#[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
fn replica(name: &str, store: &Arc<Mutex<Store>>) -> Replica {
    let away = Arc::new(AtomicBool::new(false));
    let (store, cut) = (store.clone(), away.clone());
    let client = api_server(move |asked| match cut.load(Ordering::SeqCst) {
        true => Reply::Silence,
        false => store.lock().unwrap().answer(asked),
    });
    let metrics = Metrics::new(Service::Provisioner);
    let (elector, leadership) =
        Elector::new(client, "kube-system", "karpenter-provisioner", name, Timing::default(), metrics);
    let readiness = crate::Readiness::default();
    let elector = elector.after_karpenter(readiness.note("karpenter"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(elector.run(stop.clone()));
    Replica { leadership, readiness, stop, away, task }
}

fn holder(store: &Mutex<Store>) -> String {
    let store = store.lock().unwrap();
    store
        .lease
        .as_ref()
        .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_the_lease_over_within_one_retry() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    drop(a.leadership.term().await);
    let mut b = replica("b", &store);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(a.leadership.is_leader() && !b.leadership.is_leader());

    let stopped = Instant::now();
    a.stop.cancel();
    let term = b.leadership.term().await;
    assert!(stopped.elapsed() < Duration::from_secs(3), "{:?}", stopped.elapsed());
    assert!(!a.leadership.is_leader() && !term.lost().is_cancelled());
    assert_eq!(holder(&store), "b");
    a.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_from_the_api_stops_before_another_begins_and_follows_when_it_is_back() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    let lost = a.leadership.term().await.lost();
    let mut b = replica("b", &store);
    tokio::time::sleep(Duration::from_secs(30)).await;

    let cut = Instant::now();
    a.away.store(true, Ordering::SeqCst);
    lost.cancelled().await;
    let lost_after = cut.elapsed();
    assert!(lost_after <= Duration::from_secs(10), "{lost_after:?}");
    assert!(!a.leadership.is_leader() && !b.leadership.is_leader(), "a gap, never an overlap");
    drop(b.leadership.term().await);
    let taken_after = cut.elapsed();
    assert!(taken_after > lost_after && taken_after < Duration::from_secs(25), "{taken_after:?}");

    a.away.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(b.leadership.is_leader() && !a.leadership.is_leader());
    assert!(!a.task.is_finished(), "it stays as a follower");
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_not_given_back_while_the_leaders_work_goes_on() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    let term = a.leadership.term().await;
    a.stop.cancel();
    term.lost().cancelled().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(holder(&store), "a");
    drop(term);
    a.task.await.unwrap().unwrap();
    assert_eq!(holder(&store), "");
}

#[tokio::test(start_paused = true)]
async fn work_runs_once_in_every_term_and_is_told_when_its_term_ends() {
    let store = Arc::new(Mutex::new(Store::default()));
    let a = replica("a", &store);
    let (terms, stop) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
    let log = terms.clone();
    let work = a.leadership.clone().lead(stop.clone(), move |lost| {
        let log = log.clone();
        async move {
            log.lock().unwrap().push("begins");
            lost.cancelled().await;
            log.lock().unwrap().push("ends");
            Ok(())
        }
    });
    let script = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        a.away.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(30)).await;
        a.away.store(false, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(30)).await;
        stop.cancel();
        a.stop.cancel();
    };
    let (worked, ()) = tokio::join!(work, script);
    worked.unwrap();
    assert_eq!(*terms.lock().unwrap(), ["begins", "ends", "begins", "ends"]);
}

#[tokio::test(start_paused = true)]
async fn changes_of_leadership_are_told_to_whoever_waits() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    assert!(a.leadership.changed().await);
    a.away.store(true, Ordering::SeqCst);
    assert!(!a.leadership.changed().await);
    a.away.store(false, Ordering::SeqCst);
    assert!(a.leadership.changed().await);
}

#[tokio::test]
async fn without_election_the_replica_leads_until_it_stops() {
    let stop = CancellationToken::new();
    let mut alone = Leadership::always(&stop);
    let term = alone.term().await;
    assert!(alone.is_leader());
    stop.cancel();
    term.lost().cancelled().await;
    assert!(!alone.is_leader());
}

/// Two workers that both wait for ever are a process that is there and does nothing.
#[test]
fn asking_who_leads_while_the_lease_is_renewed_never_blocks() {
    let reign = Reign { until: Instant::now() + Duration::from_secs(3600), lost: CancellationToken::new() };
    let sender = watch::Sender::new(Some(reign.clone()));
    let leadership = Leadership { reign: sender.subscribe(), work: TaskTracker::new(), _keep: None };
    let (done, finished) = std::sync::mpsc::channel();
    for _ in 0..3 {
        let (leadership, done) = (leadership.clone(), done.clone());
        std::thread::spawn(move || {
            let led = (0..200_000).all(|_| leadership.until_lost().is_some() && leadership.is_leader());
            done.send(led)
        });
    }
    std::thread::spawn(move || {
        (0..200_000).for_each(|_| drop(sender.send_replace(Some(reign.clone()))));
        done.send(true)
    });
    for _ in 0..4 {
        // Far longer than it takes; a thread that hangs must not hang the test.
        assert_eq!(finished.recv_timeout(Duration::from_secs(120)), Ok(true));
    }
}

fn of_karpenter(version: u64, age: jiff::SignedDuration) -> Value {
    let renewed = jiff::Timestamp::now() - age;
    json!({
        "metadata": {"name": reference::LEASE, "resourceVersion": version.to_string()},
        "spec": {"holderIdentity": "karpenter-1", "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
    })
}

#[tokio::test(start_paused = true)]
async fn nobody_leads_while_karpenter_does_and_a_leader_stops_when_it_comes_back() {
    let store = Arc::new(Mutex::new(Store::default()));
    let fresh = jiff::SignedDuration::ZERO;
    store.lock().unwrap().reference = Some(of_karpenter(1, fresh));
    let mut a = replica("a", &store);
    for version in 2..30 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.lock().unwrap().reference = Some(of_karpenter(version, fresh));
        assert!(!a.leadership.is_leader());
    }
    assert!(a.readiness.notes()[0].contains("karpenter-leader-election"), "{:?}", a.readiness.notes());
    // It was killed: its Lease is not renewed any more.
    let lost = a.leadership.term().await.lost();
    assert!(a.readiness.notes().is_empty());
    store.lock().unwrap().reference = Some(of_karpenter(99, fresh));
    let came = Instant::now();
    lost.cancelled().await;
    assert!(came.elapsed() < Duration::from_secs(20), "{:?}", came.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_event_about_the_pod_says_that_karpenter_stops_our_writers_and_another_that_it_is_gone() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    let lost = a.leadership.term().await.lost();
    let written = Arc::new(Mutex::new(Vec::<Value>::new()));
    let log = written.clone();
    let client = api_server(move |asked| {
        log.lock().unwrap().push(asked.body.clone());
        Reply::Json(201, asked.body)
    });
    let (writer, recorder) = Recorder::new(client, "a", Metrics::new(Service::Provisioner));
    let stop = CancellationToken::new();
    let about = events::pod("kube-system", "a", "");
    let script = async {
        store.lock().unwrap().reference = Some(of_karpenter(1, jiff::SignedDuration::ZERO));
        lost.cancelled().await;
        // Nobody renews it: after its duration this replica leads again.
        drop(a.leadership.term().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    let telling = notes::tell(a.readiness.clone(), about, recorder, stop.clone());
    let (wrote, told, ()) = tokio::join!(writer.run(stop.clone()), telling, script);
    wrote.and(told).unwrap();

    let written = written.lock().unwrap().clone();
    let [begun, ended] = written.as_slice() else { panic!("two events, not {written:?}") };
    assert_eq!((&begun["type"], &begun["reason"]), (&json!("Warning"), &json!("Degraded")));
    assert_eq!(begun["involvedObject"]["kind"], "Pod");
    assert_eq!(
        (&begun["involvedObject"]["name"], &begun["metadata"]["namespace"]),
        (&json!("a"), &json!("kube-system"))
    );
    assert_eq!(
        begun["message"],
        "karpenter: Karpenter itself leads here (Lease karpenter-leader-election, held by karpenter-1), so this service writes \
         nothing; scale its Deployment to 0"
    );
    assert_eq!((&ended["type"], &ended["reason"]), (&json!("Normal"), &json!("Recovered")));
    assert_eq!(ended["message"], "karpenter: works again");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_karpenter_left_long_ago_costs_no_time() {
    let store = Arc::new(Mutex::new(Store::default()));
    store.lock().unwrap().reference = Some(of_karpenter(1, jiff::SignedDuration::from_hours(2)));
    let began = Instant::now();
    let mut a = replica("a", &store);
    drop(a.leadership.term().await);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_not_given_back_while_a_term_is_held() {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut a = replica("a", &store);
    drop(a.leadership.term().await);
    let term = a.leadership.held().expect("leads");
    a.stop.cancel();
    term.lost().cancelled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(holder(&store), "a");
    drop(term);
    a.task.await.unwrap().unwrap();
    assert_eq!(holder(&store), "");
    assert!(a.leadership.held().is_none());
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
async fn without_election_too_nobody_acts_while_karpenter_does() {
    let store = Arc::new(Mutex::new(Store::default()));
    store.lock().unwrap().reference = Some(of_karpenter(1, jiff::SignedDuration::ZERO));
    let (shared, away) = (store.clone(), Arc::new(AtomicBool::new(false)));
    let cut = away.clone();
    let client = api_server(move |asked| match cut.load(Ordering::SeqCst) {
        true => Reply::Silence,
        false => shared.lock().unwrap().answer(asked),
    });
    let readiness = crate::Readiness::default();
    let (unelected, mut leadership) =
        Unelected::new(client, "kube-system", Timing::default(), readiness.note("karpenter"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(unelected.run(stop.clone()));
    for version in 2..30 {
        assert!(!leadership.is_leader());
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.lock().unwrap().reference = Some(of_karpenter(version, jiff::SignedDuration::ZERO));
    }
    assert!(readiness.notes()[0].contains("karpenter-leader-election"), "{:?}", readiness.notes());
    let term = leadership.term().await;
    assert!(readiness.notes().is_empty(), "it renews no more");
    // Nothing can be written while the API server is away, so that nothing is gained by giving up.
    away.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!term.lost().is_cancelled() && leadership.is_leader());
    away.store(false, Ordering::SeqCst);
    store.lock().unwrap().reference = Some(of_karpenter(99, jiff::SignedDuration::ZERO));
    let came = Instant::now();
    term.lost().cancelled().await;
    assert!(came.elapsed() < Duration::from_secs(20), "{:?}", came.elapsed());
    let term = leadership.term().await;
    assert!(store.lock().unwrap().lease.is_none(), "no Lease of its own is ever held");
    stop.cancel();
    assert!(term.lost().is_cancelled(), "the process ends");
    task.await.unwrap().unwrap();
}
