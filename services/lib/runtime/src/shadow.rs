//! Shadow mode: a service that decides and does not act. Every write to the Kubernetes API goes out as a dry run, so that the server
//! judges it and stores nothing, and is told in the log. What a service needs to run at all is still written: its lease, its
//! certificate, its caches.

use http::{Method, Request, Uri, uri::PathAndQuery};
use tracing::info;

use crate::api_path::about;

/// Bookkeeping of our own, and questions that are asked by posting them.
const WRITTEN: [&str; 4] = ["leases", "configmaps", "tokenreviews", "subjectaccessreviews"];
/// Would only repeat what the log says.
const UNTOLD: [&str; 1] = ["events"];

/// The request as it may go out.
pub(crate) fn restrain<B>(mut request: Request<B>) -> Request<B> {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return request;
    }
    let path = request.uri().path();
    let resource = about(path).resource;
    if WRITTEN.contains(&resource) {
        return request;
    }
    if !UNTOLD.contains(&resource) {
        info!(verb = %request.method(), path, "shadow mode: would have written");
    }
    if let Some(uri) = as_dry_run(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

/// `None` for an address that is one already.
fn as_dry_run(uri: &Uri) -> Option<Uri> {
    let query = uri.query().unwrap_or_default();
    if query.split('&').any(|part| part == "dryRun=All") {
        return None;
    }
    let sign = if query.is_empty() { "" } else { "&" };
    let text = format!("{}?{query}{sign}dryRun=All", uri.path());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query =
        Some(PathAndQuery::try_from(text).expect("a valid address stays one with a parameter more"));
    Some(Uri::from_parts(parts).expect("only the query changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(method: Method, uri: &str) -> String {
        restrain(Request::builder().method(method).uri(uri).body(()).unwrap()).uri().to_string()
    }

    #[test]
    fn everything_that_changes_the_cluster_becomes_a_dry_run() {
        for (method, uri, expected) in [
            (Method::POST, "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodeclaims?dryRun=All"),
            (Method::PATCH, "/api/v1/nodes/a?fieldManager=x", "/api/v1/nodes/a?fieldManager=x&dryRun=All"),
            (
                Method::DELETE,
                "/apis/karpenter.sh/v1/nodeclaims/a?",
                "/apis/karpenter.sh/v1/nodeclaims/a?dryRun=All",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/b/eviction",
                "/api/v1/namespaces/a/pods/b/eviction?dryRun=All",
            ),
            (Method::POST, "/api/v1/namespaces/a/events", "/api/v1/namespaces/a/events?dryRun=All"),
            (Method::DELETE, "/api/v1/nodes/a?dryRun=All", "/api/v1/nodes/a?dryRun=All"),
            (Method::POST, "https://host:6443/api/v1/nodes", "https://host:6443/api/v1/nodes?dryRun=All"),
        ] {
            assert_eq!(sent(method, uri), expected);
        }
    }

    #[test]
    fn reads_and_what_a_service_needs_to_run_are_left_alone() {
        for (method, uri) in [
            (Method::GET, "/api/v1/nodes?watch=1"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-provisioner"),
            (
                Method::PATCH,
                "/api/v1/namespaces/kube-system/configmaps/karpenter-provisioner-trust?force=true",
            ),
            (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews"),
            (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ] {
            assert_eq!(sent(method, uri), uri);
        }
    }
}
