//! EC2NodeClass: the AWS side of a node. Spec here, its larger parts in the files beside.

mod devices;
mod instance;
mod kubelet;
mod selectors;
mod status;

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

pub use devices::*;
pub use instance::*;
pub use kubelet::*;
pub use selectors::*;
pub use status::*;

use crate::Extra;
use crate::schema::{Cel, cel, root_schema};
use crate::text_enum::text_enum;

/// API group of the kind.
pub const GROUP: &str = "karpenter.k8s.aws";
/// Name of the kind.
pub const KIND: &str = "EC2NodeClass";

text_enum! {
    /// Operating system family of an image; decides how a node is bootstrapped.
    pub enum AmiFamily {
        /// Amazon Linux 2.
        Al2 = "AL2",
        /// Amazon Linux 2023.
        Al2023 = "AL2023",
        /// Bottlerocket.
        Bottlerocket = "Bottlerocket",
        /// Any image; the user data is passed on as it is.
        Custom = "Custom",
        /// Windows Server 2019.
        Windows2019 = "Windows2019",
        /// Windows Server 2022.
        Windows2022 = "Windows2022",
        /// Windows Server 2025.
        Windows2025 = "Windows2025",
    }
}

text_enum! {
    /// What is done with NVMe instance store disks.
    pub enum InstanceStorePolicy {
        /// They become one striped volume that holds pods' ephemeral storage.
        Raid0 = "RAID0",
    }
}

/// Families that an alias can name, in the alias' spelling and in `amiFamily`'s.
pub const ALIAS_FAMILIES: &[(&str, AmiFamily)] = &[
    ("al2", AmiFamily::Al2),
    ("al2023", AmiFamily::Al2023),
    ("bottlerocket", AmiFamily::Bottlerocket),
    ("windows2019", AmiFamily::Windows2019),
    ("windows2022", AmiFamily::Windows2022),
    ("windows2025", AmiFamily::Windows2025),
];

/// Desired state of an EC2NodeClass.
// `remote = "Self"` leaves serde's derived code callable below, where an absent spec becomes an empty one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    singular = "ec2nodeclass",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "EC2NodeClassStatus",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    doc = "An EC2NodeClass holds the AWS side of nodes: image, network, disks, instance profile and kubelet settings.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Role", "type": "string", "jsonPath": ".spec.role", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(transform = spec_rules())]
pub struct EC2NodeClassSpec {
    /// Subnets that nodes may be launched in. A subnet that any term selects is used.
    #[schemars(length(max = 30), transform = selectors::subnet_rules())]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups that nodes get. Every group that any term selects is attached.
    #[schemars(length(max = 30), transform = selectors::security_group_rules())]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations that nodes may use. They are preferred to spot and on-demand capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), transform = selectors::capacity_reservation_rules())]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    /// Images that nodes may boot. The newest that fits the instance type is used.
    #[schemars(length(min = 1, max = 30), transform = selectors::ami_rules())]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Placement group that nodes are launched in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether nodes get a public IP address. Unset leaves it to the subnet.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of IPv4 prefixes to assign to the node's network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Operating system family of the images; decides how nodes are bootstrapped and which defaults they get. Follows from an
    /// alias; needed without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// User data for the instance in the form its family takes; merged with what bootstrapping needs, except for Custom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Name of the IAM role of the nodes. An instance profile is made and kept for it. Either this or instanceProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = cel("self != ''", "role cannot be empty"))]
    pub role: Option<String>,
    /// Name of an existing instance profile for the nodes. Either this or role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = cel("self != ''", "instanceProfile cannot be empty"))]
    pub instance_profile: Option<String>,
    /// Tags for instances, volumes, network interfaces and launch templates, beside those that mark them as the autoscaler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = tag_rules())]
    pub tags: Option<BTreeMap<String, String>>,
    /// Settings of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// Disks of the nodes. Unset takes the family's: an encrypted gp3 root volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), transform = cel(
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
        "only one mapping may have rootVolume set",
    ))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// What is done with NVMe instance store disks. Unset leaves them alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces of the nodes, for EFA layouts. Unset gives one interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 150), transform = devices::network_interface_rules())]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Whether CloudWatch gets metrics every minute instead of every five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// How the instance metadata service can be reached. By default only with a token, and not from pods without host
    /// network.
    #[serde(default = "MetadataOptions::when_absent", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    })))]
    pub metadata_options: Option<MetadataOptions>,
    /// How long idle connections are tracked by security groups. Only Nitro instances have this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Context id for the EC2 fleet request, as agreed with AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Processor options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Serialize for EC2NodeClassSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// The schema does not require `spec`, so an object without one can be stored. It reads as one that selects nothing and is
