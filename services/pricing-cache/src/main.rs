//! The process around [`pricing_cache`].

use std::process::ExitCode;

fn main() -> ExitCode {
    runtime::main(runtime::Service::PricingCache, pricing_cache::start)
}
