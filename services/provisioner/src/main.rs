//! The process around [`provisioner`].

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::main(runtime::Service::Provisioner, provisioner::start)
}
