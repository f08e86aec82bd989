//! Tags that a class may not set: those by which we know what is ours.

use api::EC2NodeClass;
use cloud::instance::{BATCH_TAG, CLUSTER_TAG, NODECLAIM_TAG, NODECLASS_TAG, NODEPOOL_TAG};

const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";

/// The first key of `spec.tags` that only we may set. The schema refuses them too; objects older than it may have them.
pub fn forbidden_tag(class: &EC2NodeClass) -> Option<&str> {
    class.spec.tags.iter().flatten().map(|(key, _)| key.as_str()).find(|key| is_ours(key))
}

fn is_ours(key: &str) -> bool {
    let names_a_cluster = |name: &str| {
        name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    [BATCH_TAG, CLUSTER_TAG, NODECLAIM_TAG, NODECLASS_TAG, NODEPOOL_TAG].contains(&key)
        || key.strip_prefix(CLUSTER_PREFIX).is_some_and(names_a_cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_by_which_we_find_our_own_cannot_be_set() {
        for (key, expected) in [
            ("kubernetes.io/cluster/blue", true),
            ("kubernetes.io/cluster/", false),
            ("kubernetes.io/cluster/-x", false),
            ("karpenter.sh/nodepool", true),
            ("karpenter.sh/nodeclaim", true),
            ("karpenter.k8s.aws/ec2nodeclass", true),
            ("eks:eks-cluster-name", true),
            ("karpenter.sh/discovery", false),
            ("Name", false),
        ] {
            assert_eq!(is_ours(key), expected, "{key}");
        }
    }
}
