//! Lower bounds on the cost of any plan that places the same pods.
//!
//! The bound forgets preferences, topology domains, pool weights, limits and reservations, and lets every pool serve every pod
//! that it can: whatever plan there is, it solves this easier problem too, so none can cost less.

use std::borrow::Cow;

use packing::{Bits, LowerBound, Relaxation};

use crate::classes::ClassData;
use crate::engine::demand::DemandId;
use crate::engine::state::State;
use crate::pack::asks::{self, Ask, Choice};
use crate::pack::greedy::Leftover;
use crate::pack::realize::{Parts, caps, reserved};
use crate::sets::ReqSetId;

/// What remains to be proven once it is known which pods are placed. It stands by itself, so that the search can go on beside
/// the packing.
pub(crate) enum Question {
    Answered(Option<LowerBound>),
    Search(Box<Relaxation<'static>>),
}

impl Question {
    /// `None` if there was no time for it.
    pub(crate) fn of(
        state: &State<'_>,
        leftover: &Leftover,
        keep_going: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let asks = asks(state, leftover);
        let posed = asks::problem(state.world, &asks, &reserved(state), Choice::All, keep_going)?;
        let relaxation = Relaxation::of(&posed.problem);
        let rooms = usable_nodes(state, leftover, keep_going)?;
        if !rooms.is_empty() || has_reservations(state) {
            return Some(Self::Answered(beside_room(state, &rooms, &relaxation)));
        }
        Some(Self::Search(Box::new(relaxation)))
    }

    /// Whether the search takes so long that another thread is worth its while.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Self::Search(relaxation) if relaxation.is_long())
    }

    pub(crate) fn answer(&self, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<LowerBound> {
        match self {
            Self::Answered(bound) => *bound,
            Self::Search(relaxation) => relaxation.prove(keep_going),
        }
    }
}

/// Whether packing the parts is all there is to decide, so that a bound on the packing bounds the plan: no rule but price
/// matters, no node that exists and no reservation could be used, and every other pool offers just the same.
pub(crate) fn is_whole(
    state: &State<'_>,
    parts: &Parts,
    leftover: &Leftover,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> bool {
    let world = state.world;
    let Some(own) = parts.only_pool(state) else { return false };
    let like_own = |pool: usize| {
        let same = |demand: DemandId| {
            let variant = state.variant(demand, 0);
            let reaches = |set: &ReqSetId| world.reach(*set, pool) == world.reach(*set, own);
            world.tolerates_pool(variant.tolerations, pool) && variant.asked.iter().all(reaches)
        };
        world.pools[pool].table == world.pools[own].table
            && world.pools[pool].room == world.pools[own].room
            && placed(state, leftover).all(|(demand, _)| same(demand))
    };
    let mut others = (0..world.pools.len()).filter(|pool| *pool != own && world.pools[*pool].usable);
    !has_reservations(state)
        && others.all(like_own)
        && usable_nodes(state, leftover, keep_going).is_some_and(|nodes| nodes.is_empty())
}

/// Demands of which some pods were placed, and how many.
fn placed<'s>(state: &'s State<'_>, leftover: &'s Leftover) -> impl Iterator<Item = (DemandId, u32)> + 's {
    let counts = state.demands.iter().zip(&leftover.counts).map(|(d, left)| d.pods.len() as u32 - left);
    (0..).zip(counts).filter(|(_, count)| *count > 0)
}

/// The least that pods of the class ask of a node: the last rung has no preferences, and all OR-terms of the node affinity.
fn least_asked<'w>(state: &State<'_>, class: &'w ClassData) -> &'w [ReqSetId] {
    class.ladder(state.options.preferences).last().map_or(&[], |variant| &variant.asked)
}

