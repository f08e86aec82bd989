//! What EC2 says about instance types and zones: raw facts, the same for every node class. Mirrors the wire form in
//! `karpenter.pricingcache.v1`.

use serde::{Deserialize, Serialize};

/// An instance type as EC2 describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeFacts {
    /// Such as `m7g.large`.
    pub name: String,
    /// EC2's names in EC2's order: `x86_64`, `arm64`. The first that Kubernetes knows decides.
    pub architectures: Vec<String>,
    pub vcpus: u32,
    /// Before the hypervisor's share.
    pub memory_mib: u64,
    /// `nitro`, `xen`, or empty for bare metal.
    pub hypervisor: String,
    pub bare_metal: bool,
    /// EC2's usage classes: `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// As EC2 writes it, such as `Intel` or `AWS`.
    pub cpu_manufacturer: String,
    /// 0 when unknown.
    pub clock_mhz: u32,
    /// Such as `nested-virtualization`.
    pub cpu_features: Vec<String>,
    /// Interfaces of the default network card.
    pub max_network_interfaces: u32,
    pub ipv4_per_interface: u32,
    /// Most interfaces of each network card, by card index.
    pub card_interfaces: Vec<u32>,
    pub default_card: u32,
    /// 0 when EFA is not supported.
    pub max_efa_interfaces: u32,
    /// EC2 reports ENA as supported or required.
    pub ena: bool,
    pub encryption_in_transit: bool,
    /// Baseline, in Mbps; 0 when unknown.
    pub network_mbps: u32,
    /// In Mbps where the type is EBS-optimised by default; 0 otherwise.
    pub ebs_mbps: u32,
    /// Most EBS volumes that can be attached, the root volume among them; 0 when unknown. The first network interface, the NVMe
    /// instance store and accelerators are taken off already.
    pub ebs_attachments: u32,
    /// Further network interfaces take the place of volumes.
    pub ebs_attachments_shared: bool,
    /// Total instance store in decimal GB; 0 when there is none.
    pub instance_store_gb: u64,
    /// The instance store is NVMe.
    pub nvme: bool,
    pub gpus: Vec<Accelerator>,
    pub neuron: Vec<Accelerator>,
    /// Inference accelerators of EC2's older API.
    pub inference: Vec<Accelerator>,
    pub placement_strategies: Vec<String>,
    /// Branch interfaces for pods with security groups; 0 when trunking is not supported.
    pub branch_interfaces: u32,
}

/// A kind of device in an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accelerator {
    pub name: String,
    pub manufacturer: String,
    pub count: u32,
    /// Of one device.
    pub memory_mib: u64,
    /// Of one device (Neuron only).
    pub cores: u32,
}

/// An availability zone, a local zone or a wavelength zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Zone {
    /// Such as `us-east-1a`. Differs between accounts for the same place.
    pub name: String,
    /// Such as `use1-az4`. The same place in every account.
    pub id: String,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub kind: String,
    /// A zonal shift moves traffic away from it now.
    pub shifted: bool,
}
