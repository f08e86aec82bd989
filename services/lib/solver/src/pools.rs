//! NodePools ready for packing: template, rows that can be used at all, and what is left of each row for pods once its
//! daemons run.

use std::sync::Arc;

use model::labels;
use model::pod::{HostPort, PodSpec};
use model::pool::{DaemonSet, NodePool};
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::{self, Resources};
use model::taint::{Effect, Taint};
use packing::Bits;

use crate::cells::Cells;
use crate::dims::Dims;
use crate::reach::{Offer, Reach, WellKnown};
use crate::table::{RowId, TypeTable};

#[derive(Clone, Debug)]
pub(crate) struct PoolData {
    pub(crate) name: Arc<str>,
    pub(crate) weight: i32,
    /// Index of its table.
    pub(crate) table: usize,
    /// Requirements, labels, pool and node-class labels combined.
    pub(crate) template: Requirements,
    pub(crate) taints: Vec<Taint>,
    /// What the template allows, without rows that cannot even hold their daemons.
    pub(crate) base: Reach,
    /// `rows × dims`: allocatable less daemon overhead.
    pub(crate) room: Vec<i64>,
    /// `rows × dims`: the daemon overhead itself.
    pub(crate) overhead: Vec<i64>,
    /// Host ports that daemons take, by row; empty if no daemon has any.
    pub(crate) daemon_ports: Vec<Vec<HostPort>>,
    pub(crate) limits: Vec<Limit>,
    /// Most nodes, where limited.
    pub(crate) max_nodes: Option<i64>,
    pub(crate) min_values: Vec<(String, u32)>,
    pub(crate) fixed_size: bool,
    /// Pods may cause new nodes here: not of fixed size, and some row is usable.
    pub(crate) usable: bool,
    /// The template itself leaves no type at all: worth a warning of its own.
    pub(crate) excludes_everything: bool,
}

/// A limited resource and what each row counts against it.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) resource: String,
    /// In thousandths, saturating.
    pub(crate) limit: i64,
    pub(crate) by_row: Vec<i64>,
}

pub(crate) struct PoolInput<'a> {
    pub(crate) cells: &'a Cells,
    pub(crate) dims: &'a Dims,
    pub(crate) well_known: &'a WellKnown,
    pub(crate) daemons: &'a [DaemonSet],
}

impl PoolData {
    pub(crate) fn new(pool: &NodePool, table_index: usize, table: &TypeTable, input: &PoolInput<'_>) -> Self {
        let template = template(pool);
        let offer = Offer { template: &template, table, cells: input.cells, well_known: input.well_known };
        let mut base = offer.of_template();
        let contradiction = template.iter().any(|r| r.is_empty() && !allows_nothing(pool, r.key()));
        if contradiction {
            base.rows = Bits::new(table.len());
        }
        keep_offered(&mut base, table);
        let excludes_everything = base.rows.is_empty();
        let (overhead, daemon_ports) = daemon_overhead(pool, &template, table, input);
        let dims = input.dims.len();
        let room: Vec<i64> = table.allocatable.iter().zip(&overhead).map(|(a, o)| a - o).collect();
        for row in 0..table.len() {
            if room[row * dims..(row + 1) * dims].iter().any(|amount| *amount < 0) {
                base.rows.unset(row);
            }
        }
        let usable = !pool.fixed_size && !base.rows.is_empty();
        Self {
            name: Arc::clone(&pool.name),
            weight: pool.weight,
            table: table_index,
            min_values: template.min_values().map(|(key, count)| (key.to_owned(), count)).collect(),
            template,
            taints: pool.taints.clone(),
            base,
            room,
            overhead,
            daemon_ports,
            limits: limits(pool, table),
            max_nodes: pool
                .limits
                .contains(resources::NODES)
                .then(|| pool.limits.get(resources::NODES).value_floor()),
            fixed_size: pool.fixed_size,
            usable,
            excludes_everything,
        }
    }

    pub(crate) fn room(&self, row: RowId, dims: usize) -> &[i64] {
        &self.room[row * dims..(row + 1) * dims]
    }

    /// Drops rows whose type counts more against a limit of the pool than is left of it.
    pub(crate) fn keep_within_limits(&self, left: &[i64], rows: &mut Bits) {
        for (limit, left) in self.limits.iter().zip(left) {
            for (row, amount) in limit.by_row.iter().enumerate() {
                if amount > left {
                    rows.unset(row);
                }
            }
        }
    }

    pub(crate) fn overhead(&self, row: RowId, dims: usize) -> &[i64] {
        &self.overhead[row * dims..(row + 1) * dims]
    }
}