/// What every pod that was placed asks of new nodes at least.
fn asks<'w>(state: &State<'w>, leftover: &Leftover) -> Vec<Ask<'w>> {
    let world = state.world;
    let ask = |(demand, count): (DemandId, u32)| {
        let class = state.class_of(demand);
        let rung = class.ladder(state.options.preferences).len() as u16 - 1;
        let (sets, variant) = (least_asked(state, class), state.variant(demand, rung));
        let pools = (0..world.pools.len())
            .filter(|pool| world.pools[*pool].usable && world.tolerates_pool(variant.tolerations, *pool));
        let reaches = pools
            .flat_map(|pool| sets.iter().map(move |set| (pool, *set)))
            .filter_map(|(pool, set)| Some((pool, Cow::Borrowed(world.reach(set, pool)?))))
            .collect();
        let (cap, exclusion) = caps(state, demand, rung);
        Ask { request: &class.requests, count, cap, exclusion, reaches }
    };
    placed(state, leftover).map(ask).collect()
}

/// Nodes that exist and could take some pod that was placed, were they as empty as before. `None` if there was no time.
fn usable_nodes(
    state: &State<'_>,
    leftover: &Leftover,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Bits> {
    let world = state.world;
    let mut found = Bits::new(world.nodes.len());
    let mut open = (*world.open).clone();
    state.removed.iter().for_each(|node| open.unset(*node as usize));
    for (demand, _) in placed(state, leftover) {
        if open.is_empty() {
            break;
        }
        if !keep_going() {
            return None;
        }
        let class = state.class_of(demand);
        let rung = class.ladder(state.options.preferences).len() as u16 - 1;
        let mut candidates = Bits::new(world.nodes.len());
        least_asked(state, class).iter().for_each(|set| candidates.add(world.accepting(*set)));
        candidates.keep(world.tolerated(state.variant(demand, rung).tolerations));
        candidates.keep(&open);
        for node in candidates.iter() {
            if class.requests.iter().zip(world.free(node)).all(|(want, have)| *want == 0 || want <= have) {
                found.set(node);
                open.unset(node);
            }
        }
    }
    Some(found)
}

/// Some pool can use capacity that is reserved.
fn has_reservations(state: &State<'_>) -> bool {
    let reserved = reserved(state);
    let usable = |pool: &crate::pools::PoolData| pool.usable && pool.base.cells.meets(&reserved);
    state.options.use_reserved
        && state.world.cells.reservations.iter().any(|r| r.capacity > 0)
        && state.world.pools.iter().any(usable)
}

/// Pods on nodes that exist need not be paid for, those on reserved instances only what these cost, and other pods could have
/// gone there: at resource prices that no new node beats, what the pods are worth beyond all such room has to be bought.
fn beside_room(state: &State<'_>, rooms: &Bits, relaxation: &Relaxation<'_>) -> Option<LowerBound> {
    relaxation.beside(|worth| {
        let free: f64 = rooms.iter().map(|n| worth(state.world.free(n))).sum();
        let saved: f64 = if has_reservations(state) { reserved_savings(state, worth) } else { 0.0 };
        free + saved
    })
}

/// The most that all reserved instances together can save: each holds what its largest type has room for, at its price.
fn reserved_savings(state: &State<'_>, worth: &dyn Fn(&[i64]) -> f64) -> f64 {
    let (world, dims) = (state.world, state.world.dims.len());
    let mut most = vec![0.0_f64; world.cells.reservations.len()];
    for pool in world.pools.iter().filter(|p| p.usable) {
        let table = &world.tables[pool.table];
        for row in pool.base.rows.iter() {
            for cell in table.rows[row].cells.iter().filter(|c| pool.base.cells.has(*c)) {
                if let Some(id) = world.cells.list[cell].reservation {
                    let saved = worth(pool.room(row, dims)) - table.price(row, cell) as f64;
                    most[id] = most[id].max(saved);
                }
            }
        }
    }
    most.iter().zip(&world.cells.reservations).map(|(most, r)| most * f64::from(r.capacity)).sum()
}
