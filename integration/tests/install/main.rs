//! What people install and operate with: charts, images, rights, alerts, boards, the pages of commands. Each file is one subject.

use std::process::ExitCode;

mod boards;
mod chart_leases;
mod chart_values;
mod charts;
mod check;
mod fenced;
mod forwarded;
mod installed;
mod live_page;
mod page;
mod people;
mod queries;
mod reference;
mod release_takeover;
mod releases;
mod rights;
mod takeover;
mod tutorials;

fn main() -> ExitCode {
    let mut tests = Vec::new();
    tests.extend(charts::tests());
    tests.extend(chart_values::tests());
    tests.extend(chart_leases::tests());
    tests.extend(boards::tests());
    tests.extend(queries::tests());
    tests.extend(rights::tests());
    tests.extend(page::tests());
    tests.extend(people::tests());
    tests.extend(live_page::tests());
    tests.extend(tutorials::tests());
    tests.extend(check::tests());
    tests.extend(takeover::tests());
    tests.extend(reference::tests());
    tests.extend(release_takeover::tests());
    tests.extend(releases::tests());
    tests.extend(installed::tests());
    integration::run_in("install", tests)
}
