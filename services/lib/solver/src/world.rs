//! The compiled cluster: catalogue, pools, classes, topology groups and nodes as dense tables. Immutable once built, shared
//! by every question that is asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use model::catalog::LabelMap;
use model::labels;
use model::pod::LabelSelector;
use model::pool::DaemonSet;
use model::taint::Taint;
use packing::Bits;

use crate::backlog::Backlog;
use crate::cells::Cells;
use crate::classes::{ClassData, Classes};
use crate::dims::Dims;
use crate::nodes::{NodeData, PodEntry, accepts};
use crate::plan::PodRef;
use crate::pools::{PoolData, keep_offered};
use crate::reach::{Offer, Reach, WellKnown};
use crate::sets::{ReqSetId, Sets, TolSetId};
use crate::snapshot::PriceList;
use crate::table::TypeTable;
use crate::topology::counts::Counts;
use crate::topology::group::{GroupId, NamespaceLabels};
use crate::topology::groups::{DomainId, Groups, TopoKeyId};

/// By topology key, then pool: the pool's taints and the domains that its new nodes can be in.
pub(crate) type Universe = Vec<Vec<(Vec<Taint>, Bits)>>;

/// Everything is behind an `Arc`, so that a changed world shares what did not change.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) dims: Arc<Dims>,
    pub(crate) well_known: Arc<WellKnown>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) tables: Arc<Vec<TypeTable>>,
    /// In order of preference: weight descending, then name descending.
    pub(crate) pools: Arc<Vec<PoolData>>,
    pub(crate) daemons: Arc<Vec<DaemonSet>>,
    pub(crate) namespaces: Arc<KnownNamespaces>,
    pub(crate) sets: Arc<Sets>,
    pub(crate) classes: Arc<Classes>,
    pub(crate) groups: Arc<Groups>,
    /// By topology key: the domains that each set of pool taints can produce.
    pub(crate) universe: Arc<Universe>,
    pub(crate) soft_taints: bool,

    /// In the order in which they are offered to pods.
    pub(crate) nodes: Vec<Arc<NodeData>>,
    /// `nodes × dims`: what is left for pods, daemons that are still to come taken off.
    pub(crate) free: Arc<Vec<i64>>,
    /// See [`crate::snapshot::block_most`].
    pub(crate) block_most: Arc<Vec<i64>>,
    /// Nodes being deleted, whose pods need new places.
    pub(crate) deleting: Arc<Vec<u32>>,
    /// Nodes that accept pods: all but those being deleted.
    pub(crate) open: Arc<Bits>,
    /// By topology key and node.
    pub(crate) node_domains: Arc<Vec<Vec<DomainId>>>,
    pub(crate) counts: Arc<Vec<Arc<Counts>>>,
    /// Pods without a node, in input order.
    pub(crate) pending: Arc<Vec<PodEntry>>,
    /// Pods that validation refused.
    pub(crate) rejected: Arc<Vec<(PodRef, String)>>,
    pub(crate) prices: Arc<PriceList>,
    /// By pool: what is left of each limit, and of the number of nodes.
    pub(crate) limits_left: Arc<Vec<(Vec<i64>, Option<i64>)>>,

    pub(crate) lazy: Lazy,
}

/// Answers computed when first asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lazy {
    /// By requirement set: nodes whose labels satisfy it.
    accepting: Vec<OnceLock<Arc<Bits>>>,
    /// By toleration set: nodes whose taints it bears.
    tolerated: Vec<OnceLock<Arc<Bits>>>,
    /// By requirement set, then pool.
    reaches: Vec<OnceLock<Arc<Vec<Option<Reach>>>>>,
    /// By table and cell: rows with an offering there, cheapest first.
    by_price: OnceLock<Arc<Vec<Vec<Vec<u32>>>>>,
    backlog: OnceLock<Arc<Backlog>>,
}

