//! What people install and operate with: charts, images, rights, alerts, boards, the pages of commands. Each file is one subject.

use std::process::ExitCode;

use integration::Test;

mod boards;
mod chart_values;
mod charts;
mod check;
mod installed;
mod page;
mod queries;
mod rights;
mod takeover;

fn main() -> ExitCode {
    let mut tests = Vec::new();
    tests.extend(charts::tests());
    tests.extend(chart_values::tests());
    tests.extend(boards::tests());
    tests.extend(queries::tests());
    // Young tests run with the long proofs until each has been green often enough to judge every change by it.
    for young in [rights::tests(), page::tests(), check::tests(), takeover::tests(), installed::tests()] {
        tests.extend(young.into_iter().map(|test| Test { soak: true, alone: true, ..test }));
    }
    integration::run_in("install", tests)
}
