//! A small linear programme: cover every row at least so often at the least cost, with columns added as they are found.
//!
//! Revised simplex with an explicit inverse of the basis. Its floating-point results only guide the packing; bounds that are
//! reported are re-checked in integers by whoever uses the duals.

use super::tuning::numeric::{PIVOTS_PER_REFRESH, RECENT_COLUMNS, TOLERANCE};

/// `minimise cost·x, A·x >= need, x >= 0`.
pub(crate) struct Cover {
    rows: usize,
    columns: Vec<Column>,
    /// Column in each basis position; `SURPLUS + row` for the surplus of a row.
    basis: Vec<usize>,
    /// Row-major inverse of the basis matrix.
    inverse: Vec<f64>,
    /// Values of the basic columns.
    values: Vec<f64>,
    duals: Vec<f64>,
    /// Made so far: what the time goes into.
    pub(crate) pivots: usize,
}

pub(crate) struct Column {
    pub(crate) cost: f64,
    pub(crate) entries: Vec<(u32, f64)>,
}

const SURPLUS: usize = usize::MAX / 2;

impl Cover {
    /// `start`: for each row a column that covers only this row; together a feasible basis.
    pub(crate) fn new(need: &[f64], start: Vec<Column>) -> Self {
        let rows = need.len();
        let mut inverse = vec![0.0; rows * rows];
        let mut values = vec![0.0; rows];
        for (row, column) in start.iter().enumerate() {
            let own = column.entries[0].1;
            inverse[row * rows + row] = 1.0 / own;
            values[row] = need[row] / own;
        }
        let mut lp = Self {
            rows,
            basis: (0..rows).collect(),
            columns: start,
            inverse,
            values,
            duals: Vec::new(),
            pivots: 0,
        };
        lp.duals = lp.fresh_duals();
        lp
    }

    pub(crate) fn duals(&self) -> Vec<f64> {
        self.duals.clone()
    }

    fn fresh_duals(&self) -> Vec<f64> {
        let mut duals = vec![0.0; self.rows];
        for (position, &column) in self.basis.iter().enumerate() {
            let cost = if column >= SURPLUS { 0.0 } else { self.columns[column].cost };
            if cost != 0.0 {
                let row = &self.inverse[position * self.rows..(position + 1) * self.rows];
                duals.iter_mut().zip(row).for_each(|(dual, entry)| *dual += cost * entry);
            }
        }
        duals
    }

    /// Columns in use and how often, in order of their index.
    pub(crate) fn solution(&self) -> Vec<(usize, f64)> {
        let mut out: Vec<(usize, f64)> = self
            .basis
            .iter()
            .zip(&self.values)
            .filter(|(column, value)| **column < SURPLUS && **value > TOLERANCE)
            .map(|(column, value)| (*column, *value))
            .collect();
        out.sort_by_key(|(column, _)| *column);
        out
    }

    /// Adds a column and lets it enter the basis if that lowers the cost. Returns its index.
    pub(crate) fn add(&mut self, column: Column) -> usize {
        self.columns.push(column);
        self.columns.len() - 1
    }

    /// Pivots until no known column improves, or `most` pivots were made.
    pub(crate) fn optimise(&mut self, most: usize) -> bool {
        for pivots in 0..most {
            // Updating the duals gathers rounding errors; they are computed afresh now and then.
            if pivots % PIVOTS_PER_REFRESH == PIVOTS_PER_REFRESH - 1 {
                self.duals = self.fresh_duals();
            }
            let Some((reduced, entering)) = self.entering() else { return true };
            if !self.pivot(entering, reduced) {
                return true;
            }
        }
        false
    }

    fn reduced_cost(&self, column: usize) -> f64 {
        let data = &self.columns[column];
        data.cost - data.entries.iter().map(|(row, amount)| self.duals[*row as usize] * amount).sum::<f64>()
    }

    /// The column that improves most for its cost, with its reduced cost. Recent columns are asked first, since older ones
    /// have mostly had their turn.
    fn entering(&self) -> Option<(f64, usize)> {
        let split = self.columns.len().saturating_sub(RECENT_COLUMNS);
        self.best_of(split..self.columns.len()).or_else(|| {
            let old = self.best_of(0..split);
            let surplus = self.duals.iter().enumerate().filter(|(_, dual)| **dual < -TOLERANCE);
            let surplus = surplus.min_by(|a, b| a.1.total_cmp(b.1)).map(|(row, dual)| (*dual, SURPLUS + row));
            old.or(surplus)
        })
    }

