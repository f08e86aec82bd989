//! Disks and network interfaces of an EC2NodeClass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::patterns;
use crate::schema::{Cel, cel};
use crate::text_enum::text_enum;

text_enum! {
    /// EBS volume types.
    pub enum VolumeType {
        /// Magnetic.
        Standard = "standard",
        /// Provisioned IOPS SSD.
        Io1 = "io1",
        /// Provisioned IOPS SSD, second generation.
        Io2 = "io2",
        /// General purpose SSD.
        Gp2 = "gp2",
        /// Cold HDD.
        Sc1 = "sc1",
        /// Throughput optimized HDD.
        St1 = "st1",
        /// General purpose SSD, third generation.
        Gp3 = "gp3",
    }
}

text_enum! {
    /// Kinds of network interfaces.
    #[derive(Default)]
    pub enum InterfaceType {
        /// An ordinary interface with an IP address.
        #[default]
        Interface = "interface",
        /// An Elastic Fabric Adapter without an IP address.
        EfaOnly = "efa-only",
    }
}

/// A disk of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Device name, such as /dev/xvda.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether pods' ephemeral storage is on this disk. At most one has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_volume: Option<bool>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// An EBS volume. Size or snapshot must be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be set").and(
    "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
    "volumeInitializationRate needs a snapshotID",
))]
pub struct BlockDevice {
    /// Whether the volume goes when the instance does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations a second, for gp3, io1 and io2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Key that the volume is encrypted with: id, alias or ARN.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot that the volume is made from.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Throughput in MiB a second, for gp3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Rate in MiB a second at which the volume is filled from its snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size, such as 100Gi; units Gi, G, Ti, T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::VOLUME_SIZE))]
    pub volume_size: Option<String>,
    /// Type of the volume, such as gp3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A network interface of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Number of the network card.
    #[schemars(range(min = 0))]
    pub network_card_index: i32,
    /// Number of the device on the card.
    #[schemars(range(min = 0))]
    pub device_index: i32,
    /// interface for an ordinary one, efa-only for an Elastic Fabric Adapter without an IP address.
    pub interface_type: InterfaceType,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

pub(super) fn network_interface_rules() -> Cel {
    cel(
        "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
        "network card 0 needs an ordinary interface as device 0",
    )
    .and(
        "self.all(x, self.exists_one(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex))",
        "two network interfaces cannot have the same networkCardIndex and deviceIndex",
    )
    .and(
        "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only'))",
        "a network card can have only one efa-only interface",
    )
}
