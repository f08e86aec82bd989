//! No service asks the API server for what its rights do not allow.

use serde_json::Value;

/// The problem that one line of the audit log shows. The policy records our services' accounts only.
pub(super) fn problem(line: &str, expected: &[&str]) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    // Quotas and namespaces that are being deleted refuse with 403 as well; the authorizer's own refusal is annotated.
    if event["annotations"]["authorization.k8s.io/decision"] != "forbid" {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (user, verb, path) =
        (text(&event["user"]["username"]), text(&event["verb"]), text(&event["requestURI"]));
    let found = format!("{user} may not {verb} {path}");
    (!expected.iter().any(|part| found.contains(part))).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_the_authorizer_refused_is_found() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/nodes/n1","verb":"delete","user":{"username":"system:serviceaccount:kube-system:karpenter-pricing-cache"},"objectRef":{"resource":"nodes","name":"n1"},"responseStatus":{"status":"Failure","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}"#;
        let found = problem(line, &["the queue"]).expect("a problem");
        assert!(
            found.contains("karpenter-pricing-cache") && found.contains("delete /api/v1/nodes/n1"),
            "{found}"
        );
        assert_eq!(problem(line, &["karpenter-pricing-cache may not delete"]), None);
    }

    #[test]
    fn a_namespace_that_is_being_deleted_refuses_without_being_a_problem() {
        let line = r#"{"requestURI":"/api/v1/namespaces/a/events","verb":"create","user":{"username":"system:serviceaccount:kube-system:karpenter-provisioner"},"responseStatus":{"reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}"#;
        assert_eq!(problem(line, &[]), None);
    }
}
