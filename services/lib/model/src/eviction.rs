//! Rules about evictions that more than one service decides by: what an eviction costs, and which PodDisruptionBudgets hold a
//! pod.

/// Eviction costs are counted in units of 2^-27, so that sums are exact: one step of the pod-deletion-cost annotation is one
/// unit, one step of priority is four, and a plain pod costs this much.
pub const COST_UNIT: i64 = 1 << 27;

const COST_LIMIT: i64 = 10 * COST_UNIT;

/// `1 + deletion cost / 2^27 + priority / 2^25`, within ±10, in units of 2^-27. A deletion cost that is no number does not
/// count.
pub fn eviction_cost(deletion_cost: Option<&str>, priority: i32) -> i64 {
    // Any number will do, as in the reference. A float that is not one (NaN) becomes 0, one that is too large the limit.
    let units = |text: &str| text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().map(|f| f as i64));
    let deletion_cost = deletion_cost.and_then(units).unwrap_or(0);
    COST_UNIT
        .saturating_add(deletion_cost)
        .saturating_add(4 * i64::from(priority))
        .clamp(-COST_LIMIT, COST_LIMIT)
}

/// Of all budgets that cover a pod, those that hold it: several always do, because the eviction API refuses such pods; one does
/// unless it `allows` a disruption, or lets unready pods go (`AlwaysAllow`) and this one is.
pub fn holding<B>(
    covering: Vec<B>,
    is_unready: bool,
    allows: impl FnOnce(&B) -> bool,
    lets_unready_go: impl FnOnce(&B) -> bool,
) -> Vec<B> {
    match covering.as_slice() {
        [only] if allows(only) || (is_unready && lets_unready_go(only)) => Vec::new(),
        _ => covering,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Cases: SCH-K-47, SCH-K-62
    #[test]
    fn one_budget_holds_unless_it_allows_and_several_always_do() {
        let held = |covering: Vec<i32>, is_unready, lets_unready_go: bool| {
            holding(covering, is_unready, |allowed| *allowed > 0, |_| lets_unready_go)
        };
        assert_eq!(held(vec![], false, false), []);
        assert_eq!(held(vec![1], false, false), []);
        assert_eq!(held(vec![0], false, true), [0]);
        assert_eq!(held(vec![0], true, false), [0]);
        assert_eq!(held(vec![0], true, true), []);
        assert_eq!(held(vec![1, 1], true, true), [1, 1]);
    }
}
