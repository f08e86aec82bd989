//! From a valid decision to a packing problem, and from its solution back to a valid decision.

use std::borrow::Cow;

use packing::{Bits, KindId, Load};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::asks::{self, Ask, Choice, Posed};
use crate::engine::bin::{Bin, Item};
use crate::engine::choice::Choices;
use crate::engine::demand::DemandId;
use crate::engine::holds::{Holds, as_choices};
use crate::engine::state::State;
use crate::reach::Reach;
use crate::topology::group::Kind as RuleKind;

/// Pods of one demand that were decided alike: rung, pool and domains.
///
/// The pool that took them is the first of its weight that could. Others of the same weight may take them, too, where nothing
/// but the price tells them apart.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    demand: DemandId,
    rung: u16,
    pool: usize,
    /// Other pools that may take them.
    others: SmallVec<[usize; 2]>,
    count: u32,
    choices: Option<Choices>,
    /// Rules of its own look at who else is on the node: it goes first, while they are easy to satisfy.
    choosy: bool,
}

type PieceKey = (DemandId, u16, usize, Holds);

/// What can be packed again, and what stays as it is.
pub(crate) struct Parts {
    pub(crate) pieces: Vec<Piece>,
    frozen: Vec<Frozen>,
}

/// A node, or the part of its pods that must stay together.
struct Frozen {
    bin: Bin,
    /// `None`: the node as it is.
    together: Option<Vec<Item>>,
}

impl Parts {
    /// `None` if there was no time for it.
    pub(crate) fn of(state: &State<'_>, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let mut index: FxHashMap<PieceKey, usize> = FxHashMap::default();
        let (mut pieces, mut frozen): (Vec<Piece>, Vec<Frozen>) = (Vec::new(), Vec::new());
        for bin in &state.bins {
            if !keep_going() {
                return None;
            }
            if is_frozen(state, bin) {
                frozen.push(Frozen { bin: bin.clone(), together: None });
                continue;
            }
            let (together, free): (Vec<Item>, Vec<Item>) =
                bin.items.iter().copied().partition(|item| stays_with_others(state, item));
            if !together.is_empty() {
                frozen.push(Frozen { bin: bin.clone(), together: Some(together) });
            }
            for item in &free {
                let holds = state.holds(bin, item.demand, item.rung).unwrap_or_default();
                let key = (item.demand, item.rung, bin.pool, holds);
                let slot = *index.entry(key).or_insert_with_key(|key| {
                    pieces.push(Piece {
                        demand: item.demand,
                        rung: item.rung,
                        pool: bin.pool,
                        others: equal_pools(state, item, bin.pool),
                        count: 0,
                        choices: as_choices(&key.3),
                        choosy: !state.variant(item.demand, item.rung).host_groups.is_empty(),
                    });
                    pieces.len() - 1
                });
                pieces[slot].count += item.count;
            }
        }
        Some(Self { pieces, frozen })
    }

    /// Nothing but price matters: no node is frozen, no domain was decided, no preference was in play, and all pieces are in one
    /// pool. Returns that pool.
    pub(crate) fn only_pool(&self, state: &State<'_>) -> Option<usize> {
        let (first, policy) = (self.pieces.first()?, state.options.preferences);
        let plain = |piece: &Piece| {
            piece.pool == first.pool
                && piece.choices.is_none()
                && state.class_of(piece.demand).ladder(policy).len() == 1
        };
        (self.frozen.is_empty() && self.pieces.iter().all(plain)).then_some(first.pool)
    }

