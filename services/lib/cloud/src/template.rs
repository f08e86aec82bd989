//! Launch templates in plain form: what the provisioner resolved, ready to be sent. Serialisable, so that a stable hash of
//! the content can name the template.

use serde::Serialize;

use crate::Tags;

/// A launch template to create.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LaunchTemplate {
    pub name: String,
    /// Tags of the template itself.
    pub tags: Tags,
    pub data: TemplateData,
}

/// A launch template that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateRef {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct TemplateData {
    pub image_id: String,
    /// Name, not ARN.
    pub instance_profile: Option<String>,
    /// Base64, as EC2 wants it.
    pub user_data: Option<String>,
    pub detailed_monitoring: bool,
    pub block_devices: Vec<BlockDevice>,
    pub metadata: Option<MetadataOptions>,
    pub nested_virtualization: Option<bool>,
    /// Never empty for a node: security groups go with the interfaces.
    pub interfaces: Vec<Interface>,
    /// `default` or `dedicated`.
    pub tenancy: String,
    pub placement_group_id: Option<String>,
    pub partition: Option<u32>,
    pub enclave: bool,
    pub reservation: ReservationChoice,
    pub market: Option<Market>,
    /// Tags of network interfaces, and of the spot request where `spot`.
    pub tags: Tags,
    pub spot: bool,
}

/// Whether an instance may land in capacity reservations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub enum ReservationChoice {
    /// Left out of the template: open reservations may match (feature gate off).
    Open,
    /// Keep out of every reservation.
    Avoid,
    /// Only into this one.
    Only(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Market {
    CapacityBlock,
    InterruptibleReservation,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BlockDevice {
    pub device_name: String,
    pub ebs: Option<Ebs>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Ebs {
    pub delete_on_termination: Option<bool>,
    pub encrypted: Option<bool>,
    /// 0 is never sent.
    pub iops: Option<u32>,
    pub kms_key_id: Option<String>,
    pub snapshot_id: Option<String>,
    /// MiB/s; 0 is never sent.
    pub throughput: Option<u32>,
    /// MiB/s while a volume is filled from its snapshot.
    pub initialization_rate: Option<u32>,
    /// Rounded up by whoever resolved the node class.
    pub size_gib: Option<u32>,
    /// Such as `gp3`.
    pub volume_type: Option<String>,
}

/// `enabled` or `disabled` in EC2's words are `true` and `false` here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct MetadataOptions {
    pub endpoint: bool,
    /// `None` where the partition does not know the field.
    pub ipv6: Option<bool>,
    pub hop_limit: u32,
    /// IMDSv2 only.
    pub tokens_required: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Interface {
    pub card_index: Option<u32>,
    pub device_index: u32,
    pub kind: InterfaceKind,
    pub security_group_ids: Vec<String>,
    /// `None`: the subnet decides.
    pub public_ip: Option<bool>,
    pub ipv4_prefixes: Option<u32>,
    pub ipv6_prefixes: Option<u32>,
    pub ipv6_addresses: Option<u32>,
    pub primary_ipv6: Option<bool>,
    pub connection_tracking: Option<ConnectionTracking>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum InterfaceKind {
    #[default]
    Interface,
    Efa,
    /// EFA without IP traffic.
    EfaOnly,
}

/// Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ConnectionTracking {
    pub tcp_established: Option<u32>,
    pub udp_stream: Option<u32>,
    pub udp: Option<u32>,
}

impl InterfaceKind {
    /// EC2's name; `None` is EC2's default and is not sent.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Interface => None,
            Self::Efa => Some("efa"),
            Self::EfaOnly => Some("efa-only"),
        }
    }
}
