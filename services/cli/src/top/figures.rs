//! Nodes and pools in figures. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use model::price::MicroDollars;
use model::quantity::Quantity;
use proto::disruption::v1::Candidate;
use proto::provisioner::v1::{GetSnapshotResponse, NodeSummary};
use proto::types::v1::Resources;
use serde::Serialize;

use super::By;
use crate::offering::{Offering, dollars, maybe_dollars};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Top {
    pub(super) pools: Vec<Pool>,
    pub(super) total: Pool,
    pub(super) nodes: Vec<Node>,
    /// Why savings are not known, if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) savings_unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) node: String,
    pub(super) node_pool: String,
    pub(super) phase: String,
    #[serde(flatten)]
    pub(super) offering: Option<Offering>,
    pub(super) pods: u32,
    #[serde(flatten)]
    pub(super) used: Used,
    /// What is paid for and not requested, by the resource of which most is requested.
    #[serde(rename = "wastePerHour", serialize_with = "dollars")]
    pub(super) waste: MicroDollars,
    #[serde(
        rename = "savingPerHour",
        skip_serializing_if = "Option::is_none",
        serialize_with = "maybe_dollars"
    )]
    pub(super) saving: Option<MicroDollars>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disruptable: Option<bool>,
    /// The most decisive thing that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_by: Option<String>,
}

/// Share of what pods may use that they request, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Used {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_percent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_percent: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pool {
    pub(super) node_pool: String,
    pub(super) nodes: u32,
    pub(super) pods: u32,
    /// Nodes without a price, which the sums leave out.
    pub(super) unpriced: u32,
    #[serde(flatten)]
    pub(super) used: Used,
    #[serde(rename = "pricePerHour", serialize_with = "dollars")]
    pub(super) price: MicroDollars,
    #[serde(rename = "wastePerHour", serialize_with = "dollars")]
    pub(super) waste: MicroDollars,
    /// The largest saving that was found for one node by itself: what is certain.
    #[serde(rename = "bestSavingPerHour", serialize_with = "dollars")]
    pub(super) best_saving: MicroDollars,
    /// All that were found, each by itself. They may depend on the same free room, so this is what there is at most.
    #[serde(rename = "sumOfSavingsPerHour", serialize_with = "dollars")]
    pub(super) savings: MicroDollars,
    #[serde(skip)]
    cpu: Amounts,
    #[serde(skip)]
    memory: Amounts,
}

/// In nano-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amounts {
    requested: i128,
    allocatable: i128,
}

impl Amounts {
    fn of(node: &NodeSummary, name: &str) -> Result<Self> {
        let nano = |resources: Option<&Resources>| -> Result<i128> {
            let Some(text) = resources.and_then(|r| r.quantities.get(name)) else { return Ok(0) };
            let quantity: Quantity = text.parse().with_context(|| format!("{name} of node {}", node.name))?;
            Ok(quantity.nano())
        };
        Ok(Self { requested: nano(node.requested.as_ref())?, allocatable: nano(node.allocatable.as_ref())? })
    }

    fn add(&mut self, other: Self) {
        self.requested += other.requested;
        self.allocatable += other.allocatable;
    }

    fn percent(self) -> Option<u32> {
        (self.allocatable > 0)
            .then(|| u32::try_from(self.requested.max(0) * 100 / self.allocatable).unwrap_or(u32::MAX))
    }

    /// The part of the price that nobody requested.
    fn unused(self, price: MicroDollars) -> MicroDollars {
        let free = (self.allocatable - self.requested).clamp(0, self.allocatable.max(0));
        let part = i128::from(price.get()) * free / self.allocatable.max(1);
        MicroDollars::new(i64::try_from(part).unwrap_or(i64::MAX))
    }
}

impl Top {
    /// Nodes of ours; of one pool, unless its name is empty.
    pub(super) fn new(snapshot: &GetSnapshotResponse, pool: &str) -> Result<Self> {
        let mut nodes = Vec::new();
        let mut pools: BTreeMap<&str, Pool> = BTreeMap::new();
        let mut total = Pool { node_pool: "all".to_owned(), ..Pool::default() };
        let ours =
            |node: &&NodeSummary| !node.node_claim.is_empty() && (pool.is_empty() || node.node_pool == pool);
        for node in snapshot.node_summaries.iter().filter(ours) {
            let (cpu, memory) = (Amounts::of(node, "cpu")?, Amounts::of(node, "memory")?);
            let offering = node.offering.clone().filter(|o| o.micro_usd_per_hour > 0).map(Offering::from);
            let price = offering.as_ref().map(|offering| offering.price_per_hour);
            let waste = price.map_or(MicroDollars::ZERO, |price| cpu.unused(price).min(memory.unused(price)));
            let own = pools
                .entry(&node.node_pool)
                .or_insert_with(|| Pool { node_pool: node.node_pool.clone(), ..Pool::default() });
            for pool in [own, &mut total] {
                pool.nodes += 1;
                pool.pods += node.pods;
                pool.unpriced += u32::from(price.is_none());
                pool.price += price.unwrap_or_default();
                pool.waste += waste;
                pool.cpu.add(cpu);
                pool.memory.add(memory);
                pool.used = Used { cpu_percent: pool.cpu.percent(), memory_percent: pool.memory.percent() };
            }
            nodes.push(Node {
                node: node.name.clone(),
                node_pool: node.node_pool.clone(),
                phase: node.phase.clone(),
                offering,
                pods: node.pods,
                used: Used { cpu_percent: cpu.percent(), memory_percent: memory.percent() },
                waste,
                saving: None,
                disruptable: None,
                held_by: None,
            });
        }
        Ok(Self { pools: pools.into_values().collect(), total, nodes, savings_unknown: None })
    }

    pub(super) fn add_candidates(&mut self, candidates: &[Candidate]) {
        let by_name: BTreeMap<&str, &Candidate> = candidates.iter().map(|c| (c.node.as_str(), c)).collect();
        for node in &mut self.nodes {
            let Some(found) = by_name.get(node.node.as_str()) else { continue };
            node.disruptable = Some(found.disruptable);
            node.held_by = found.blockers.first().map(|blocker| blocker.detail.clone());
            node.saving = found.saving_micro_usd_per_hour.map(MicroDollars::new);
            let Some(saving) = node.saving else { continue };
            let own = self.pools.iter_mut().filter(|pool| pool.node_pool == node.node_pool);
            for pool in own.chain([&mut self.total]) {
                pool.best_saving = pool.best_saving.max(saving);
                pool.savings += saving;
            }
        }
    }

    pub(super) fn without_disruption(&mut self, error: &anyhow::Error) {
        self.savings_unknown = Some(format!("{error:#}"));
    }

    pub(super) fn order(&mut self, by: By) {
        self.nodes.sort_by(|a, b| {
            let price = |n: &Node| n.offering.as_ref().map_or(MicroDollars::ZERO, |o| o.price_per_hour);
            let key = |n: &Node| match by {
                By::Waste => (n.waste, price(n)),
                By::Cost => (price(n), n.waste),
                By::Saving => (n.saving.unwrap_or_default(), n.waste),
            };
            (Reverse(key(a)), &a.node).cmp(&(Reverse(key(b)), &b.node))
        });
    }
}
