use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

/// Answers what it is told to, when it is told to.
#[derive(Default)]
struct Scripted {
    calls: AtomicUsize,
    answers: Mutex<VecDeque<Result<bool, Status>>>,
    go: Notify,
}

impl Termination for Arc<Scripted> {
    async fn terminate(&self, request: TerminateRequest) -> Result<TerminateResponse, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.go.notified().await;
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Ok(false));
        answer.map(|already_deleting| TerminateResponse { already_deleting, deadline: request.deadline })
    }
}

fn removal(uid: &str, deadline: Option<i64>) -> Removal {
    let object = serde_json::json!({"metadata": {"name": "a", "uid": uid}});
    let claim = Claim::of(&serde_json::from_value(object).unwrap()).unwrap();
    let deadline = deadline.map(|second| Timestamp::from_second(second).unwrap());
    Removal { claim: Arc::new(claim), reason: "spot_interrupted", deadline }
}

struct Bench {
    termination: Arc<Scripted>,
    handover: Handover,
    tasks: JoinSet<anyhow::Result<()>>,
}

fn bench(answers: Vec<Result<bool, Status>>) -> Bench {
    let termination = Arc::new(Scripted { answers: Mutex::new(answers.into()), ..Scripted::default() });
    let (actor, handover) = Actor::new(Arc::clone(&termination));
    let mut tasks = JoinSet::new();
    tasks.spawn(actor.run(CancellationToken::new()));
    Bench { termination, handover, tasks }
}

#[tokio::test]
async fn duplicates_become_one_call_and_only_one_of_them_removed_the_claim() {
    let mut bench = bench(vec![]);
    let ask = || bench.handover.remove(removal("1", Some(5)));
    let (first, second, third, ()) = tokio::join!(ask(), ask(), ask(), async {
        while bench.termination.calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        bench.termination.go.notify_one();
    });
    let outcomes = [first, second, third].map(Result::unwrap);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Removed).count(), 1, "{outcomes:?}");
    assert_eq!(ask().await.unwrap(), Outcome::Already, "known without asking");
    assert_eq!(bench.termination.calls.load(Ordering::SeqCst), 1);
    bench.tasks.abort_all();
}

#[tokio::test]
async fn an_earlier_deadline_and_a_failure_are_asked_again() {
    let away = Status::unavailable("no leader");
    let mut bench = bench(vec![Err(away), Ok(false), Ok(true)]);
    bench.termination.go.notify_one();
    assert!(matches!(bench.handover.remove(removal("1", Some(5))).await, Err(Failure::Away(_))));
    bench.termination.go.notify_one();
    assert_eq!(bench.handover.remove(removal("1", Some(5))).await.unwrap(), Outcome::Removed);
    bench.termination.go.notify_one();
    assert_eq!(bench.handover.remove(removal("1", Some(4))).await.unwrap(), Outcome::Already);
    assert_eq!(bench.handover.remove(removal("1", Some(9))).await.unwrap(), Outcome::Already);
    assert_eq!(bench.handover.remove(removal("1", None)).await.unwrap(), Outcome::Already);
    assert_eq!(bench.termination.calls.load(Ordering::SeqCst), 3, "later deadlines are met already");
    bench.tasks.abort_all();
}

#[tokio::test]
async fn an_earlier_deadline_waits_for_the_call_under_way_and_is_then_asked_for() {
    let mut bench = bench(vec![Ok(false), Ok(true)]);
    let (first, second, ()) = tokio::join!(
        bench.handover.remove(removal("1", None)),
        bench.handover.remove(removal("1", Some(5))),
        async {
            for calls in 1..=2 {
                while bench.termination.calls.load(Ordering::SeqCst) < calls {
                    tokio::task::yield_now().await;
                }
                bench.termination.go.notify_one();
            }
        }
    );
    assert_eq!((first.unwrap(), second.unwrap()), (Outcome::Removed, Outcome::Already));
    assert_eq!(bench.termination.calls.load(Ordering::SeqCst), 2);
    bench.tasks.abort_all();
}

#[test]
fn refusals_are_told_apart_by_whose_fault_they_are() {
    let precondition = |reason| errors::status(Code::FailedPrecondition, reason, "words", []);
    assert!(matches!(failed(precondition("UID_MISMATCH")), Ok(Outcome::Gone)));
    assert!(matches!(failed(errors::not_leader(None)), Err(Failure::Away(_))));
    assert!(matches!(failed(precondition("NOT_MANAGED")), Err(Failure::Refused(_))));
    for away in [Code::Unavailable, Code::DeadlineExceeded, Code::PermissionDenied] {
        assert!(matches!(failed(Status::new(away, "x")), Err(Failure::Away(_))), "{away:?}");
    }
    for refused in [Code::InvalidArgument, Code::Internal, Code::NotFound, Code::Unknown] {
        assert!(matches!(failed(Status::new(refused, "x")), Err(Failure::Refused(_))), "{refused:?}");
    }
}