/// The author of the pool asked for the absence of the label, which is no contradiction.
fn allows_nothing(pool: &NodePool, key: &str) -> bool {
    !pool.labels.contains_key(key) && pool.requirements.get(key).is_some_and(Requirement::is_empty)
}

fn template(pool: &NodePool) -> Requirements {
    let mut template = pool.requirements.clone();
    for (key, value) in &pool.labels {
        template.add(Requirement::is(key, value.as_str()));
    }
    if let Some((key, value)) = &pool.node_class_label {
        template.add(Requirement::is(key, value.as_str()));
    }
    template.add(Requirement::is(labels::NODEPOOL, &*pool.name));
    template
}

/// Drops rows without an offering in the allowed cells.
pub(crate) fn keep_offered(reach: &mut Reach, table: &TypeTable) {
    for row in 0..table.len() {
        if reach.rows.has(row) && !table.rows[row].cells.meets(&reach.cells) {
            reach.rows.unset(row);
        }
    }
}

/// A claim names types, not offerings: whichever of its capacities a type comes with, the largest is what may be launched.
fn limits(pool: &NodePool, table: &TypeTable) -> Vec<Limit> {
    let by_row = |resource: &str| -> Vec<i64> {
        let mut by_type = vec![0_i64; table.types.len()];
        for row in &table.rows {
            let slot = &mut by_type[row.of_type];
            *slot = (*slot).max(row.capacity.get(resource).milli_ceil());
        }
        table.rows.iter().map(|row| by_type[row.of_type]).collect()
    };
    pool.limits
        .iter()
        .filter(|(name, _)| *name != resources::NODES)
        .map(|(name, limit)| Limit {
            resource: name.to_owned(),
            limit: limit.milli_floor(),
            by_row: by_row(name),
        })
        .collect()
}

/// Each OR-ed term of the required affinity with the node selector; one entry without any term.
pub(crate) fn required_alternatives(spec: &PodSpec) -> Vec<Requirements> {
    let selector = Requirements::from_labels(spec.node_selector.iter().map(|(k, v)| (k, v.as_str())));
    if spec.required_node_affinity.is_empty() {
        return vec![selector];
    }
    let with = |term: &Requirements| {
        let mut both = selector.clone();
        both.add_all(term);
        both
    };
    spec.required_node_affinity.iter().map(with).collect()
}

/// Whether a daemon runs on nodes with these taints. Soft taints never keep a daemon away.
pub(crate) fn daemon_tolerates<'a>(daemon: &PodSpec, taints: impl IntoIterator<Item = &'a Taint>) -> bool {
    taints.into_iter().all(|t| t.effect == Effect::PreferNoSchedule || t.is_tolerated_by(&daemon.tolerations))
}

fn daemon_overhead(
    pool: &NodePool,
    template: &Requirements,
    table: &TypeTable,
    input: &PoolInput<'_>,
) -> (Vec<i64>, Vec<Vec<HostPort>>) {
    let dims = input.dims.len();
    let mut overhead = vec![0_i64; table.len() * dims];
    let mut ports: Vec<Vec<HostPort>> = Vec::new();
    // Daemons may select what every node of ours gets in the end.
    let template = template
        .clone()
        .with(Requirement::is(labels::REGISTERED, labels::TRUE))
        .with(Requirement::is(labels::INITIALIZED, labels::TRUE));
    let offer = Offer { template: &template, table, cells: input.cells, well_known: input.well_known };
    let base = offer.of_template();
    for daemon in input.daemons.iter().filter(|daemon| daemon.is_overhead()) {
        let spec = &*daemon.pod;
        if !daemon_tolerates(spec, &pool.taints) {
            continue;
        }
        let mut rows = Bits::new(table.len());
        for asked in required_alternatives(spec) {
            if let Some(mut reach) = offer.of(&base, &asked) {
                keep_offered(&mut reach, table);
                rows.add(&reach.rows);
            }
        }
        let requests = input.dims.requests(&spec.requests);
        for row in rows.iter() {
            for (sum, amount) in overhead[row * dims..].iter_mut().zip(&requests) {
                *sum = sum.saturating_add(*amount);
            }
        }
        if !spec.host_ports.is_empty() {
            ports.resize(table.len(), Vec::new());
            for row in rows.iter() {
                ports[row].extend(&spec.host_ports);
            }
        }
    }
    (overhead, ports)
}

/// Usage against limits of nodes that exist, by pool name.
pub(crate) fn counted(capacity: &Resources, resource: &str) -> i64 {
    capacity.get(resource).milli_ceil()
}
