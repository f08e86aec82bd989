//! No service panics, and none logs an ERROR that the running tests do not expect. A plan that breaks a rule of the scheduler is
//! such an ERROR, too.

use serde_json::Value;

use super::Broken;

/// ERROR lines that no test may provoke: a plan that the scheduler would refuse, and a handler that failed.
const NEVER: [&str; 2] = ["this is a defect of the solver", "handler failed"];

/// The problem that one line of a service's log shows.
pub(super) fn problem(replica: &str, line: &str) -> Option<Broken> {
    if line.contains("panicked at") {
        return Some(Broken::inexcusable(format!("{replica} panicked: {line}")));
    }
    let fields: Value = serde_json::from_str(line).ok()?;
    let is_error = fields["level"] == "ERROR" && is_ours(fields["logger"].as_str()?);
    let message = fields["message"].as_str().unwrap_or_default();
    let is_excusable = !NEVER.iter().any(|part| message.contains(part));
    is_error.then(|| Broken { what: format!("{replica} logged an error: {line}"), is_excusable })
}

/// Libraries log errors of their own about connections that tests cut on purpose; what they mean to us, we log ourselves.
fn is_ours(logger: &str) -> bool {
    const OURS: [&str; 13] = [
        "provisioner",
        "disruption",
        "termination",
        "interruption_watcher",
        "pricing_cache",
        "runtime",
        "api",
        "cloud",
        "cloud_aws",
        "consolidation",
        "policy",
        "residents",
        "solver",
    ];
    OURS.contains(&logger.split("::").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: &str = r#"{"level":"ERROR","time":"2026-11-17T23:00:00.000Z","logger":"provisioner::schedule::vet","message":"parts of the plan break a rule and are held back; this is a defect of the solver, please report it","count":1}"#;
    const BAD: &str = r#"{"level":"ERROR","time":"2026-11-17T23:00:00.000Z","logger":"interruption_watcher::queue::batch","message":"message removed without being handled","id":"1"}"#;

    #[test]
    fn an_unsound_plan_and_a_panic_are_inexcusable() {
        let found = problem("provisioner-1", ERROR).expect("a problem");
        assert!(!found.is_excusable && found.what.contains("defect of the solver"), "{found:?}");
        let line = "thread 'tokio-rt-worker' (1234) panicked at services/provisioner/src/lib.rs:1:1:";
        assert!(problem("provisioner-1", line).is_some_and(|found| !found.is_excusable));
    }

    #[test]
    fn other_errors_may_be_expected() {
        let found = problem("interruption-watcher-1", BAD).expect("a problem");
        assert!(found.is_excusable && found.what.contains("message removed"), "{found:?}");
    }

    #[test]
    fn other_levels_other_loggers_and_other_texts_are_no_problem() {
        for line in [
            r#"{"level":"WARN","logger":"provisioner::launch","message":"level ERROR"}"#,
            r#"{"level":"ERROR","logger":"opentelemetry_sdk","message":"connection refused"}"#,
            "error: unexpected argument",
            "",
        ] {
            assert_eq!(problem("provisioner-1", line), None, "{line}");
        }
    }
}