impl Lazy {
    /// Makes room for sets that were added.
    pub(crate) fn grow(&mut self, sets: &Sets) {
        self.accepting.resize_with(sets.requirements.len(), OnceLock::new);
        self.reaches.resize_with(sets.requirements.len(), OnceLock::new);
        self.tolerated.resize_with(sets.tolerations.len(), OnceLock::new);
    }

    /// Forgets what depends on which pods are where.
    pub(crate) fn forget_pods(&mut self) {
        self.backlog = OnceLock::new();
    }

    /// Forgets what depends on the list of nodes.
    pub(crate) fn forget_nodes(&mut self) {
        self.accepting.iter_mut().for_each(|slot| *slot = OnceLock::new());
        self.tolerated.iter_mut().for_each(|slot| *slot = OnceLock::new());
    }
}

impl World {
    pub(crate) fn accepting(&self, set: ReqSetId) -> &Bits {
        self.lazy.accepting[set as usize].get_or_init(|| {
            let asked = self.sets.requirements.get(set);
            let mut out = Bits::new(self.nodes.len());
            for (index, node) in self.nodes.iter().enumerate() {
                if asked.is_empty() || accepts(&node.labels, asked) {
                    out.set(index);
                }
            }
            Arc::new(out)
        })
    }

    pub(crate) fn tolerated(&self, set: TolSetId) -> &Bits {
        self.lazy.tolerated[set as usize].get_or_init(|| {
            let own = self.sets.tolerations.get(set);
            let by_taints: Vec<bool> = (0..self.sets.taints.len())
                .map(|t| self.sets.taints.get(t as u32).iter().all(|taint| taint.is_tolerated_by(own)))
                .collect();
            let mut out = Bits::new(self.nodes.len());
            for (index, node) in self.nodes.iter().enumerate() {
                if by_taints[node.taints as usize] {
                    out.set(index);
                }
            }
            Arc::new(out)
        })
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        self.lazy.backlog.get_or_init(|| Arc::new(Backlog::of(&self.pending)))
    }

    pub(crate) fn reach(&self, set: ReqSetId, pool: usize) -> Option<&Reach> {
        let all = self.lazy.reaches[set as usize].get_or_init(|| {
            let asked = self.sets.requirements.get(set);
            let of_pool = |(index, pool): (usize, &PoolData)| {
                let mut reach = self.offer(index).of(&pool.base, asked)?;
                keep_offered(&mut reach, &self.tables[pool.table]);
                (!reach.rows.is_empty()).then_some(reach)
            };
            Arc::new(self.pools.iter().enumerate().map(of_pool).collect())
        });
        all[pool].as_ref()
    }

    /// Rows of a table that can be launched in the cell, cheapest first.
    pub(crate) fn by_price(&self, table: usize, cell: usize) -> &[u32] {
        let all = self.lazy.by_price.get_or_init(|| {
            let of_cell = |table: &TypeTable, cell: usize| {
                let mut rows: Vec<u32> =
                    (0..table.len() as u32).filter(|r| table.rows[*r as usize].cells.has(cell)).collect();
                rows.sort_by_key(|r| (table.price(*r as usize, cell), *r));
                rows
            };
            let of_table = |table: &TypeTable| {
                (0..self.cells.len()).map(|cell| of_cell(table, cell)).collect::<Vec<_>>()
            };
            Arc::new(self.tables.iter().map(of_table).collect())
        });
        &all[table][cell]
    }

    pub(crate) fn tolerates_pool(&self, set: TolSetId, pool: usize) -> bool {
        let taints = &self.pools[pool].taints;
        taints.is_empty() || taints.iter().all(|t| t.is_tolerated_by(self.sets.tolerations.get(set)))
    }

