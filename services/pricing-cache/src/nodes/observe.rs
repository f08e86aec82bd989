//! What nodes, claims and classes together tell about memory. Pure.

use std::collections::BTreeMap;

use api::{EC2NodeClass, NodeClaim};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use model::labels;
use model::quantity::Quantity;
use model::requirement::Entry;
use model::requirements::Requirements;

/// Of a Node: its type, its memory, and the labels that images are chosen by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeSeen {
    instance_type: String,
    bytes: u64,
    labels: Requirements,
}

/// Of a NodeClaim: its node, its image, its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimSeen {
    node: String,
    image: String,
    class: String,
}

/// Of an EC2NodeClass: its images in order of preference, and their hash.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassSeen {
    images: Vec<(String, Requirements)>,
    hash: String,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) nodes: BTreeMap<String, NodeSeen>,
    pub(super) claims: BTreeMap<String, ClaimSeen>,
    pub(super) classes: BTreeMap<String, ClassSeen>,
}

impl NodeSeen {
    /// `None` for nodes that are not registered or do not say how much they have.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let own = node.labels();
        if own.get(labels::REGISTERED).map(String::as_str) != Some("true") {
            return None;
        }
        let memory = node.status.as_ref()?.capacity.as_ref()?.get("memory")?;
        let bytes =
            u64::try_from(memory.0.parse::<Quantity>().ok()?.value_floor()).ok().filter(|b| *b > 0)?;
        // Images tell types apart by architecture and accelerators only; keeping more would cost memory in large clusters.
        let chosen_by = |key: &str| {
            key == labels::ARCH
                || key.starts_with("karpenter.k8s.aws/instance-gpu-")
                || key.starts_with("karpenter.k8s.aws/instance-accelerator-")
        };
        let kept = own.iter().filter(|(key, _)| chosen_by(key)).map(|(key, value)| (key, value.clone()));
        Some(Self {
            instance_type: own.get(labels::INSTANCE_TYPE)?.clone(),
            bytes,
            labels: Requirements::from_labels(kept),
        })
    }
}

impl ClaimSeen {
    pub(super) fn of(claim: &NodeClaim) -> Option<Self> {
        let status = claim.status.as_ref()?;
        Some(Self {
            node: status.node_name.clone().filter(|name| !name.is_empty())?,
            image: status.image_id.clone()?,
            class: claim.spec.node_class_ref.name.clone(),
        })
    }
}

impl ClassSeen {
    pub(super) fn of(class: &EC2NodeClass) -> Self {
        let amis = class.status.as_ref().and_then(|s| s.amis.as_deref()).unwrap_or_default();
        let requirements = |ami: &api::ec2nodeclass::Ami| {
            let entries: Option<Vec<Entry>> = ami.requirements.iter().map(|r| r.to_entry().ok()).collect();
            entries.map(|entries| (ami.id.clone(), Requirements::from_entries(&entries)))
        };
        Self { images: amis.iter().filter_map(requirements).collect(), hash: api::hash::images(amis) }
    }

    /// The image that a node with these labels would get now.
    fn image_for(&self, node: &Requirements) -> Option<&str> {
        let fits = |asked: &Requirements| node.is_compatible(asked, &|_| false);
        self.images.iter().find(|(_, asked)| fits(asked)).map(|(id, _)| id.as_str())
    }
}

impl World {
    /// The least memory seen, by type and hash of images, of nodes whose image is the one they would get now.
    pub(super) fn least_memory(&self) -> BTreeMap<(String, String), u64> {
        let mut least = BTreeMap::new();
        for claim in self.claims.values() {
            let (Some(node), Some(class)) = (self.nodes.get(&claim.node), self.classes.get(&claim.class))
            else {
                continue;
            };
            if class.image_for(&node.labels) == Some(claim.image.as_str()) {
                let known =
                    least.entry((node.instance_type.clone(), class.hash.clone())).or_insert(node.bytes);
                *known = node.bytes.min(*known);
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, memory: &str) -> (String, NodeSeen) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "m5.large",
                "kubernetes.io/arch": "amd64",
            }},
            "status": {"capacity": {"memory": memory}},
        }))
        .unwrap();
        (name.to_owned(), NodeSeen::of(&node).unwrap())
    }

    fn claim(node: &str, image: &str) -> (String, ClaimSeen) {
        let claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": node},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "default"}},
            "status": {"nodeName": node, "imageID": image},
        }))
        .unwrap();
        (node.to_owned(), ClaimSeen::of(&claim).unwrap())
    }

    fn class(first: &str) -> ClassSeen {
        let image = |id: &str, arch: &str, gpu: &str| {
            json!({"id": id, "requirements": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
                {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": gpu},
            ]})
        };
        let class: EC2NodeClass = serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
            "status": {"amis": [
                image("ami-gpu", "amd64", "Exists"), image("ami-arm", "arm64", "DoesNotExist"),
                image(first, "amd64", "DoesNotExist"), image("ami-old", "amd64", "DoesNotExist"),
            ]},
        }))
        .unwrap();
        ClassSeen::of(&class)
    }

    #[test]
    fn the_least_memory_of_nodes_with_the_current_image_is_learned() {
        let mut world = World {
            nodes: [node("a", "7910Mi"), node("b", "7900Mi"), node("c", "7000Mi")].into(),
            claims: [claim("a", "ami-new"), claim("b", "ami-new"), claim("c", "ami-old")].into(),
            classes: [("default".to_owned(), class("ami-new"))].into(),
        };
        let learned = world.least_memory();
        let hash = class("ami-new").hash;
        assert_eq!(learned, BTreeMap::from([(("m5.large".into(), hash.clone()), 7900 << 20)]));

        world.classes = [("default".to_owned(), class("ami-newer"))].into();
        assert!(world.least_memory().is_empty(), "no node runs the newest image yet");
        assert_ne!(class("ami-newer").hash, hash);
    }

    #[test]
    fn nodes_that_are_not_registered_or_report_nothing_teach_nothing() {
        for labels in [
            json!({"node.kubernetes.io/instance-type": "m5.large"}),
            json!({"karpenter.sh/registered": "true"}),
        ] {
            let node: Node = serde_json::from_value(
                json!({"metadata": {"name": "x", "labels": labels}, "status": {"capacity": {"memory": "1Gi"}}}),
            )
            .unwrap();
            assert_eq!(NodeSeen::of(&node), None);
        }
        let silent: Node = serde_json::from_value(json!({"metadata": {"labels": {
            "karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "m5.large"}}}))
        .unwrap();
        assert_eq!(NodeSeen::of(&silent), None);
    }
}
