//! Runs tests on local clusters and takes these down whatever happens.
//!
//! A test that stops or kills services of its cluster is *alone*: nothing else runs on that cluster meanwhile, and no service is
//! left from before. The others share one cluster; they wait for it most of their time, so more of them run at once than there
//! are processors. Where there are many of both kinds, those that are alone have a second cluster.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::{RwLock, Semaphore};

use crate::stack::Stack;

/// Of those that share a cluster.
const AT_ONCE: usize = 8;
/// So many of the slowest are named at the end.
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

    let chosen: Vec<Test> = tests.into_iter().filter(|test| test.soak == soak).collect();
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

/// The clusters, and whose turn it is on each.
struct Lanes {
    shared: Lane,
    alone: Lane,
    sharing: Semaphore,
    took: Mutex<Vec<(Duration, &'static str)>>,
}

#[derive(Clone)]
struct Lane {
    stack: Stack,
    turn: Arc<RwLock<()>>,
}

impl Lane {
    fn new(stack: Stack) -> Self {
        Self { stack, turn: Arc::default() }
    }
}

fn start(instance: &str, mut arguments: Arguments, tests: Vec<Test>, soak: bool) -> Result<ExitCode> {
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build()?);
    // Proofs measure, and whoever names a test waits for it: one cluster is quicker there.
    let is_two = !soak && arguments.filter.is_none() && tests.iter().any(|test| test.alone);
    let shared = Lane::new(Stack::up_in(instance)?);
    let alone = match is_two {
        true => Stack::up_in(&format!("{instance}-alone")).map(Lane::new).inspect_err(|_| {
            report(shared.stack.down());
        })?,
        false => shared.clone(),
    };
    let mut stacks = vec![shared.stack.clone()];
    if is_two {
        stacks.push(alone.stack.clone());
    }
    let on_interrupt = stacks.clone();
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_interrupt.iter().for_each(|stack| report(stack.down()));
            std::process::exit(130);
        }
    });
    // A test that waits for its turn holds a thread.
    arguments.test_threads.get_or_insert(tests.len().max(1));
    let lanes = Arc::new(Lanes { shared, alone, sharing: Semaphore::new(AT_ONCE), took: Mutex::default() });
    let trials = tests.into_iter().map(|test| trial(test, lanes.clone(), runtime.clone())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    show_slowest(&lanes);
    stacks.iter().for_each(|stack| report(stack.down()));
    Ok(conclusion.exit_code())
}

fn trial(test: Test, lanes: Arc<Lanes>, runtime: Arc<Runtime>) -> Trial {
    Trial::ignorable_test(test.name, move || {
        runtime.block_on(async {
            let (outcome, took) = if test.alone {
                let Lane { stack, turn } = &lanes.alone;
                let _nobody_else = turn.write().await;
                // Those that other tests share.
                report(crate::processes::kill_all(stack));
                let timed = timed((test.body)(stack.clone())).await;
                // What a failed test left running must not fail the next one.
                report(crate::processes::kill_all(stack));
                timed
            } else {
                let Lane { stack, turn } = &lanes.shared;
                let _one_of_few = lanes.sharing.acquire().await;
                let _with_others = turn.read().await;
                timed((test.body)(stack.clone())).await
            };
            lanes.took.lock().unwrap_or_else(PoisonError::into_inner).push((took, test.name));
            match outcome {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => match error.downcast::<Skipped>() {
                    Ok(skipped) => Ok(Completion::ignored_with(skipped.0)),
                    Err(error) => Err(Failed::from(format!("{error:#}"))),
                },
            }
        })
    })
}

async fn timed<T>(body: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (body.await, began.elapsed())
}

/// Where the time goes, for whoever wants the whole to be quicker.
fn show_slowest(lanes: &Lanes) {
    let mut took = lanes.took.lock().unwrap_or_else(PoisonError::into_inner);
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
