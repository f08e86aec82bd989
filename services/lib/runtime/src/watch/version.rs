//! Which of two states of one object is the newer. The answer to a write may overtake the watch, and a full list may have been made
//! before the write: neither may undo what is known already.

use std::sync::Arc;

use kube::Resource;

/// One state of an object.
pub trait Versioned {
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;

    /// Versions of one object can be ordered since Kubernetes 1.35; one that is no number is newer than nothing, and no older.
    fn is_newer_than(&self, other: &impl Versioned) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        let versions = number(self.resource_version()).zip(number(other.resource_version()));
        self.uid() == other.uid() && versions.is_some_and(|(own, other)| own > other)
    }
}

impl<K: Resource> Versioned for Arc<K> {
    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(uid: &str, version: &str) -> Arc<Node> {
        let mut node = Node::default();
        (node.metadata.uid, node.metadata.resource_version) = (Some(uid.into()), Some(version.into()));
        Arc::new(node)
    }

    #[test]
    fn only_a_higher_version_of_the_same_object_is_newer() {
        let known = node("a", "10");
        assert!(known.is_newer_than(&node("a", "9")), "as numbers, not as words");
        assert!(!known.is_newer_than(&node("a", "10")) && !known.is_newer_than(&node("a", "11")));
        assert!(!known.is_newer_than(&node("b", "9")), "a namesake is another object");
        assert!(!known.is_newer_than(&node("a", "x")) && !node("a", "x").is_newer_than(&known));
    }
}