    /// Some pods may change their pool.
    pub(crate) fn has_other_pools(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.others.is_empty())
    }

    /// The problem of packing the pieces, each in its own pool or in any that may take it; `None` if there was no time for it.
    pub(crate) fn problem(
        &self,
        state: &State<'_>,
        choice: Choice,
        any_pool: bool,
        keep_going: &(dyn Fn() -> bool + Sync),
    ) -> Option<Posed> {
        let reaches = |piece: &Piece| {
            let others = piece.others.iter().copied().filter(|_| any_pool);
            let pools = std::iter::once(piece.pool).chain(others);
            let of_pool = |pool| reach_of(state, piece, pool).into_iter().map(move |r| (pool, Cow::Owned(r)));
            pools.flat_map(of_pool).collect()
        };
        let ask = |piece: &Piece| {
            let (cap, exclusion) = caps(state, piece.demand, piece.rung);
            Ask {
                request: &state.class_of(piece.demand).requests,
                count: piece.count,
                cap,
                exclusion,
                reaches: reaches(piece),
            }
        };
        let asks: Vec<Ask<'_>> = self.pieces.iter().map(ask).collect();
        asks::problem(state.world, &asks, &reserved(state), choice, keep_going)
    }

    /// Packs the pieces as the loads say, and what does not go there wherever it fits. `None` if something is left over, or
    /// there was no time for it.
    pub(crate) fn realize<'w>(
        &self,
        old: &State<'w>,
        posed: &Posed,
        loads: &[Load],
        keep_going: &(dyn Fn() -> bool + Sync),
    ) -> Option<State<'w>> {
        let mut state = old.without_bins();
        for frozen in &self.frozen {
            match &frozen.together {
                None => state.adopt(frozen.bin.clone()),
                Some(items) => put_together(old, &mut state, &frozen.bin, frozen.bin.pool, items)?,
            }
        }
        let mut left: Vec<u32> = self.pieces.iter().map(|p| p.count).collect();
        let mut by_size: Vec<Vec<usize>> = vec![Vec::new(); posed.problem.sizes().len()];
        for (piece, size) in posed.size_of.iter().enumerate() {
            by_size[*size as usize].push(piece);
        }
        for load in loads {
            self.load(&mut state, posed, load, &by_size, &mut left);
        }
        let mut launched = Launched::default();
        for (index, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| piece.count > 0) {
            if left[index] > 0 {
                if !keep_going() {
                    return None;
                }
                let alone = posed.problem.best_alone(posed.size_of[index]);
                place_rest(&mut state, piece, posed, alone, &mut launched, &mut left[index]);
            }
        }
        (left.iter().all(|n| *n == 0) && keeps_counts(old, &state)).then_some(state)
    }

    fn load(
        &self,
        state: &mut State<'_>,
        posed: &Posed,
        load: &Load,
        by_size: &[Vec<usize>],
        left: &mut [u32],
    ) {
        let (pool, row) = posed.made_of[load.kind as usize];
        state.steer[pool] = steer(state, pool, row);
        let mut wanted: SmallVec<[u32; 16]> = load.content.iter().map(|(_, count)| *count).collect();
        let mut bin = None;
        for choosy in [true, false] {
            for ((size, _), want) in load.content.iter().zip(&mut wanted) {
                for &index in by_size[*size as usize].iter().filter(|i| self.pieces[**i].choosy == choosy) {
                    if *want == 0 {
                        break;
                    }
                    let have = left[index].min(*want);
                    if have > 0 {
                        let placed = self.pieces[index].put(state, pool, &mut bin, have);
                        left[index] -= placed;
                        *want -= placed;
                    }
                }
            }
        }
        state.steer[pool] = None;
        if let Some(bin) = bin {
            state.expand(bin);
        }
    }
}

impl Piece {
    /// Puts pods onto the node, or onto a new one of the pool where there is none yet. Returns how many.
    fn put(&self, state: &mut State<'_>, pool: usize, bin: &mut Option<usize>, want: u32) -> u32 {
        let choices = self.choices.as_ref();
        let Some(bin) = *bin else {
            let opened = state.open_bought(self.demand, self.rung, pool, want, choices);
            *bin = opened.map(|(index, _)| index);
            return opened.map_or(0, |(_, count)| count);
        };
        match state.fit_bin(self.demand, self.rung, &state.bins[bin], want, choices, None) {
            Some(fit) => {
                let count = fit.count;
                state.commit(self.demand, self.rung, bin, fit);
                count
            }
            None => 0,
        }
    }
}

/// By new node: the row that it would be launched as, looked up when first asked for.
#[derive(Default)]
struct Launched(Vec<Option<Option<usize>>>);

impl Launched {
    fn row(&mut self, state: &State<'_>, bin: usize) -> Option<usize> {
        self.0.resize(state.bins.len().max(self.0.len()), None);
        let data = &state.bins[bin];
        *self.0[bin].get_or_insert_with(|| state.launch(data.pool, &data.reach).map(|now| now.row))
    }

