//! Runs tests on local clusters and takes these down whatever happens.
//!
//! A test that stops or kills services of its cluster is *alone*: nothing else runs on that cluster meanwhile, and no service is
//! left from before. The others share one cluster; they wait for it most of their time, so more of them run at once than there
//! are processors. Where there are many, those that are alone have a second cluster, and the first one too once nobody shares it.
//!
//! When a test ends, the invariants of its cluster are looked at: a violation that no test provoked on purpose fails the run. The
//! fault switches of the local AWS are reset after a test that was alone; no other may use them.
//!
//! An ordinary test that fails is tried once more, alone. Whether it passes then or not, its first failure is shown at the end:
//! it is a defect of the product or of the test, to be looked into, but one bad moment of the machine does not judge a change.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use futures::FutureExt as _;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::aws;
use crate::invariants::{Violation, Watcher};
use crate::stack::Stack;

/// Tests that run at the same time on the shared cluster.
const AT_ONCE: usize = 8;
/// More tests than this that are alone start a second cluster for them.
const WORTH_A_CLUSTER: usize = 4;
/// Slowest tests that are named at the end.
const SLOWEST: usize = 12;

type Body = fn(Stack) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Returned as an error by a test that this machine cannot run; the reason is shown.
#[derive(Debug)]
pub struct Skipped(pub String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// A named behaviour.
pub struct Test {
    pub name: &'static str,
    pub alone: bool,
    pub soak: bool,
    pub body: Body,
    /// Parts of the violations of [`crate::invariants`] that it provokes.
    pub expected: &'static [&'static str],
}

impl Test {
    /// Declares what the test provokes: parts of ERROR lines, of refused requests and of other violations. Some are never
    /// excused: see [`crate::invariants`].
    #[must_use]
    pub fn expecting(self, expected: &'static [&'static str]) -> Self {
        Self { expected, ..self }
    }
}

/// `test!(module, alone?, soak?, function)`: a [`Test`] named `module::function`.
#[macro_export]
macro_rules! test {
    ($module:literal, $function:path) => {
        $crate::test!(@ $module, $function, false, false)
    };
    ($module:literal, alone, $function:path) => {
        $crate::test!(@ $module, $function, true, false)
    };
    ($module:literal, soak, $function:path) => {
        $crate::test!(@ $module, $function, true, true)
    };
    (@ $module:literal, $function:path, $alone:literal, $soak:literal) => {
        $crate::Test {
            name: concat!($module, "::", stringify!($function)),
            alone: $alone,
            soak: $soak,
            body: |stack| Box::pin($function(stack)),
            expected: &[],
        }
    };
}

/// Entry point of the test binary. `--soak` runs the long proofs instead of the ordinary tests.
pub fn run(tests: Vec<Test>) -> ExitCode {
    run_in("test", tests)
}

