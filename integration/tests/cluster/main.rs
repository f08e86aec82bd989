//! The behaviours of the running product, on one local cluster. Each file is one subject.

use std::process::ExitCode;

mod crds;
mod disruption;
mod disruption_bad_input;
mod disruption_limits;
mod disruption_methods;
mod disruption_scene;
mod disruption_soak;
mod interruption;
mod interruption_replacement;
mod interruption_scene;
mod interruption_soak;
mod leases;
mod lifecycle;
mod nodeclass;
mod outage;
mod pricing;
mod pricing_bad_input;
mod pricing_cli;
mod pricing_credentials;
mod pricing_facts;
mod pricing_placement;
mod pricing_scene;
mod pricing_sources;
mod provisioning;
mod provisioning_markets;
mod provisioning_placement;
mod provisioning_sizes;
mod provisioning_soak;
mod real_node;
mod removal_scene;
mod rpc_access;
mod termination;
mod termination_asked;
mod termination_bad_input;
mod termination_garbage;
mod termination_soak;
mod traces;

fn main() -> ExitCode {
    let mut tests = Vec::new();
    tests.extend(crds::tests());
    tests.extend(rpc_access::tests());
    tests.extend(leases::tests());
    tests.extend(interruption::tests());
    tests.extend(interruption_replacement::tests());
    tests.extend(interruption_soak::tests());
    tests.extend(outage::tests());
    tests.extend(lifecycle::tests());
    tests.extend(nodeclass::tests());
    tests.extend(provisioning::tests());
    tests.extend(provisioning_markets::tests());
    tests.extend(provisioning_placement::tests());
    tests.extend(provisioning_sizes::tests());
    tests.extend(provisioning_soak::tests());
    tests.extend(real_node::tests());
    tests.extend(termination::tests());
    tests.extend(termination_bad_input::tests());
    tests.extend(termination_garbage::tests());
    tests.extend(termination_asked::tests());
    tests.extend(termination_soak::tests());
    tests.extend(disruption::tests());
    tests.extend(disruption_limits::tests());
    tests.extend(disruption_methods::tests());
    tests.extend(disruption_bad_input::tests());
    tests.extend(disruption_soak::tests());
    tests.extend(traces::tests());
    tests.extend(pricing::tests());
    tests.extend(pricing_sources::tests());
    tests.extend(pricing_bad_input::tests());
    tests.extend(pricing_facts::tests());
    tests.extend(pricing_placement::tests());
    tests.extend(pricing_credentials::tests());
    tests.extend(pricing_cli::tests());
    integration::run(tests)
}