    fn forget(&mut self, bin: usize) {
        self.0[bin] = None;
    }
}

/// Only the row of the kind; all rows where `minValues` wants several to stay possible.
fn steer(state: &State<'_>, pool: usize, row: usize) -> Option<Bits> {
    state.world.pools[pool].min_values.is_empty().then(|| {
        let mut only = Bits::new(state.world.table(pool).len());
        only.set(row);
        only
    })
}

/// Places what the loads had no place for: where a node need not become a dearer one, else on nodes of the kind that is best for
/// these pods alone.
fn place_rest(
    state: &mut State<'_>,
    piece: &Piece,
    posed: &Posed,
    alone: (KindId, u32),
    launched: &mut Launched,
    left: &mut u32,
) {
    let (choices, world) = (piece.choices.as_ref(), state.world);
    let request = &state.class_of(piece.demand).requests;
    for bin in 0..state.bins.len() {
        if *left == 0 {
            return;
        }
        let pool = state.bins[bin].pool;
        if pool != piece.pool && !piece.others.contains(&pool) {
            continue;
        }
        let mut only = None;
        let grows = world.pools[pool].min_values.is_empty();
        if let (true, Some(row)) = (grows, launched.row(state, bin)) {
            let room = world.pools[pool].room(row, world.dims.len());
            let full = |((used, want), room): ((&i64, &i64), &i64)| used.saturating_add(*want) > *room;
            if state.bins[bin].used.iter().zip(request).zip(room).any(full) {
                continue;
            }
            only = Some(state.as_rows(pool, &[row]));
        }
        let fit = state.fit_bin(piece.demand, piece.rung, &state.bins[bin], *left, choices, only.as_ref());
        if let Some(fit) = fit {
            *left -= fit.count;
            state.commit(piece.demand, piece.rung, bin, fit);
            state.expand(bin);
            launched.forget(bin);
        }
    }
    let (pool, row) = posed.made_of[alone.0 as usize];
    while *left > 0 {
        state.steer[pool] = steer(state, pool, row);
        let opened = state.open_bought(piece.demand, piece.rung, pool, (*left).min(alone.1), choices);
        state.steer[pool] = None;
        // Limits may be used up; its own pool had room for the pods before.
        match opened.or_else(|| state.open_bought(piece.demand, piece.rung, piece.pool, *left, choices)) {
            Some((bin, count)) => {
                *left -= count;
                state.expand(bin);
            }
            None => return,
        }
    }
}

/// Opens a node of the pool for pods that must be together, in the order in which they were placed. `None` if that fails.
fn put_together(
    old: &State<'_>,
    state: &mut State<'_>,
    from: &Bin,
    pool: usize,
    items: &[Item],
) -> Option<()> {
    let mut bin = None;
    for item in items {
        let choices = as_choices(&old.holds(from, item.demand, item.rung)?);
        let mut left = item.count;
        if bin.is_none() {
            let (opened, count) = state.open_bought(item.demand, item.rung, pool, left, choices.as_ref())?;
            bin = Some(opened);
            left -= count;
        }
        if let (Some(bin), true) = (bin, left > 0) {
            let fit =
                state.fit_bin(item.demand, item.rung, &state.bins[bin], left, choices.as_ref(), None)?;
            if fit.count < left {
                return None;
            }
            state.commit(item.demand, item.rung, bin, fit);
        }
    }
    Some(())
}

/// Nodes whose make-up has reasons beyond price: reservations, lowered minValues, domains still open.
fn is_frozen(state: &State<'_>, bin: &Bin) -> bool {
    bin.reservation.is_some()
        || bin.min_values_relaxed
        || bin.items.iter().any(|item| state.holds(bin, item.demand, item.rung).is_none())
}

/// States affinity to the pods of one node, or is what such pods are looking for.
fn stays_with_others(state: &State<'_>, item: &Item) -> bool {
    let host_affinity = |group: &u32| {
        let rule = &state.world.groups.get(*group).rule;
        rule.is_host() && rule.kind == RuleKind::Affinity
    };
    let (class, variant) = (state.class_of(item.demand), state.variant(item.demand, item.rung));
    class.selected.iter().any(host_affinity) || variant.host_groups.iter().any(host_affinity)
}

