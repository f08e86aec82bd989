//! The most value that fits into a bin if items could be cut: a small linear programme with one row per resource.
//!
//! Its duals are the resource prices that make the bound of [`crate::knapsack`] tight.

use super::tuning::numeric::{MOST_PIVOTS, TOLERANCE};

/// An item: value of one, what one takes of each resource, and how many there are.
pub(crate) struct Item<'a> {
    pub(crate) value: f64,
    pub(crate) request: &'a [f64],
    pub(crate) most: f64,
}

pub(crate) struct Cut {
    /// Prices of the resources, never negative. Any are valid for bounding; those of the optimum are the best.
    pub(crate) prices: Vec<f64>,
    /// How many of each item.
    pub(crate) amounts: Vec<f64>,
}

/// Requests are given as shares of the room, so that every resource has room 1.
pub(crate) fn solve(items: &[Item<'_>], dims: usize) -> Cut {
    // Basis: variable per row; items are 0.., slacks are items.len()...
    let count = items.len();
    let mut basis: Vec<usize> = (count..count + dims).collect();
    let mut inverse = vec![0.0; dims * dims];
    for dim in 0..dims {
        inverse[dim * dims + dim] = 1.0;
    }
    let mut at_upper = vec![false; count];
    let mut values = vec![1.0; dims];
    let value_of = |variable: usize| if variable < count { items[variable].value } else { 0.0 };
    let upper_of = |variable: usize| if variable < count { items[variable].most } else { f64::INFINITY };
    let mut duals = vec![0.0; dims];
    for _ in 0..MOST_PIVOTS {
        duals.fill(0.0);
        for (position, &variable) in basis.iter().enumerate() {
            let value = value_of(variable);
            if value != 0.0 {
                for dim in 0..dims {
                    duals[dim] += value * inverse[position * dims + dim];
                }
            }
        }
        let mut best: Option<(f64, usize, bool)> = None;
        for (index, item) in items.iter().enumerate() {
            if basis.contains(&index) {
                continue;
            }
            let gain = item.value - dot(&duals, item.request);
            let score = if at_upper[index] { -gain } else { gain };
            if score > TOLERANCE * item.value.max(1.0) && best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, index, at_upper[index]));
            }
        }
        for (dim, dual) in duals.iter().enumerate() {
            if -dual > TOLERANCE
                && !basis.contains(&(count + dim))
                && best.is_none_or(|(most, ..)| -dual > most)
            {
                best = Some((-dual, count + dim, false));
            }
        }
        let Some((_, entering, from_upper)) = best else { break };
        let direction: Vec<f64> = (0..dims)
            .map(|position| {
                let row = &inverse[position * dims..(position + 1) * dims];
                let raw =
                    if entering < count { dot(row, items[entering].request) } else { row[entering - count] };
                if from_upper { -raw } else { raw }
            })
            .collect();
        let mut step = upper_of(entering);
        let mut leaving: Option<(usize, bool)> = None;
        for position in 0..dims {
            let change = direction[position];
            let (limit, to_upper) = if change > TOLERANCE {
                (values[position] / change, false)
            } else if change < -TOLERANCE {
                ((upper_of(basis[position]) - values[position]) / -change, true)
            } else {
                continue;
            };
            if limit < step {
                step = limit.max(0.0);
                leaving = Some((position, to_upper));
            }
        }
        if !step.is_finite() {
            break;
        }
        for position in 0..dims {
            values[position] -= step * direction[position];
        }
        let Some((position, to_upper)) = leaving else {
            at_upper[entering] = !from_upper;
            continue;
        };
        let out = basis[position];
        if out < count {
            at_upper[out] = to_upper;
        }
        if entering < count {
            at_upper[entering] = false;
        }
        let divisor = if from_upper { -direction[position] } else { direction[position] };
        let pivot: Vec<f64> =
            inverse[position * dims..(position + 1) * dims].iter().map(|e| e / divisor).collect();
        for other in (0..dims).filter(|o| *o != position) {
            let factor = if from_upper { -direction[other] } else { direction[other] };
            for dim in 0..dims {
                inverse[other * dims + dim] -= factor * pivot[dim];
            }
        }
        inverse[position * dims..(position + 1) * dims].copy_from_slice(&pivot);
        values[position] = if from_upper { upper_of(entering) - step } else { step };
        basis[position] = entering;
    }
    let mut amounts: Vec<f64> =
        items.iter().zip(&at_upper).map(|(i, up)| if *up { i.most } else { 0.0 }).collect();
    for (variable, value) in basis.iter().zip(&values).filter(|(v, _)| **v < count) {
        amounts[*variable] = value.clamp(0.0, items[*variable].most);
    }
    Cut { prices: duals.iter().map(|d| d.max(0.0)).collect(), amounts }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(items: &[Item<'_>], prices: &[f64]) -> f64 {
        prices.iter().sum::<f64>()
            + items.iter().map(|i| i.most * (i.value - dot(prices, i.request)).max(0.0)).sum::<f64>()
    }

    #[test]
    fn the_bound_of_complementary_items_uses_both_resources() {
        let (a, b) = ([0.5, 0.1], [0.1, 0.5]);
        let items =
            [Item { value: 1.0, request: &a, most: 10.0 }, Item { value: 1.0, request: &b, most: 10.0 }];
        let found = bound(&items, &solve(&items, 2).prices);
        assert!((found - 2.0 / 0.6).abs() < 1e-6, "{found}");
    }

    #[test]
    fn few_items_are_all_taken_and_resources_are_free() {
        let request = [0.1, 0.1];
        let items = [Item { value: 3.0, request: &request, most: 2.0 }];
        let found = bound(&items, &solve(&items, 2).prices);
        assert!((found - 6.0).abs() < 1e-6, "{found}");
    }

    #[test]
    fn a_dense_item_is_taken_up_to_its_count_and_then_the_next() {
        let (a, b) = ([0.25], [0.25]);
        let items =
            [Item { value: 4.0, request: &a, most: 2.0 }, Item { value: 1.0, request: &b, most: 9.0 }];
        let found = bound(&items, &solve(&items, 1).prices);
        assert!((found - 10.0).abs() < 1e-6, "{found}");
    }
}
