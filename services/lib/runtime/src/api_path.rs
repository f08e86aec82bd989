//! What a request to the Kubernetes API is about, by its path.

/// `/api/v1/namespaces/a/pods/b/eviction` is about `pods`, by name, and the subresource `eviction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About<'a> {
    /// Empty for the core group.
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    /// As in the path, in the plural; empty where the path is about no objects.
    pub(crate) resource: &'a str,
    /// About one object.
    pub(crate) named: bool,
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
    let own = match rest.as_slice() {
        ["namespaces", _, next, ..] if !OF_NAMESPACE.contains(next) => &rest[2..],
        all => all,
    };
    About {
        group,
        version,
        resource: own.first().copied().unwrap_or_default(),
        named: own.len() > 1,
        subresource: own.get(2).copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_api_say_what_they_are_about() {
        for (path, group, version, resource, named, subresource) in [
            ("/api/v1/namespaces/a/pods/b/eviction", "", "v1", "pods", true, "eviction"),
            ("/api/v1/namespaces/a/pods", "", "v1", "pods", false, ""),
            ("/api/v1/namespaces/a", "", "v1", "namespaces", true, ""),
            ("/api/v1/namespaces/a/status", "", "v1", "namespaces", true, "status"),
            ("/api/v1/nodes", "", "v1", "nodes", false, ""),
            ("/apis/karpenter.sh/v1/nodeclaims/a/status", "karpenter.sh", "v1", "nodeclaims", true, "status"),
            ("/apis/apps/v1/daemonsets", "apps", "v1", "daemonsets", false, ""),
            ("/version", "", "", "", false, ""),
            ("/apis", "", "", "", false, ""),
        ] {
            assert_eq!(about(path), About { group, version, resource, named, subresource }, "{path}");
        }
    }
}