    pub(crate) fn offer(&self, pool: usize) -> Offer<'_> {
        let data = &self.pools[pool];
        Offer {
            template: &data.template,
            table: &self.tables[data.table],
            cells: &self.cells,
            well_known: &self.well_known,
        }
    }

    pub(crate) fn table(&self, pool: usize) -> &TypeTable {
        &self.tables[self.pools[pool].table]
    }

    pub(crate) fn free(&self, node: usize) -> &[i64] {
        let dims = self.dims.len();
        &self.free[node * dims..(node + 1) * dims]
    }

    pub(crate) fn node_index(&self, name: &str) -> Option<u32> {
        let in_order =
            |starting: bool| self.nodes.binary_search_by(|node| node.order().cmp(&(starting, name))).ok();
        // While changes are being made, the list is not in order.
        let found = in_order(false).or_else(|| in_order(true));
        let found = found.or_else(|| self.nodes.iter().position(|node| &*node.name == name));
        found.map(|index| index as u32)
    }

    pub(crate) fn topo_key_of(&self, group: GroupId) -> TopoKeyId {
        self.groups.get(group).key
    }
}

impl ClassData {
    /// Required anti-affinity rules hold on every rung.
    pub(crate) fn stated_anti(&self) -> &[GroupId] {
        let policy = crate::options::PreferencePolicy::Respect;
        self.ladder(policy).first().map_or(&[], |v| &v.stated_anti)
    }
}

/// Namespaces and their labels, for namespace selectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownNamespaces(pub(crate) BTreeMap<String, LabelMap>);

impl KnownNamespaces {
    pub(crate) fn new(given: BTreeMap<String, LabelMap>, seen: BTreeSet<String>) -> Self {
        let mut all = given;
        for name in seen {
            all.entry(name).or_default();
        }
        for (name, labels) in &mut all {
            labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| name.clone());
        }
        Self(all)
    }
}

impl NamespaceLabels for KnownNamespaces {
    fn matching(&self, selector: &LabelSelector) -> BTreeSet<String> {
        self.0.iter().filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name.clone()).collect()
    }
}

/// Domains that new nodes of the pools can be in. The pool and node-class labels are not among them: spreading over those
/// sees existing nodes only.
pub(crate) fn universe(
    groups: &mut Groups,
    pools: &[PoolData],
    tables: &[TypeTable],
    cells: &Cells,
) -> Universe {
    let mut all = Vec::new();
    for key in &mut groups.keys {
        let mut of_key: Vec<(Vec<Taint>, Vec<DomainId>)> = Vec::new();
        let skipped = key.host || key.name == labels::NODEPOOL || key.name == labels::EC2NODECLASS;
        for pool in pools.iter().filter(|p| !skipped && !p.fixed_size && !tables[p.table].rows.is_empty()) {
            let template = pool.template.get(&key.name);
            let mut values: BTreeSet<String> = BTreeSet::new();
            let allowed = |value: &str| template.is_none_or(|r| r.contains(value));
            if key.cells.is_some() {
                for (id, _) in cells.list.iter().enumerate() {
                    let offered = tables[pool.table].rows.iter().any(|row| row.cells.has(id));
                    if let (true, Some(value)) = (offered, cells.label(id, &key.name)) {
                        values.insert(value.to_owned());
                    }
                }
            } else {
                values.extend(tables[pool.table].values(&key.name).map(|(v, _)| v.to_owned()));
            }
            values.retain(|v| allowed(v));
            if let Some(listed) = template.filter(|r| !r.is_complement()) {
                values.extend(listed.values().iter().cloned());
            }
            of_key.push((pool.taints.clone(), values.iter().map(|v| key.add(v, cells)).collect()));
        }
        all.push(of_key);
    }
    let sized = |(taints, domains): (Vec<Taint>, Vec<DomainId>), len: usize| {
        let mut bits = Bits::new(len);
        domains.iter().for_each(|d| bits.set(*d as usize));
        (taints, bits)
    };
    let lens: Vec<usize> = groups.keys.iter().map(|k| k.values.len()).collect();
    all.into_iter()
        .zip(lens)
        .map(|(of_key, len)| of_key.into_iter().map(|e| sized(e, len)).collect())
        .collect()
}
