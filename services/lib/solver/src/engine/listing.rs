//! Which instance types a new node lists: at most as many as may be listed, what it would be launched as and the cheapest
//! others, but never so few kinds of them that `minValues` fails where more would do.

use std::collections::BTreeSet;

use packing::Bits;

use super::state::State;
use crate::cells::is_cell_key;
use crate::reach::Reach;
use crate::table::NO_PRICE;

impl State<'_> {
    /// Whether enough different values remain among the types that will be listed.
    pub(crate) fn has_min_values(&self, pool: usize, reach: &Reach) -> bool {
        let wanted = &self.world.pools[pool].min_values;
        let enough =
            |rows: &Bits| wanted.iter().all(|(key, least)| self.distinct(pool, key, rows) >= *least as usize);
        if !enough(&reach.rows) {
            return false;
        }
        // Only where the list may have to be cut does it matter what is left of it.
        reach.rows.count() <= self.options.max_instance_types
            || wanted.is_empty()
            || enough(&self.as_rows(pool, &self.listed(pool, reach)))
    }

    /// How many values of a key the rows have between them.
    pub(crate) fn distinct(&self, pool: usize, key: &str, rows: &Bits) -> usize {
        let table = self.world.table(pool);
        if is_cell_key(key) {
            let mut offered = Bits::new(self.world.cells.len());
            rows.iter().for_each(|row| offered.add(&table.rows[row].cells));
            let values: BTreeSet<&str> =
                offered.iter().filter_map(|cell| self.world.cells.label(cell, key)).collect();
            return values.len();
        }
        table.values(key).filter(|(_, having)| having.meets(rows)).count()
    }

    pub(crate) fn as_rows(&self, pool: usize, rows: &[usize]) -> Bits {
        let mut out = Bits::new(self.world.table(pool).len());
        rows.iter().for_each(|row| out.set(*row));
        out
    }

    /// One row for each type that is listed, by the cheapest allowed offering, then by name.
    pub(crate) fn listed(&self, pool: usize, reach: &Reach) -> Vec<usize> {
        let (table, most) = (self.world.table(pool), self.options.max_instance_types);
        let price =
            |row: usize| reach.cells.iter().map(|cell| table.price(row, cell)).min().unwrap_or(NO_PRICE);
        let mut rows: Vec<(i64, usize)> = reach.rows.iter().map(|row| (price(row), row)).collect();
        rows.sort_unstable_by(|a, b| (a.0, &table.rows[a.1].name).cmp(&(b.0, &table.rows[b.1].name)));
        let mut seen = vec![false; table.types.len()];
        rows.retain(|(_, row)| !std::mem::replace(&mut seen[table.rows[*row].of_type], true));
        let rows: Vec<usize> = rows.into_iter().map(|(_, row)| row).collect();
        if rows.len() <= most {
            return rows;
        }
        // Spot is preferred where it is dearer, so that this need not be among the cheapest.
        let launched = self.launch(pool, reach).map(|launch| table.rows[launch.row].of_type);
        let first = rows.iter().position(|row| Some(table.rows[*row].of_type) == launched);
        let mut keep = self.diverse(pool, &rows, first);
        let room = most.saturating_sub(keep.iter().filter(|kept| **kept).count());
        keep.iter_mut().filter(|kept| !**kept).take(room).for_each(|kept| *kept = true);
        // More than may be listed are needed for all the values: then the cheapest of them, and too few values.
        let mut others = most.saturating_sub(usize::from(first.is_some()));
        let kept = rows.iter().zip(&keep).enumerate().filter(|(index, (_, kept))| {
            let other = **kept && Some(*index) != first && others > 0;
            others -= usize::from(other);
            other || Some(*index) == first
        });
        kept.map(|(_, (row, _))| *row).collect()
    }

    /// Of rows by price: the first of all, and those that bring a value which `minValues` still needs when their turn comes.
    fn diverse(&self, pool: usize, rows: &[usize], first: Option<usize>) -> Vec<bool> {
        let table = self.world.table(pool);
        let mut keep = vec![false; rows.len()];
        first.into_iter().for_each(|index| keep[index] = true);
        for (key, least) in &self.world.pools[pool].min_values {
            let mut have: BTreeSet<&str> = BTreeSet::new();
            let values_of = |row: usize| -> Vec<&str> {
                if is_cell_key(key) {
                    let cells = table.rows[row].cells.iter();
                    cells.filter_map(|cell| self.world.cells.label(cell, key)).collect()
                } else {
                    table.values(key).filter(|(_, having)| having.has(row)).map(|(value, _)| value).collect()
                }
            };
            have.extend(first.into_iter().flat_map(|index| values_of(rows[index])));
            for (index, row) in rows.iter().enumerate() {
                if have.len() >= *least as usize {
                    break;
                }
                let own = values_of(*row);
                if keep[index] || own.iter().any(|value| !have.contains(value)) {
                    keep[index] = true;
                    have.extend(own);
                }
            }
        }
        keep
    }
}
