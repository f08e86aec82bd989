//! A catalogue as dense tables: one row per instance type and set of capacity overrides, one column per cell.
//!
//! Pools whose node classes offer the same share one table.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{InstanceType, Offering};
use model::labels;
use model::requirement::Requirement;
use model::resources::{self, Resources};
use packing::Bits;

use crate::cells::{CellId, Cells, is_cell_key};
use crate::dims::Dims;

pub(crate) type RowId = usize;

/// No offering: dearer than anything.
pub(crate) const NO_PRICE: i64 = i64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: Arc<str>,
    /// Index into the catalogue; rows of one type share it.
    pub(crate) of_type: usize,
    /// Resources that a node of this row has, as counted against limits.
    pub(crate) capacity: Resources,
    /// Cells with an open offering.
    pub(crate) cells: Bits,
}

#[derive(Clone, Debug)]
pub(crate) struct TypeTable {
    /// What the table was made from; also tells two pools apart.
    pub(crate) types: Arc<Vec<InstanceType>>,
    pub(crate) rows: Vec<Row>,
    /// `rows × dims`, capacity less overhead; negative where overhead exceeds capacity.
    pub(crate) allocatable: Vec<i64>,
    /// `rows × cells` in micro-dollars an hour; [`NO_PRICE`] without an open offering.
    pub(crate) prices: Vec<i64>,
    cell_count: usize,
    /// `rows ×` words: the cells of every row once more, in one piece.
    cell_words: Vec<u64>,
    columns: BTreeMap<String, Column>,
}

/// Which rows can have which value of one label key.
#[derive(Clone, Debug)]
struct Column {
    by_value: BTreeMap<String, Bits>,
    absent: Bits,
    /// Rows that can have any value (their requirement is a complement).
    open: Bits,
    /// Some row can have more than one value, so that two pods may agree with the row but not with each other.
    several: bool,
}

impl TypeTable {
    pub(crate) fn new(types: &Arc<Vec<InstanceType>>, cells: &mut Cells, dims: &Dims) -> Self {
        let mut rows = Vec::new();
        let mut allocatable = Vec::new();
        let mut offers: Vec<(RowId, CellId, i64)> = Vec::new();
        for (of_type, instance) in types.iter().enumerate() {
            for (_, group) in override_groups(&instance.offerings) {
                let sample = group[0];
                let capacity = replaced(&instance.capacity, &sample.capacity_override);
                let overhead = replaced(&instance.overhead, &sample.overhead_override);
                let free = allocatable_of(&capacity, &overhead);
                allocatable.extend(dims.capacity(&free, &instance.attach_limits));
                for offering in &group {
                    offers.push((rows.len(), cells.add(offering), offering.price.get().max(0)));
                }
                rows.push(Row {
                    name: Arc::clone(&instance.name),
                    of_type,
                    capacity,
                    cells: Bits::default(),
                });
            }
        }
        let columns = columns(types, &rows);
        let mut table = Self {
            types: Arc::clone(types),
            rows,
            allocatable,
            prices: Vec::new(),
            cell_count: 0,
            cell_words: Vec::new(),
            columns,
        };
        table.offers_into_prices(&offers, cells.len());
        table
    }

    /// Cells may be added by later tables: sizes are settled once all are known.
    fn offers_into_prices(&mut self, offers: &[(RowId, CellId, i64)], cell_count: usize) {
        self.cell_count = cell_count;
        self.prices = vec![NO_PRICE; self.rows.len() * cell_count];
        for row in &mut self.rows {
            row.cells = Bits::new(cell_count);
        }
        for &(row, cell, price) in offers {
            let slot = &mut self.prices[row * cell_count + cell];
            *slot = (*slot).min(price);
            self.rows[row].cells.set(cell);
        }
        self.cell_words = self.rows.iter().flat_map(|row| row.cells.words().iter().copied()).collect();
    }

