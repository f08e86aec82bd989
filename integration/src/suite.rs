//! Runs tests on one local cluster and takes it down whatever happens.
//!
//! A test that stops or kills services of the cluster is *alone*: nothing else runs beside it, and no service is left from
//! before. The others wait for the cluster most of their time, so more of them run at once than there are processors.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::RwLock;

use crate::stack::Stack;

const AT_ONCE: usize = 8;

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
    let mut arguments = Arguments::from_iter(words);
    arguments.test_threads.get_or_insert(AT_ONCE);

    let chosen: Vec<Test> = tests.into_iter().filter(|test| test.soak == soak).collect();
    if arguments.list {
        let trials = chosen.iter().map(|test| Trial::test(test.name, || Ok(()))).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    match start(instance, &arguments, chosen) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(instance: &str, arguments: &Arguments, tests: Vec<Test>) -> Result<ExitCode> {
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build()?);
    let stack = Stack::up_in(instance)?;
    let on_interrupt = stack.clone();
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            report(on_interrupt.down());
            std::process::exit(130);
        }
    });
    let turn = Arc::new(RwLock::new(()));
    let trials =
        tests.into_iter().map(|test| trial(test, stack.clone(), runtime.clone(), turn.clone())).collect();
    let conclusion = libtest_mimic::run(arguments, trials);
    report(stack.down());
    Ok(conclusion.exit_code())
}

fn trial(test: Test, stack: Stack, runtime: Arc<Runtime>, turn: Arc<RwLock<()>>) -> Trial {
    Trial::ignorable_test(test.name, move || {
        runtime.block_on(async {
            let body = (test.body)(stack.clone());
            let outcome = if test.alone {
                let _nobody_else = turn.write().await;
                // Those that other tests share.
                report(crate::processes::kill_all(&stack));
                let outcome = body.await;
                // What a failed test left running must not fail the next one.
                report(crate::processes::kill_all(&stack));
                outcome
            } else {
                let _with_others = turn.read().await;
                body.await
            };
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

fn report(outcome: Result<()>) {
    if let Err(error) = outcome {
        eprintln!("clean-up failed: {error:#}");
    }
}
