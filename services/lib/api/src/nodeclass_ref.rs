//! The reference from a NodePool or NodeClaim to its NodeClass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::patterns;
use crate::schema::cel;

/// Names the object that holds the cloud's side of a node: images, networks, disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    /// API group of the NodeClass, karpenter.k8s.aws on AWS.
    #[schemars(regex(pattern = patterns::API_GROUP), transform = cel("self != ''", "group may not be empty"))]
    pub group: String,
    /// Kind of the NodeClass, EC2NodeClass on AWS.
    #[schemars(transform = cel("self != ''", "kind may not be empty"))]
    pub kind: String,
    /// Name of the NodeClass.
    #[schemars(transform = cel("self != ''", "name may not be empty"))]
    pub name: String,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl NodeClassRef {
    /// Whether the reference is to a NodeClass that we act on. Pools and claims of any other are left alone, status
    /// included.
    pub fn is_supported(&self) -> bool {
        self.group == crate::ec2nodeclass::GROUP && self.kind == crate::ec2nodeclass::KIND
    }
}
