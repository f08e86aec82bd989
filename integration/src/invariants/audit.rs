//! No service asks the API server for what its rights do not allow, and none deletes a pod where it should evict it: the API
//! server keeps PodDisruptionBudgets on evictions only.

use serde_json::Value;

/// The problem that one line of the audit log shows. The policy records our services' accounts only.
pub(super) fn problem(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (user, verb, path) =
        (text(&event["user"]["username"]), text(&event["verb"]), text(&event["requestURI"]));
    // Quotas and namespaces that are being deleted refuse with 403 as well; the authorizer's own refusal is annotated.
    if event["annotations"]["authorization.k8s.io/decision"] == "forbid" {
        return Some(format!("{user} may not {verb} {path}"));
    }
    let object = &event["objectRef"];
    let is_pod = object["resource"] == "pods" && object.get("subresource").is_none();
    (is_pod && verb.starts_with("delete")).then(|| format!("{user} deleted a pod without eviction: {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_the_authorizer_refused_is_found() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/nodes/n1","verb":"delete","user":{"username":"system:serviceaccount:kube-system:karpenter-pricing-cache"},"objectRef":{"resource":"nodes","name":"n1"},"responseStatus":{"status":"Failure","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}"#;
        let found = problem(line).expect("a problem");
        assert!(
            found.contains("karpenter-pricing-cache") && found.contains("delete /api/v1/nodes/n1"),
            "{found}"
        );
    }

    #[test]
    fn a_namespace_that_is_being_deleted_refuses_without_being_a_problem() {
        let line = r#"{"requestURI":"/api/v1/namespaces/a/events","verb":"create","user":{"username":"system:serviceaccount:kube-system:karpenter-provisioner"},"responseStatus":{"reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"allow"}}"#;
        assert_eq!(problem(line), None);
    }

    #[test]
    fn a_pod_that_is_deleted_and_not_evicted_is_found() {
        let line = |verb: &str, more: &str| {
            format!(
                r#"{{"requestURI":"/api/v1/namespaces/a/pods/p{more}","verb":"{verb}","user":{{"username":"t"}},"objectRef":{{"resource":"pods"{}}},"annotations":{{"authorization.k8s.io/decision":"allow"}}}}"#,
                if more.is_empty() { "" } else { r#","subresource":"eviction""# }
            )
        };
        assert!(problem(&line("delete", "")).is_some_and(|found| found.contains("without eviction")));
        assert_eq!(problem(&line("create", "/eviction")), None);
        assert_eq!(problem(&line("get", "")), None);
    }
}
