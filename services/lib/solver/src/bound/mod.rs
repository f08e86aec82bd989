//! Lower bounds on the cost of any plan that places the same pods, and the linear programme behind them.
//!
//! The bound forgets preferences, topology domains, pool weights, limits and reservations, and lets every pool serve every pod
//! that it can: whatever plan there is, it solves this easier problem too, so none can cost less.

pub(crate) mod fractional;
pub(crate) mod simplex;

use std::borrow::Cow;

use model::price::MicroDollars;

use crate::bits::Bits;
use crate::classes::ClassData;
use crate::engine::demand::DemandId;
use crate::engine::state::State;
use crate::pack::greedy::Leftover;
use crate::pack::repack::asks::{self, Ask, Choice};
use crate::pack::repack::columns::{self, Proof};
use crate::pack::repack::exact;
use crate::pack::repack::knapsack::cautious;
use crate::pack::repack::problem::{Problem, Size};
use crate::pack::repack::realize::{Parts, caps, reserved};
use crate::sets::ReqSetId;

/// No plan that places the same pods costs less. Only a [`Relaxation`] proves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LowerBound(MicroDollars);

impl LowerBound {
    /// In micro-dollars an hour. A bound of zero says something about a plan that costs nothing, and nothing about others.
    fn new(bound: i64) -> Option<Self> {
        (bound > 0).then_some(Self(MicroDollars::new(bound)))
    }

    /// Of parts that are paid for one by one.
    pub(crate) fn of_all(parts: Vec<Self>) -> Option<Self> {
        Self::new(parts.iter().map(|part| part.0.get()).sum())
    }

    pub(crate) fn get(self) -> MicroDollars {
        self.0
    }
}

/// A packing problem that every valid plan solves, too: it has all kinds of nodes that any plan could use, and asks for no pod
/// that a plan could have for nothing.
pub(crate) struct Relaxation<'p>(Cow<'p, Problem>);

impl<'p> Relaxation<'p> {
    /// What a packing solves, where that is all there is to decide; `None` if something is free, or has no place.
    pub(crate) fn covering(problem: &'p Problem) -> Option<Self> {
        let paid = problem.kinds.iter().all(|kind| kind.price > 0);
        (paid && problem.is_feasible()).then_some(Self(Cow::Borrowed(problem)))
    }

    /// Leaves out pods that nodes which cost nothing could hold, and pods that only nodes that exist can hold.
    fn of(problem: &Problem) -> Self {
        let mut free = Bits::new(problem.kinds.len());
        problem.kinds.iter().enumerate().filter(|(_, k)| k.price <= 0).for_each(|(id, _)| free.set(id));
        let left =
            |size: &Size| if size.kinds.is_empty() || size.kinds.meets(&free) { 0 } else { size.count };
        let left: Vec<u32> = problem.sizes.iter().map(left).collect();
        Self(Cow::Owned(problem.rest(&left).0))
    }

    /// The bound that solving the problem came with, in micro-dollars an hour.
    pub(crate) fn proven_by(&self, least: i64) -> Option<LowerBound> {
        LowerBound::new(least)
    }

    /// Parts that have no kind in common are bounded one by one.
    fn prove(&self, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<LowerBound> {
        let bound = |problem: &Problem| match exact::pack(problem) {
            Some(best) => problem.cost(&best),
            None => {
                let many = problem.sizes.len() > MANY_SIZES;
                let easier = many.then(|| problem.eased().0);
                let proof = if problem.sizes.len() <= FEW_SIZES { Proof::Exact } else { Proof::Quick };
                columns::price(easier.as_ref().unwrap_or(problem), proof, keep_going).bound
            }
        };
        self.proven_by(self.0.components().iter().map(|part| bound(&part.problem)).sum())
    }
}

/// What remains to be proven once it is known which pods are placed. It stands by itself, so that the search can go on beside
/// the packing.
pub(crate) enum Question {
    Answered(Option<LowerBound>),
    Search(Relaxation<'static>),
}

/// With more sizes an easier problem must do: the packing itself has already taken its time.
const MANY_SIZES: usize = 60;

/// With no more sizes than this, the search that proves that no better load exists is quick.
const FEW_SIZES: usize = 12;

impl Question {
    /// `None` if there was no time for it.
    pub(crate) fn of(
        state: &State<'_>,
        leftover: &Leftover,
        keep_going: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let asks = asks(state, leftover);
        let (problem, _) = asks::problem(state.world, &asks, &reserved(state), Choice::All, keep_going)?;
        let relaxation = Relaxation::of(&problem);
        let rooms = usable_nodes(state, leftover, keep_going)?;
        if !rooms.is_empty() || has_reservations(state) {
            return Some(Self::Answered(beside_room(state, &rooms, &relaxation)));
        }
        Some(Self::Search(relaxation))
    }

    /// Whether the search takes so long that another thread is worth its while.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Self::Search(Relaxation(problem)) if problem.sizes.len() * problem.kinds.len() > 500)
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

/// The least that pods of the class ask of a node: preferences are forgotten, and every OR-term of the node affinity will do.
fn least_asked(state: &State<'_>, class: &ClassData) -> Vec<ReqSetId> {
    let ladder = class.ladder(state.options.preferences);
    // A rung has the first terms that are left. With volumes no rung has an earlier term without its preferences.
    let (spec, volumes) = (&class.spec, !class.volume_terms.is_empty());
    let on_a_rung = spec.required_node_affinity.len() < 2 || spec.preferred_node_affinity.is_empty();
    let mut sets: Vec<ReqSetId> = if volumes && on_a_rung {
        ladder.iter().flat_map(|variant| variant.asked.iter().copied()).collect()
    } else {
        ladder.iter().map(|variant| variant.strict).collect()
    };
    sets.sort_unstable();
    sets.dedup();
    sets
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
    let problem = &relaxation.0;
    let (prices, _, _) = columns::resource_prices(problem);
    let worth =
        |amounts: &[i64]| amounts.iter().zip(&prices).map(|(a, p)| (*a).max(0) as f64 * p).sum::<f64>();
    let pods: f64 = problem.sizes.iter().map(|s| worth(&s.request) * f64::from(s.count)).sum();
    let free: f64 = rooms.iter().map(|n| worth(state.world.free(n))).sum();
    let saved: f64 = if has_reservations(state) { reserved_savings(state, &worth) } else { 0.0 };
    LowerBound::new(cautious(pods - (free + saved) * (1.0 + 1e-9)))
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
