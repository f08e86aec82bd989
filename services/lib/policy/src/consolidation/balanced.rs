//! The `Balanced` policy: savings must be worth the disturbance, both as shares of the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::price::MicroDollars;

use super::Candidate;

/// The reference's factor: the savings' share must be at least 1 / 2 of the disturbance's share.
pub const BALANCED_FACTOR: u32 = 2;

/// A pool's totals over all its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// How a pool finds a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    pub approved: bool,
    /// Savings' share by disturbance's share, in thousandths and rounded down; `None` is without bound: something saved, nobody
    /// disturbed. For people and metrics; the approval is exact.
    pub milli: Option<i64>,
    /// The shares, in millionths.
    pub savings_share: i64,
    pub cost_share: i64,
}

impl Score {
    const REJECTED: Self = Self { approved: false, milli: Some(0), savings_share: 0, cost_share: 0 };

    /// As a number, for the metric.
    pub fn to_f64(self) -> f64 {
        self.milli.map_or(f64::INFINITY, |milli| milli as f64 / 1000.0)
    }
}

/// `factor`: [`BALANCED_FACTOR`].
pub fn score(share: Share, totals: PoolTotals, factor: u32) -> Score {
    if share.savings <= MicroDollars::ZERO || totals.price <= MicroDollars::ZERO || totals.cost <= 0 {
        return Score::REJECTED;
    }
    // savings × (pool_price / all_price) / totals.price against cost / totals.cost, without dividing
    let wide = |number: i64| i128::from(number);
    let savings = wide(share.savings.get()).saturating_mul(wide(share.pool_price.get()));
    let all = wide(share.all_price.get().max(1)).saturating_mul(wide(totals.price.get()));
    let left = savings.saturating_mul(wide(totals.cost));
    let right = wide(share.cost).saturating_mul(all);
    let narrow = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
    Score {
        approved: savings > 0 && left.saturating_mul(i128::from(factor)) >= right,
        milli: (right > 0).then(|| narrow(left.saturating_mul(1000) / right)),
        savings_share: narrow(savings.saturating_mul(1_000_000) / all.max(1)),
        cost_share: narrow(wide(share.cost).saturating_mul(1_000_000) / wide(totals.cost)),
    }
}

/// Whether the pool's share of the savings is worth its share of the disturbance. Only pools with the policy are asked.
pub fn approves(share: Share, totals: PoolTotals) -> bool {
    score(share, totals, BALANCED_FACTOR).approved
}

/// How each pool with the policy finds the removal of these candidates for new nodes of price `added`. All of them must approve;
/// a pool without totals does not. Others have no say and are not listed.
pub fn balanced_scores(
    removed: &[&Candidate],
    added: MicroDollars,
    balanced: &BTreeSet<Arc<str>>,
    totals: &BTreeMap<Arc<str>, PoolTotals>,
) -> BTreeMap<Arc<str>, Score> {
    let all_price: MicroDollars = removed.iter().map(|c| c.price).sum();
    let mut shares: BTreeMap<&Arc<str>, Share> = BTreeMap::new();
    for candidate in removed.iter().filter(|c| balanced.contains(&c.pool)) {
        let share = shares.entry(&candidate.pool).or_insert(Share {
            savings: all_price - added,
            pool_price: MicroDollars::ZERO,
            all_price,
            cost: 0,
        });
        share.pool_price += candidate.price;
        share.cost = share.cost.saturating_add(candidate.reschedule_cost);
    }
    let judged = |(pool, share): (&Arc<str>, Share)| {
        let totals = totals.get(pool).copied().unwrap_or_default();
        (Arc::clone(pool), score(share, totals, BALANCED_FACTOR))
    };
    shares.into_iter().map(judged).collect()
}

/// Whether taking this node away could be worth it at all: nothing saves more than its deletion.
pub fn could_be_worth_it(candidate: &Candidate, totals: Option<PoolTotals>) -> bool {
    let share = Share {
        savings: candidate.price,
        pool_price: candidate.price,
        all_price: candidate.price,
        cost: candidate.reschedule_cost,
    };
    totals.is_none_or(|totals| approves(share, totals))
}

/// Sums of all nodes of each pool, not only of candidates.
pub fn pool_totals(
    nodes: impl IntoIterator<Item = (Arc<str>, MicroDollars, i64)>,
) -> BTreeMap<Arc<str>, PoolTotals> {
    let mut totals: BTreeMap<Arc<str>, PoolTotals> = BTreeMap::new();
    for (pool, price, cost) in nodes {
        let entry = totals.entry(pool).or_default();
        entry.price += price;
        entry.cost = entry.cost.saturating_add(cost);
    }
    totals
}
