//! Small random clusters in which every rule of scheduling shows up, options to solve them with, and a way to make a case
//! that went wrong as small as it can be. The same seed gives the same case on every machine.

pub(crate) mod cluster;
pub(crate) mod describe;
pub(crate) mod pods;
pub(crate) mod shrink;
pub(crate) mod types;

use solver::{Effort, MinValuesPolicy, Options, PreferencePolicy};

use crate::scenario::random::Random;

/// How many cases each property is tried with; nightly runs raise it.
#[expect(clippy::disallowed_methods, reason = "a test has no arguments of its own")]
pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("SOLVER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub(crate) fn options(random: &mut Random) -> Options {
    let usual = Options::default();
    let capped = random.one_in(4);
    Options {
        preferences: if random.one_in(4) { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
        min_values: if random.one_in(2) { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
        use_reserved: !random.one_in(4),
        max_instance_types: if capped { random.between(1, 3) } else { usual.max_instance_types },
        effort: if random.one_in(3) { Effort::Quick } else { Effort::Full },
        ..usual
    }
}