/// No domain has fewer of the pods that rules count than before: spreads stay as even, and whoever wanted company still has it.
fn keeps_counts(old: &State<'_>, new: &State<'_>) -> bool {
    let world = old.world;
    old.live.iter().all(|group| {
        let (before, after) = (old.ledger.selected(world, *group), new.ledger.selected(world, *group));
        before.iter().zip(after).all(|(before, after)| after >= before)
    })
}

/// Pools of the same weight that may take the pods instead: whose taints they tolerate, whose limits need no care, and between
/// which no topology rule tells apart. Rules about domains that offerings decide, like zones, hold in all pools alike.
fn equal_pools(state: &State<'_>, item: &Item, own: usize) -> SmallVec<[usize; 2]> {
    let world = state.world;
    let (class, variant) = (state.class_of(item.demand), state.variant(item.demand, item.rung));
    let counted = class.selected.iter().filter(|group| state.live.contains(group));
    let mut groups = variant.domain_groups.iter().chain(&class.kept_from_domain).chain(counted);
    let alike = |group: &u32| {
        let key = &world.groups.keys[world.topo_key_of(*group)];
        (key.host || key.cells.is_some()) && world.groups.get(*group).filter.is_none()
    };
    if !groups.all(alike) {
        return SmallVec::new();
    }
    let may_take = |pool: &usize| {
        let data = &world.pools[*pool];
        *pool != own
            && data.usable
            && data.weight == world.pools[own].weight
            && data.limits.is_empty()
            && data.max_nodes.is_none()
            && data.min_values.is_empty()
            && world.tolerates_pool(variant.tolerations, *pool)
    };
    (0..world.pools.len()).filter(may_take).collect()
}

/// The one new node of a decision in the pool of equal weight, and by the alternatives of its pods, where it is cheapest; `None`
/// where it is.
pub(crate) fn cheapest_single<'w>(state: &State<'w>) -> Option<State<'w>> {
    let [bin] = &state.bins[..] else { return None };
    let alternatives = |item: &Item| state.variant(item.demand, item.rung).asked.len() > 1;
    let mut pools = equal_pools(state, bin.items.first()?, bin.pool);
    pools.retain(|pool| bin.items.iter().all(|item| equal_pools(state, item, bin.pool).contains(pool)));
    if (pools.is_empty() && !bin.items.iter().any(alternatives)) || is_frozen(state, bin) {
        return None;
    }
    let mut best: Option<State<'w>> = None;
    for pool in std::iter::once(bin.pool).chain(pools) {
        let mut other = state.without_bins();
        if put_together(state, &mut other, bin, pool, &bin.items).is_some()
            && keeps_counts(state, &other)
            && other.cost() < best.as_ref().unwrap_or(state).cost()
        {
            best = Some(other);
        }
    }
    best
}

pub(crate) fn reserved(state: &State<'_>) -> Bits {
    state.world.cells.of_capacity_type(model::catalog::CapacityType::Reserved)
}

/// Where in the pool pods of the piece may go; several if their volumes or their node affinity leave alternatives.
fn reach_of(state: &State<'_>, piece: &Piece, pool: usize) -> Vec<Reach> {
    let variant = state.variant(piece.demand, piece.rung);
    let narrow = |mut reach: Reach| {
        for choice in piece.choices.iter().flatten() {
            reach = state.narrowed(pool, reach, choice.key, &choice.order)?;
        }
        Some(reach)
    };
    variant.asked.iter().filter_map(|set| narrow(state.world.reach(*set, pool)?.clone())).collect()
}

/// Most pods of the demand on one node, and the rule that its pods share with others.
pub(crate) fn caps(state: &State<'_>, demand: DemandId, rung: u16) -> (u32, Option<u32>) {
    let (class, variant) = (state.class_of(demand), state.variant(demand, rung));
    let mut cap = if class.ports.is_empty() { u32::MAX } else { 1 };
    let mut exclusion = None;
    for &group in variant.host_groups.iter().filter(|g| class.selected.contains(g)) {
        let most = match state.world.groups.get(group).rule.kind {
            RuleKind::Spread { max_skew, .. } => max_skew,
            RuleKind::AntiAffinity { .. } => 1,
            RuleKind::Affinity => continue,
        };
        if most <= cap {
            (cap, exclusion) = (most, Some(group));
        }
    }
    (cap, exclusion)
}
