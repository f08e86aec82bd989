//! From the figures of an EC2 instance type to what a node of it reports: the rules of EKS's optimised images with default
//! kubelet settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::{self, Resources};

/// Share of the memory that firmware and hypervisor keep, in thousandths; the reference's default.
const MEMORY_OVERHEAD_PER_MILLE: i64 = 75;
/// Root volume, in GiB, and what of it is set aside (1 GiB kube-reserved and a tenth as eviction threshold).
const ROOT_GIB: i64 = 20;
const ROOT_RESERVED_GIB: i64 = 3;
/// Hard eviction threshold of memory.
const EVICTION_MIB: i64 = 100;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// Zones and types of one region.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) region: String,
    /// Zone letter and zone id.
    pub(super) zones: Vec<(String, String)>,
    pub(super) types: Vec<Figures>,
}

/// An instance type in figures.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) arch: String,
    pub(super) hypervisor: String,
    pub(super) cpu_maker: String,
    pub(super) cpus: i64,
    pub(super) mib: i64,
    pub(super) pods: i64,
    pub(super) encryption: bool,
    pub(super) network_mbit: Option<i64>,
    pub(super) ebs_mbit: Option<i64>,
    pub(super) clock_mhz: Option<i64>,
    pub(super) nvme_gb: Option<i64>,
    pub(super) gpu: Option<Gpu>,
    /// Extended resources.
    pub(super) devices: Vec<(String, i64)>,
    pub(super) prices: Prices,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Gpu {
    pub(super) name: String,
    pub(super) maker: String,
    pub(super) count: i64,
    pub(super) mib: i64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    pub(super) on_demand: Option<MicroDollars>,
    /// By zone letter: spot price, and whether on-demand is sold there.
    pub(super) zones: Vec<(String, Option<MicroDollars>, bool)>,
}

impl Figures {
    pub(super) fn family(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(family, _)| family)
    }

    pub(super) fn resolve(&self, table: &Table) -> InstanceType {
        InstanceType::new(
            &self.name,
            &self.labels(&table.region),
            self.capacity(),
            self.overhead(),
            self.offerings(table),
        )
    }

    fn labels(&self, region: &str) -> BTreeMap<String, String> {
        let (family, size) = self.name.split_once('.').unwrap_or((&self.name, ""));
        let digit = family.find(|c: char| c.is_ascii_digit());
        let category: String = family[..digit.unwrap_or(family.len())].trim_end_matches('-').to_owned();
        let generation: String =
            family[digit.unwrap_or(family.len())..].chars().take_while(char::is_ascii_digit).collect();
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        let mut put = |key: &str, value: String| {
            if !value.is_empty() {
                all.insert(key.to_owned(), value);
            }
        };
        put(labels::REGION, region.to_owned());
        put(labels::OS, labels::LINUX.to_owned());
        put(labels::ARCH, self.arch.clone());
        put(labels::INSTANCE_FAMILY, family.to_owned());
        put(labels::INSTANCE_SIZE, size.to_owned());
        put(labels::INSTANCE_CATEGORY, category);
        put(labels::INSTANCE_GENERATION, generation);
        put(labels::INSTANCE_CAPABILITY_FLEX, family.ends_with("-flex").to_string());
        put(labels::INSTANCE_TENANCY, labels::TENANCY_DEFAULT.to_owned());
        put(labels::INSTANCE_HYPERVISOR, self.hypervisor.clone());
        put(labels::INSTANCE_CPU, self.cpus.to_string());
        put(labels::INSTANCE_CPU_MANUFACTURER, self.cpu_maker.clone());
        put(labels::INSTANCE_MEMORY, self.mib.to_string());
        put(labels::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, self.encryption.to_string());
        for (key, figure) in [
            (labels::INSTANCE_NETWORK_BANDWIDTH, self.network_mbit),
            (labels::INSTANCE_EBS_BANDWIDTH, self.ebs_mbit),
            (labels::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, self.clock_mhz),
            (labels::INSTANCE_LOCAL_NVME, self.nvme_gb),
        ] {
            put(key, figure.map(|f| f.to_string()).unwrap_or_default());
        }
        if let Some(gpu) = &self.gpu {
            put(labels::INSTANCE_GPU_NAME, gpu.name.clone());
            put(labels::INSTANCE_GPU_MANUFACTURER, gpu.maker.clone());
            put(labels::INSTANCE_GPU_COUNT, gpu.count.to_string());
            put(labels::INSTANCE_GPU_MEMORY, gpu.mib.to_string());
        }
        all
    }

    fn capacity(&self) -> Resources {
        let usable = self.mib * (1000 - MEMORY_OVERHEAD_PER_MILLE) / 1000;
        let mut capacity = Resources::new()
            .with(resources::CPU, Quantity::from_units(self.cpus))
            .with(resources::MEMORY, Quantity::from_bytes(usable * MIB))
            .with(resources::PODS, Quantity::from_units(self.pods))
            .with(resources::EPHEMERAL_STORAGE, Quantity::from_bytes(ROOT_GIB * GIB));
        for (name, count) in &self.devices {
            capacity.insert(name.as_str(), Quantity::from_units(*count));
        }
        capacity
    }

    /// Kube-reserved: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; 255 MiB and
    /// 11 MiB a pod.
    fn overhead(&self) -> Resources {
        let quarter_millis = 240
            + 40 * (self.cpus - 1).clamp(0, 1)
            + 20 * (self.cpus - 2).clamp(0, 2)
            + 10 * (self.cpus - 4).max(0);
        let mib = 255 + 11 * self.pods + EVICTION_MIB;
        Resources::new()
            .with(resources::CPU, Quantity::from_milli(quarter_millis / 4))
            .with(resources::MEMORY, Quantity::from_bytes(mib * MIB))
            .with(resources::EPHEMERAL_STORAGE, Quantity::from_bytes(ROOT_RESERVED_GIB * GIB))
    }

    fn offerings(&self, table: &Table) -> Vec<Offering> {
        let mut offerings = Vec::new();
        for (letter, spot, sold) in &self.prices.zones {
            let zone: Arc<str> = Arc::from(format!("{}{letter}", table.region));
            let zone_id = table.zones.iter().find(|(l, _)| l == letter).map(|(_, id)| Arc::from(id.as_str()));
            let mut add = |capacity_type, price| {
                offerings.push(Offering {
                    zone: zone.clone(),
                    zone_id: zone_id.clone(),
                    capacity_type,
                    price,
                    available: true,
                    reservation: None,
                    capacity_override: Resources::new(),
                    overhead_override: Resources::new(),
                });
            };
            if let Some(price) = spot {
                add(CapacityType::Spot, *price);
            }
            if let Some(price) = self.prices.on_demand.filter(|_| *sold) {
                add(CapacityType::OnDemand, price);
            }
        }
        offerings
    }
}
