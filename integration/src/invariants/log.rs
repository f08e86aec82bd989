//! No service logs an ERROR that the running tests do not expect, and none panics. A plan that breaks a rule of the scheduler is
//! such an ERROR, too.

use serde_json::Value;

/// The problem that one line of a service's log shows.
pub(super) fn problem(replica: &str, line: &str, expected: &[&str]) -> Option<String> {
    let is_expected = |text: &str| expected.iter().any(|part| text.contains(part));
    if line.contains("panicked at") {
        return Some(format!("{replica} panicked: {line}"));
    }
    let fields: Value = serde_json::from_str(line).ok()?;
    let is_error = fields["level"] == "ERROR";
    (is_error && is_ours(fields["logger"].as_str()?) && !is_expected(line))
        .then(|| format!("{replica} logged an error: {line}"))
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

    const ERROR: &str = r#"{"level":"ERROR","time":"2026-11-17T23:00:00.000Z","logger":"provisioner::schedule::vet","message":"the plan breaks a rule and is not carried out; this is a defect of the solver, please report it","count":1}"#;
    const BAD: &str = r#"{"level":"ERROR","time":"2026-11-17T23:00:00.000Z","logger":"interruption_watcher::queue::batch","message":"message removed without being handled","id":"1"}"#;

    #[test]
    fn an_unsound_plan_and_any_other_error_is_found() {
        assert!(problem("provisioner-1", ERROR, &[]).is_some_and(|found| found.contains("breaks a rule")));
        assert!(problem("provisioner-1", ERROR, &["message removed"]).is_some());
    }

    #[test]
    fn an_error_that_a_running_test_expects_is_not_a_problem() {
        assert!(problem("interruption-watcher-1", BAD, &[]).is_some());
        assert_eq!(problem("interruption-watcher-1", BAD, &["message removed without being handled"]), None);
    }

    #[test]
    fn a_panic_is_a_problem_whatever_is_expected() {
        let line = "thread 'tokio-rt-worker' (1234) panicked at services/provisioner/src/lib.rs:1:1:";
        assert!(problem("provisioner-1", line, &["panicked"]).is_some());
    }

    #[test]
    fn other_levels_other_loggers_and_other_texts_are_not() {
        for line in [
            r#"{"level":"WARN","logger":"provisioner::launch","message":"level ERROR"}"#,
            r#"{"level":"ERROR","logger":"opentelemetry_sdk","message":"connection refused"}"#,
            "error: unexpected argument",
            "",
        ] {
            assert_eq!(problem("provisioner-1", line, &[]), None, "{line}");
        }
    }
}