/// The same on an instance of another name.
pub fn run_in(instance: &str, tests: Vec<Test>) -> ExitCode {
    let mut words: Vec<String> = std::env::args().collect();
    let soak = words.iter().any(|word| word == "--soak");
    words.retain(|word| word != "--soak");
    let arguments = Arguments::from_iter(words);

    let chosen: Vec<Test> =
        tests.into_iter().filter(|test| test.soak == soak && is_asked_for(&arguments, test.name)).collect();
    if arguments.list {
        let trials = chosen.iter().map(|test| Trial::test(test.name, || Ok(()))).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    match start(instance, arguments, chosen, soak) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_asked_for(arguments: &Arguments, name: &str) -> bool {
    let matches = |pattern: &String| if arguments.exact { name == pattern } else { name.contains(pattern) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// A cluster and what is watched on it.
#[derive(Clone)]
struct Lane {
    stack: Stack,
    watcher: Arc<Watcher>,
}

impl Lane {
    fn new(stack: Stack, runtime: &Runtime) -> Self {
        Self { watcher: Arc::new(Watcher::new(stack.clone(), runtime.handle())), stack }
    }
}

/// The clusters, and whose turn it is on each.
struct Lanes {
    shared: Lane,
    sharing: Semaphore,
    /// Tests that still want to share.
    left: AtomicUsize,
    /// Clusters that nobody uses, a permit each.
    free: Mutex<Vec<Lane>>,
    turns: Semaphore,
    took: Mutex<Vec<(Duration, &'static str)>>,
    violations: Mutex<Vec<Violation>>,
    /// Proofs are judged at once: they ran alone, and long.
    soak: bool,
    /// Tests that did not pass the first time, and why.
    unsteady: Mutex<Vec<(&'static str, String)>>,
}

impl Lanes {
    async fn run(&self, test: &Test) -> Result<()> {
        let first = if test.alone { self.run_alone(test).await } else { self.run_shared(test).await };
        match first {
            Err(error) if !self.soak && !error.is::<Skipped>() => {
                eprintln!("{} failed and is tried again: {error:#}", test.name);
                locked(&self.unsteady).push((test.name, format!("{error:#}")));
                self.run_alone(test).await
            }
            outcome => outcome,
        }
    }

    async fn run_alone(&self, test: &Test) -> Result<()> {
        let turn = self.turns.acquire().await?;
        let lane = locked(&self.free).pop().context("a permit without a cluster")?;
        let outcome = self.timed(test, &lane, lane.stack.clone()).await;
        clean_up(&lane);
        locked(&self.free).push(lane);
        drop(turn);
        outcome
    }

    async fn run_shared(&self, test: &Test) -> Result<()> {
        let turn = self.sharing.acquire().await?;
        let outcome = self.timed(test, &self.shared, self.shared.stack.without_faults()).await;
        drop(turn);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.release_shared();
        }
        outcome
    }

    fn release_shared(&self) {
        clean_up(&self.shared);
        locked(&self.free).push(self.shared.clone());
        self.turns.add_permits(1);
    }

    async fn timed(&self, test: &Test, lane: &Lane, stack: Stack) -> Result<()> {
        let began = Instant::now();
        lane.watcher.begin(test.name, test.expected);
        // A test that panics gives its turn back as well.
        let outcome = AssertUnwindSafe((test.body)(stack)).catch_unwind().await;
        let violations = lane.watcher.end(test.name).await;
        locked(&self.violations).extend(violations);
        locked(&self.took).push((began.elapsed(), test.name));
        outcome.unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(anyhow!("panicked: {}", words.unwrap_or("without words")))
        })
    }
}

/// What a test left running or switched on must not reach the next one.
fn clean_up(lane: &Lane) {
    report(crate::processes::kill_all(&lane.stack));
    report(aws::reset(&lane.stack));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(instance: &str, mut arguments: Arguments, tests: Vec<Test>, soak: bool) -> Result<ExitCode> {
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build()?);
    let sharing = tests.iter().filter(|test| !test.alone).count();
    // Proofs measure, and for a few another cluster is not worth its start.
    let is_two = !soak && tests.len() - sharing > WORTH_A_CLUSTER;
    let shared = Stack::up_in(instance)?;
    let mut stacks = vec![shared.clone()];
    if is_two {
        match Stack::up_in(&format!("{instance}-alone")) {
            Ok(stack) => stacks.push(stack),
            Err(error) => {
                report(shared.down());
                return Err(error);
            }
        }
    }
    let on_interrupt = stacks.clone();
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.iter().for_each(|stack| report(stack.down()));
            std::process::exit(130);
        }
    });
    // A test that waits for its turn holds a thread.
    arguments.test_threads.get_or_insert_with(|| tests.len().max(1));
    let lanes = Arc::new(Lanes {
        shared: Lane::new(shared, &runtime),
        sharing: Semaphore::new(AT_ONCE),
        left: AtomicUsize::new(sharing),
        turns: Semaphore::new(stacks.len() - 1),
        free: Mutex::new(stacks[1..].iter().map(|stack| Lane::new(stack.clone(), &runtime)).collect()),
        took: Mutex::default(),
        violations: Mutex::default(),
        soak,
        unsteady: Mutex::default(),
    });
    if sharing == 0 {
        lanes.release_shared();
    }
    let trials = tests.into_iter().map(|test| trial(test, lanes.clone(), runtime.clone())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    show_slowest(&lanes);
    stacks.iter().for_each(|stack| report(stack.down()));
    for (name, error) in locked(&lanes.unsteady).iter() {
        eprintln!("failed the first time: {name}: {error}");
    }
    let is_sound = show_violations(&locked(&lanes.violations));
    Ok(if is_sound { conclusion.exit_code() } else { ExitCode::FAILURE })
}

/// Whether the run may pass.
fn show_violations(all: &[Violation]) -> bool {
    for violation in all {
        eprintln!("INVARIANT BROKEN while {} ran: {}", violation.during, violation.what);
    }
    eprintln!("invariants: {} broken", all.len());
    all.is_empty()
}

fn trial(test: Test, lanes: Arc<Lanes>, runtime: Arc<Runtime>) -> Trial {
    Trial::ignorable_test(test.name, move || match runtime.block_on(lanes.run(&test)) {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast::<Skipped>() {
            Ok(skipped) => Ok(Completion::ignored_with(skipped.0)),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

/// Where the time goes, for whoever wants the whole to be quicker.
fn show_slowest(lanes: &Lanes) {
    let mut took = locked(&lanes.took);
    if took.len() < SLOWEST {
        return;
    }
    took.sort_by(|a, b| b.cmp(a));
    eprintln!("slowest of {}:", took.len());
    for (took, name) in took.iter().take(SLOWEST) {
        eprintln!("{:>6.1} s  {name}", took.as_secs_f64());
    }
}

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("clean-up failed: {error:#}");
    }
}
