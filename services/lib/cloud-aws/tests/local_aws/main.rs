//! Every call of every trait against the local AWS over HTTP, with its faults switched on where they matter. One server
//! for all tests; each test has a region or an access key of its own, so that none sees another's faults.

mod catalog;
mod faults;
mod fleet;
mod instances;
mod nodeclass;
mod queue;
mod server;
