//! The process around [`disruption`].

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::main(runtime::Service::Disruption, disruption::start)
}
