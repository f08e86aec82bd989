//! The process around [`interruption_watcher`].

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::main(runtime::Service::InterruptionWatcher, interruption_watcher::start)
}