    pub(crate) fn widen(&mut self, cell_count: usize) {
        if cell_count == self.cell_count {
            return;
        }
        let old = self.cell_count;
        let offers: Vec<_> = (0..self.rows.len())
            .flat_map(|row| (0..old).map(move |cell| (row, cell)))
            .map(|(row, cell)| (row, cell, self.prices[row * old + cell]))
            .filter(|offer| offer.2 != NO_PRICE)
            .collect();
        self.offers_into_prices(&offers, cell_count);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn price(&self, row: RowId, cell: CellId) -> i64 {
        self.prices[row * self.cell_count + cell]
    }

    /// By row, as [`Bits::words`]: cells with an open offering.
    pub(crate) fn all_cell_words(&self) -> &[u64] {
        &self.cell_words
    }

    pub(crate) fn row_prices(&self, row: RowId) -> &[i64] {
        &self.prices[row * self.cell_count..(row + 1) * self.cell_count]
    }

    pub(crate) fn defines(&self, key: &str) -> bool {
        self.columns.contains_key(key)
    }

    /// Whether agreeing with each of two pods does not yet mean that the two agree on this key.
    pub(crate) fn has_several_values(&self, key: &str) -> bool {
        self.columns.get(key).is_some_and(|c| c.several)
    }

    /// Rows whose nodes can satisfy the requirement. Of keys that no type defines, well-known ones are labels that the
    /// nodes will not have; for others the types have no say.
    pub(crate) fn satisfying(&self, requirement: &Requirement, well_known: bool) -> Bits {
        let Some(column) = self.columns.get(requirement.key()) else {
            let silent = !well_known || matches!(requirement.key(), labels::NODEPOOL | labels::REGION);
            let all = silent || requirement.allows_absence();
            return if all { Bits::full(self.len()) } else { Bits::new(self.len()) };
        };
        let mut out = column.open.clone();
        if requirement.is_complement() {
            for (value, rows) in &column.by_value {
                if requirement.contains(value) {
                    out.add(rows);
                }
            }
        } else {
            for value in requirement.values() {
                if let Some(rows) = column.by_value.get(value) {
                    out.add(rows);
                }
            }
        }
        if requirement.allows_absence() {
            out.add(&column.absent);
        }
        out
    }

    /// Values that the rows can have for a key.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = (&str, &Bits)> {
        self.columns.get(key).into_iter().flat_map(|c| c.by_value.iter().map(|(v, rows)| (v.as_str(), rows)))
    }
}

fn replaced(base: &Resources, with: &Resources) -> Resources {
    let mut out = base.clone();
    for (name, amount) in with.iter() {
        out.insert(name, amount);
    }
    out
}

/// Huge pages are taken out of memory.
fn allocatable_of(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut out = capacity.clone();
    out.sub(overhead);
    let pages: Vec<_> = capacity
        .iter()
        .filter(|(name, _)| name.starts_with(resources::HUGE_PAGES_PREFIX))
        .map(|(_, amount)| amount)
        .collect();
    for amount in pages {
        let left = out.get(resources::MEMORY).saturating_sub(amount);
        out.insert(resources::MEMORY, left.max(model::quantity::Quantity::ZERO));
    }
    out
}

/// Open offerings by what they override. A type without open offerings has no group, hence no row.
fn override_groups(offerings: &[Offering]) -> Vec<((Resources, Resources), Vec<&Offering>)> {
    let mut groups: Vec<((Resources, Resources), Vec<&Offering>)> = Vec::new();
    for offering in offerings.iter().filter(|o| o.is_open()) {
        let key = (&offering.capacity_override, &offering.overhead_override);
        match groups.iter_mut().find(|(known, _)| (&known.0, &known.1) == key) {
            Some((_, group)) => group.push(offering),
            None => groups.push(((key.0.clone(), key.1.clone()), vec![offering])),
        }
    }
    groups
}

fn columns(types: &[InstanceType], rows: &[Row]) -> BTreeMap<String, Column> {
    let mut columns: BTreeMap<String, Column> = BTreeMap::new();
    for instance in types {
        for key in instance.requirements.keys().filter(|k| !is_cell_key(k) && *k != labels::HOSTNAME) {
            if !columns.contains_key(key) {
                let column = Column {
                    by_value: BTreeMap::new(),
                    absent: Bits::full(rows.len()),
                    open: Bits::new(rows.len()),
                    several: false,
                };
                columns.insert(key.to_owned(), column);
            }
        }
    }
    for (index, row) in rows.iter().enumerate() {
        for requirement in types[row.of_type].requirements.iter() {
            let Some(column) = columns.get_mut(requirement.key()) else { continue };
            if requirement.is_complement() {
                column.absent.unset(index);
                column.open.set(index);
                column.several = true;
                continue;
            }
            if !requirement.values().is_empty() {
                column.absent.unset(index);
            }
            column.several |= requirement.values().len() > 1;
            for value in requirement.values() {
                match column.by_value.get_mut(value) {
                    Some(bits) => bits.set(index),
                    None => {
                        let mut bits = Bits::new(rows.len());
                        bits.set(index);
                        column.by_value.insert(value.clone(), bits);
                    }
                }
            }
        }
    }
    columns
}
