//! The behaviours of the running product, on one local cluster. Each file is one subject.

use std::process::ExitCode;

mod crds;
mod leases;
mod nodeclass;
mod outage;
mod provisioning;
mod real_node;
mod removal_scene;
mod rpc_access;
mod termination;
mod termination_soak;
mod traces;

fn main() -> ExitCode {
    let mut tests = Vec::new();
    tests.extend(crds::tests());
    tests.extend(rpc_access::tests());
    tests.extend(leases::tests());
    tests.extend(nodeclass::tests());
    tests.extend(outage::tests());
    tests.extend(provisioning::tests());
    tests.extend(real_node::tests());
    tests.extend(termination::tests());
    tests.extend(termination_soak::tests());
    tests.extend(traces::tests());
    integration::run(tests)
}
