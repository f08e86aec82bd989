//! What a request to the Kubernetes API is about, by its path.

/// `/api/v1/namespaces/a/pods/b/eviction` is about `pods`, by name, and the subresource `eviction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About<'a> {
    /// Empty for the core group.
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    /// As in the path, in the plural; empty where the path is about no objects.
    pub(crate) resource: &'a str,
    /// Empty for a kind of the whole cluster.
    pub(crate) namespace: &'a str,
    /// Empty where the path names no single object.
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
}

/// Of a Namespace itself; anything else after its name is in it.
const OF_NAMESPACE: [&str; 2] = ["status", "finalize"];

pub(crate) fn about(path: &str) -> About<'_> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next() {
        Some("api") => Some(""),
        Some("apis") => parts.next(),
        _ => None,
    };
    let (Some(group), Some(version)) = (group, parts.next()) else { return About::default() };
    let rest: Vec<&str> = parts.collect();
    let (namespace, own) = match rest.as_slice() {
        ["namespaces", namespace, next, ..] if !OF_NAMESPACE.contains(next) => (*namespace, &rest[2..]),
        all => ("", all),
    };
    let part = |number: usize| own.get(number).copied().unwrap_or_default();
    About { group, version, resource: part(0), namespace, name: part(1), subresource: part(2) }
}

/// A watch stays open for as long as its caller wants, so no limit of other calls applies to it.
pub(crate) fn is_watch(uri: &http::Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_api_say_what_they_are_about() {
        for (path, group, version, namespace, resource, name, subresource) in [
            ("/api/v1/namespaces/a/pods/b/eviction", "", "v1", "a", "pods", "b", "eviction"),
            ("/api/v1/namespaces/a/pods", "", "v1", "a", "pods", "", ""),
            ("/api/v1/namespaces/a", "", "v1", "", "namespaces", "a", ""),
            ("/api/v1/namespaces/a/status", "", "v1", "", "namespaces", "a", "status"),
            ("/api/v1/nodes", "", "v1", "", "nodes", "", ""),
            (
                "/apis/karpenter.sh/v1/nodeclaims/a/status",
                "karpenter.sh",
                "v1",
                "",
                "nodeclaims",
                "a",
                "status",
            ),
            ("/apis/apps/v1/daemonsets", "apps", "v1", "", "daemonsets", "", ""),
            ("/version", "", "", "", "", "", ""),
            ("/apis", "", "", "", "", "", ""),
        ] {
            let expected = About { group, version, resource, namespace, name, subresource };
            assert_eq!(about(path), expected, "{path}");
        }
    }
}
