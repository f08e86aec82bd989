//! The `Balanced` policy: savings must be worth the disturbance, both as shares of the pool.

use model::price::MicroDollars;

/// Savings share must be at least this part of the disturbance share: 1 / 2.
const DISTURBANCE_PER_SAVINGS: i128 = 2;

/// A pool's totals over all its nodes.
#[derive(Clone, Copy, Debug)]
pub struct PoolTotals {
    pub price: MicroDollars,
    /// Sum of the nodes' reschedule costs.
    pub cost: i64,
}

/// What a command means for one pool.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Savings of the whole command.
    pub savings: MicroDollars,
    /// Prices of its candidates: of this pool, and all.
    pub pool_price: MicroDollars,
    pub all_price: MicroDollars,
    /// Reschedule costs of its candidates of this pool.
    pub cost: i64,
}

/// Whether the pool's share of the savings is worth its share of the disturbance. Only pools with the policy are asked.
pub fn approves(share: Share, totals: PoolTotals) -> bool {
    if share.savings <= MicroDollars::ZERO || totals.price <= MicroDollars::ZERO || totals.cost <= 0 {
        return false;
    }
    // savings × (pool_price / all_price) / totals.price ≥ (cost / totals.cost) / 2, without dividing
    let all = i128::from(share.all_price.get().max(1));
    let savings = i128::from(share.savings.get()) * i128::from(share.pool_price.get());
    let left = DISTURBANCE_PER_SAVINGS.saturating_mul(savings).saturating_mul(i128::from(totals.cost));
    let right = i128::from(share.cost).saturating_mul(i128::from(totals.price.get())).saturating_mul(all);
    left >= right
}
