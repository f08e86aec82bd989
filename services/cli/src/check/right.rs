//! What a check reads from the API server, and what it reports when it may not: the right that is missing. Somebody who is bound to Role
//! karpenter-viewer only may read little of the cluster, and learns the rest all the same.

use std::fmt;

use kube::Resource;

use super::finding::Finding;

/// One verb on one kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    /// Plural, and its API group after a dot where it has one.
    resource: String,
    /// Absent: in the whole cluster.
    namespace: Option<String>,
}

impl Right {
    pub(super) fn in_cluster<K: Resource<DynamicType = ()>>(verb: &'static str) -> Self {
        let (plural, group) = (K::plural(&()), K::group(&()));
        let resource = if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") };
        Self { verb, resource, namespace: None }
    }

    pub(super) fn in_namespace<K: Resource<DynamicType = ()>>(verb: &'static str, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::in_cluster::<K>(verb) }
    }

    /// What was not read because of `error`: unknown where the right is missing, wrong where the API server fails.
    pub(super) fn not_used(&self, area: &'static str, subject: &str, error: &kube::Error) -> Finding {
        let command = self.question();
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                let detail = format!("not checked: you have no right to {self}");
                let fix = format!("ask an administrator for that right; `{command}` says when you have it");
                Finding::note(area, subject, detail, fix)
            }
            error => {
                let detail = format!("not checked: the API server failed to {self}: {error}");
                Finding::wrong(area, subject, detail, format!("run the check again, or `{command}`"))
            }
        }
    }

    fn question(&self) -> String {
        let namespace = match &self.namespace {
            Some(namespace) => format!(" -n {namespace}"),
            None => String::new(),
        };
        format!("kubectl auth can-i {} {}{namespace}", self.verb, self.resource)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => write!(f, " in the cluster"),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;
    use kube::core::Status;

    use super::super::finding::Verdict;
    use super::*;

    fn answered(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "Because").with_code(code).boxed())
    }

    #[test]
    fn a_missing_right_is_named_with_the_command_that_asks_for_it() {
        let right = Right::in_namespace::<Deployment>("list", "kube-system");
        let finding = right.not_used("rights", "Deployments", &answered(403));
        assert_eq!(finding.verdict, Verdict::Note);
        assert!(
            finding.detail.ends_with("list deployments.apps in namespace kube-system"),
            "{}",
            finding.detail
        );
        let command = "kubectl auth can-i list deployments.apps -n kube-system";
        assert!(finding.fix.contains(command), "{}", finding.fix);
    }

    #[test]
    fn an_api_server_that_fails_is_wrong_and_no_missing_right() {
        let finding = Right::in_cluster::<Node>("get").not_used("services", "nodes", &answered(500));
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.detail.contains("get nodes in the cluster"), "{}", finding.detail);
        assert!(finding.fix.contains("kubectl auth can-i get nodes"), "{}", finding.fix);
    }
}
