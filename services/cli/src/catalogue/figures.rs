//! An EC2 instance type in the few figures that the built-in table and `describe-instance-types` have in common. What a node of
//! it reports under an EC2NodeClass is derived by [`cloud::derive`].

use std::sync::Arc;

use cloud::derive::{self, NodeClass, Settings};
use cloud::facts::{Accelerator, TypeFacts};
use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::Resources;

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

impl Table {
    pub(super) fn resolve(&self, class: &NodeClass) -> Vec<InstanceType> {
        self.types.iter().map(|figures| figures.resolve(self, class)).collect()
    }
}

impl Figures {
    pub(super) fn family(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(family, _)| family)
    }

    /// The type as nodes of this class report it, derived as the services do.
    fn resolve(&self, table: &Table, class: &NodeClass) -> InstanceType {
        let (facts, settings) = (self.facts(), Settings::default());
        let mut capacity = derive::capacity(&facts, class, &settings, None);
        for (name, count) in &self.devices {
            capacity.insert(name.as_str(), Quantity::from_units(*count));
        }
        let overhead = derive::overhead(&facts, class, &settings, &capacity).total();
        let requirements = derive::requirements(&facts, class, &table.region);
        let mut offerings = self.offerings(table);
        // Without a status nothing is known about its subnets: every zone counts.
        if !class.subnets.is_empty() {
            offerings.retain(|offering| class.subnets.iter().any(|subnet| *subnet.zone == *offering.zone));
        }
        InstanceType::with_requirements(&self.name, requirements, capacity, overhead, offerings)
    }

    fn facts(&self) -> TypeFacts {
        let small = |figure: Option<i64>| figure.and_then(|f| u32::try_from(f).ok()).unwrap_or(0);
        let large = |figure: Option<i64>| figure.and_then(|f| u64::try_from(f).ok()).unwrap_or(0);
        let gpu = |gpu: &Gpu| Accelerator {
            name: gpu.name.clone(),
            manufacturer: gpu.maker.clone(),
            count: small(Some(gpu.count)),
            memory_mib: large(Some(gpu.mib)),
            cores: 0,
        };
        TypeFacts {
            name: self.name.clone(),
            architectures: vec![if self.arch == labels::AMD64 {
                "x86_64".to_owned()
            } else {
                self.arch.clone()
            }],
            vcpus: small(Some(self.cpus)),
            memory_mib: large(Some(self.mib)),
            hypervisor: self.hypervisor.clone(),
            cpu_manufacturer: self.cpu_maker.clone(),
            clock_mhz: small(self.clock_mhz),
            // The tables tell pods, not interfaces: one interface with so many addresses allows just as many.
            max_network_interfaces: 1,
            ipv4_per_interface: small(Some(self.pods - 1)),
            encryption_in_transit: self.encryption,
            network_mbps: small(self.network_mbit),
            ebs_mbps: small(self.ebs_mbit),
            instance_store_gb: large(self.nvme_gb),
            nvme: self.nvme_gb.is_some(),
            gpus: self.gpu.iter().map(gpu).collect(),
            ..TypeFacts::default()
        }
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