    fn best_of(&self, range: std::ops::Range<usize>) -> Option<(f64, usize)> {
        let mut best: Option<(f64, f64, usize)> = None;
        for index in range {
            let reduced = self.reduced_cost(index);
            let relative = reduced / self.columns[index].cost.max(TOLERANCE);
            if relative < -TOLERANCE && best.is_none_or(|(least, ..)| relative < least) {
                best = Some((relative, reduced, index));
            }
        }
        best.map(|(_, reduced, index)| (reduced, index))
    }

    /// Brings a column into the basis; false if nothing can leave.
    fn pivot(&mut self, entering: usize, reduced: f64) -> bool {
        self.pivots += 1;
        let rows = self.rows;
        let direction: Vec<f64> = (0..rows)
            .map(|position| {
                let row = &self.inverse[position * rows..(position + 1) * rows];
                if entering >= SURPLUS {
                    -row[entering - SURPLUS]
                } else {
                    self.columns[entering].entries.iter().map(|(r, amount)| row[*r as usize] * amount).sum()
                }
            })
            .collect();
        let mut leaving: Option<(f64, usize)> = None;
        for (position, step) in direction.iter().enumerate() {
            if *step > TOLERANCE {
                let ratio = self.values[position] / step;
                if leaving.is_none_or(|(least, _)| ratio < least - TOLERANCE) {
                    leaving = Some((ratio, position));
                }
            }
        }
        let Some((ratio, position)) = leaving else { return false };
        let divisor = direction[position];
        let ratio = ratio.max(0.0);
        let pivot_row: Vec<f64> =
            self.inverse[position * rows..(position + 1) * rows].iter().map(|e| e / divisor).collect();
        for (other, step) in direction.iter().enumerate() {
            if other == position || *step == 0.0 {
                continue;
            }
            let row = &mut self.inverse[other * rows..(other + 1) * rows];
            row.iter_mut().zip(&pivot_row).for_each(|(entry, p)| *entry -= step * p);
            self.values[other] = (self.values[other] - step * ratio).max(0.0);
        }
        // A surplus column is the negative of a unit column, hence its reduced cost is the dual itself.
        self.duals.iter_mut().zip(&pivot_row).for_each(|(dual, entry)| *dual += reduced * entry);
        self.inverse[position * rows..(position + 1) * rows].copy_from_slice(&pivot_row);
        self.values[position] = ratio;
        self.basis[position] = entering;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cost: f64, entries: &[(u32, f64)]) -> Column {
        Column { cost, entries: entries.to_vec() }
    }

    #[test]
    fn a_column_that_covers_two_rows_beats_two_single_ones() {
        let mut lp = Cover::new(&[4.0, 6.0], vec![column(1.0, &[(0, 1.0)]), column(1.0, &[(1, 1.0)])]);
        lp.add(column(1.2, &[(0, 1.0), (1, 1.0)]));
        assert!(lp.optimise(100));
        let cost: f64 = lp.duals().iter().zip([4.0, 6.0]).map(|(d, n)| d * n).sum();
        assert!((cost - (4.0 * 1.2 + 2.0)).abs() < 1e-6, "{cost}");
    }

    #[test]
    fn duals_never_value_a_column_above_its_cost() {
        let mut lp = Cover::new(
            &[10.0, 7.0, 3.0],
            (0..3).map(|r| column(2.0 + f64::from(r), &[(r as u32, 1.0)])).collect(),
        );
        lp.add(column(3.0, &[(0, 2.0), (1, 1.0)]));
        lp.add(column(4.0, &[(1, 1.0), (2, 3.0)]));
        lp.add(column(2.5, &[(0, 1.0), (2, 1.0)]));
        assert!(lp.optimise(100));
        let duals = lp.duals();
        for c in &lp.columns {
            let value: f64 = c.entries.iter().map(|(r, a)| duals[*r as usize] * a).sum();
            assert!(value <= c.cost + 1e-6);
        }
        let total: f64 = lp.solution().iter().map(|(c, x)| lp.columns[*c].cost * x).sum();
        let dual: f64 = duals.iter().zip([10.0, 7.0, 3.0]).map(|(d, n)| d * n).sum();
        assert!((total - dual).abs() < 1e-6);
    }
}