/// reported through its conditions, rather than as an object we cannot read.
impl<'de> Deserialize<'de> for EC2NodeClassSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrAbsent;
        impl<'de> Visitor<'de> for OrAbsent {
            type Value = EC2NodeClassSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the spec of an EC2NodeClass")
            }
            fn visit_none<E: serde::de::Error>(self) -> Result<EC2NodeClassSpec, E> {
                Ok(EC2NodeClassSpec {
                    metadata_options: MetadataOptions::when_absent(),
                    ..Default::default()
                })
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<EC2NodeClassSpec, E> {
                self.visit_none()
            }
            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<EC2NodeClassSpec, D::Error> {
                EC2NodeClassSpec::deserialize(deserializer)
            }
        }
        deserializer.deserialize_option(OrAbsent)
    }
}

impl EC2NodeClassSpec {
    /// The alias of the image terms, split at `@`; a valid spec has at most one.
    pub fn alias(&self) -> Option<(&str, &str)> {
        self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref()?.split_once('@'))
    }

    /// The family nodes are bootstrapped as: the one named, else the alias'. A spec with neither is not valid.
    pub fn resolved_ami_family(&self) -> Option<AmiFamily> {
        self.ami_family.clone().or_else(|| {
            let (alias, _) = self.alias()?;
            ALIAS_FAMILIES.iter().find(|(name, _)| *name == alias).map(|(_, family)| family.clone())
        })
    }
}

fn spec_rules() -> Cel {
    let mut rules = cel(
        "has(self.role) != has(self.instanceProfile)",
        "exactly one of role and instanceProfile must be set",
    )
    .and(
        "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
        "amiFamily must be set when no image alias is used",
    );
    for (alias, family) in ALIAS_FAMILIES {
        rules = rules.and(
            format!(
                "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == '{alias}')"
            ),
            format!("amiFamily must be {family} or Custom with an {alias} image alias"),
        );
    }
    rules
}

fn tag_rules() -> Cel {
    cel("self.all(k, k != '')", "a tag's key cannot be empty")
        .and(
            "self.all(k, k != 'eks:eks-cluster-name')",
            "tag eks:eks-cluster-name is the autoscaler's own and cannot be set",
        )
        .and(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tags that begin with kubernetes.io/cluster are the autoscaler's own and cannot be set",
        )
        .and(
            "self.all(k, k != 'karpenter.sh/nodepool')",
            "tag karpenter.sh/nodepool is the autoscaler's own and cannot be set",
        )
        .and(
            "self.all(k, k != 'karpenter.sh/nodeclaim')",
            "tag karpenter.sh/nodeclaim is the autoscaler's own and cannot be set",
        )
        .and(
            "self.all(k, k != 'karpenter.k8s.aws/ec2nodeclass')",
            "tag karpenter.k8s.aws/ec2nodeclass is the autoscaler's own and cannot be set",
        )
}

root_schema!(
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    required = false,
    "An EC2NodeClass holds the AWS side of nodes: image, subnets, security groups, disks, instance profile and kubelet settings. NodePools refer to it."
);
