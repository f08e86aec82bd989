//! The process around [`termination`].

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::main(runtime::Service::Termination, termination::start)
}
