//! From what pods ask of new nodes to a packing problem: kinds of nodes worth having, and which pods may go on which.
//!
//! A node is launched in one cell. Cells that no ask tells apart are one atom, so a kind is a row of a pool in an atom, and a
//! pod may go there if it reaches the row and the atom. Nothing is lost by that: every node that holds pods of several asks is
//! in an atom that all of them reach.

use std::borrow::Cow;

use packing::{Bits, Kind, Problem, Size, SizeId, Tuning};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::reach::Reach;
use crate::table::NO_PRICE;
use crate::world::World;

/// What a group of pods asks of new nodes.
pub(crate) struct Ask<'a> {
    pub(crate) request: &'a [i64],
    pub(crate) count: u32,
    pub(crate) cap: u32,
    pub(crate) exclusion: Option<u32>,
    /// Where it may go, by pool.
    pub(crate) reaches: Vec<(usize, Cow<'a, Reach>)>,
}

/// Which kinds of nodes a problem has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All that are worth having: what a bound must look at.
    All,
    /// Where there are very many, the best and a ladder of sizes: a packing loses little by that.
    Few,
}

const TUNING: Tuning = Tuning::DEFAULT;

/// A packing problem, and what its parts stand for.
pub(crate) struct Posed {
    pub(crate) problem: Problem,
    /// By ask.
    pub(crate) size_of: Vec<SizeId>,
    /// By kind: the pool, and the row of its table.
    pub(crate) made_of: Vec<(usize, usize)>,
}

/// What makes pods one size: requests, cap, exclusion and kinds.
type Alike = (SmallVec<[i64; 4]>, u32, Option<u32>, Bits);

/// Rows and cells that some ask reaches in one pool.
type Area = (Bits, Bits);

/// A pool, and which of its areas each ask reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    areas: Vec<Area>,
    /// Ask and area.
    by_ask: Vec<(u32, u32)>,
}

/// A kind, its atom, and the areas of its pool that it is in.
struct Offered {
    kind: Kind,
    row: usize,
    atom: usize,
    areas: Bits,
}

/// `None` if there was no time for it.
pub(crate) fn problem(
    world: &World,
    asks: &[Ask<'_>],
    reserved: &Bits,
    choice: Choice,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Posed> {
    let extent = Extent::of(asks, world.dims.len());
    let pools = by_pool(world, asks, reserved, keep_going)?;
    let (mut kinds, mut made_of): (Vec<Kind>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    // By ask: the kinds that its areas have.
    let mut open: Vec<Vec<u32>> = vec![Vec::new(); asks.len()];
    for (pool, asked) in &pools {
        if !keep_going() {
            return None;
        }
        let mut own = kinds_of(world, *pool, asked, &extent);
        if choice == Choice::Few {
            thin_out(&mut own, asked, asks, &extent);
        }
        let first = kinds.len() as u32;
        let mut of_area: Vec<Vec<u32>> = vec![Vec::new(); asked.areas.len()];
        for (index, offered) in own.iter().enumerate() {
            offered.areas.iter().for_each(|area| of_area[area].push(first + index as u32));
        }
        for (ask, area) in &asked.by_ask {
            open[*ask as usize].extend(&of_area[*area as usize]);
        }
        made_of.extend(own.iter().map(|offered| (*pool, offered.row)));
        kinds.extend(own.into_iter().map(|offered| offered.kind));
    }
    let mut sizes: Vec<Size> = Vec::new();
    let mut index: FxHashMap<Alike, SizeId> = FxHashMap::default();
    let mut size_of = Vec::with_capacity(asks.len());
    for (ask, open) in asks.iter().zip(open) {
        if !keep_going() {
            return None;
        }
        let mut allowed = Bits::new(kinds.len());
        let fitting = open.iter().filter(|k| crate::dims::fits(ask.request, &kinds[**k as usize].room));
        fitting.for_each(|kind| allowed.set(*kind as usize));
        let key = (SmallVec::from_slice(ask.request), ask.cap, ask.exclusion, allowed);
        let next = sizes.len() as SizeId;
        let id = *index.entry(key).or_insert_with_key(|key| {
            sizes.push(Size {
                request: key.0.clone(),
                count: 0,
                cap: ask.cap,
                exclusion: ask.exclusion,
                kinds: key.3.clone(),
            });
            next
        });
        sizes[id as usize].count += ask.count;
        size_of.push(id);
    }
    let problem = Problem::new(sizes, kinds, world.dims.len(), TUNING);
    Some(Posed { problem, size_of, made_of })
}

/// What is asked of each pool. A pool that offers nothing that another does not offer to the same asks is left out.
fn by_pool(
    world: &World,
    asks: &[Ask<'_>],
    reserved: &Bits,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<(usize, Asked)>> {
    let mut pools: Vec<Asked> = vec![Asked::default(); world.pools.len()];
    let mut index: Vec<FxHashMap<Area, u32>> = vec![FxHashMap::default(); world.pools.len()];
    for (number, ask) in asks.iter().enumerate() {
        if !keep_going() {
            return None;
        }
        for (pool, reach) in &ask.reaches {
            let mut cells = reach.cells.clone();
            cells.remove(reserved);
            let asked = &mut pools[*pool];
            let area = *index[*pool].entry((reach.rows.clone(), cells)).or_insert_with_key(|area| {
                asked.areas.push(area.clone());
                asked.areas.len() as u32 - 1
            });
            asked.by_ask.push((number as u32, area));
        }
    }
    // Those that most is asked of first: they stand for the others.
    let mut order: Vec<usize> = (0..pools.len()).filter(|pool| !pools[*pool].areas.is_empty()).collect();
    order.sort_by_key(|pool| (std::cmp::Reverse(pools[*pool].by_ask.len()), *pool));
    let mut kept: Vec<(usize, FxHashSet<(u32, u32)>)> = Vec::new();
    for pool in order {
        if !keep_going() {
            return None;
        }
        let data = &world.pools[pool];
        let stands_for = |(other, asked): &(usize, FxHashSet<(u32, u32)>)| {
            let same = world.pools[*other].table == data.table && world.pools[*other].room == data.room;
            let areas = || pools[pool].areas.iter().map(|area| index[*other].get(area).copied());
            let Some(there) = same.then(|| areas().collect::<Option<Vec<u32>>>()).flatten() else {
                return false;
            };
            pools[pool].by_ask.iter().all(|(ask, area)| asked.contains(&(*ask, there[*area as usize])))
        };
        if !kept.iter().any(stands_for) {
            kept.push((pool, pools[pool].by_ask.iter().copied().collect()));
        }
    }
    kept.sort_unstable_by_key(|(pool, _)| *pool);
    Some(kept.into_iter().map(|(pool, _)| (pool, std::mem::take(&mut pools[pool]))).collect())
}

/// The least that any pod needs, and all that they need together: room beyond that is of no use.
struct Extent {
    least: Vec<i64>,
    total: Vec<i64>,
    /// By set of resources that some pod asks for: all that such pods need together.
    by_resources: Vec<(Bits, Vec<i64>)>,
}

impl Extent {
    fn of(asks: &[Ask<'_>], dims: usize) -> Self {
        let mut all = Self { least: vec![i64::MAX; dims], total: vec![0; dims], by_resources: Vec::new() };
        for ask in asks {
            let mut used = Bits::new(dims);
            ask.request.iter().enumerate().filter(|(_, n)| **n > 0).for_each(|(dim, _)| used.set(dim));
            let known = all.by_resources.iter().position(|(set, _)| *set == used);
            let slot = known.unwrap_or_else(|| {
                all.by_resources.push((used, vec![0; dims]));
                all.by_resources.len() - 1
            });
            for dim in 0..dims {
                let amount = ask.request[dim].saturating_mul(i64::from(ask.count));
                let own = &mut all.by_resources[slot].1[dim];
                *own = own.saturating_add(amount);
                all.least[dim] = all.least[dim].min(ask.request[dim]);
                all.total[dim] = all.total[dim].saturating_add(amount);
            }
        }
        all
    }
}

/// Cells that no area tells apart, and the areas that they are in.
fn atoms(asked: &Asked, cells: usize) -> Vec<(Bits, Bits)> {
    let mut atoms: Vec<(Bits, Bits)> = Vec::new();
    for cell in 0..cells {
        let mut areas = Bits::new(asked.areas.len());
        let own = asked.areas.iter().enumerate().filter(|(_, (_, cells))| cells.has(cell));
        own.for_each(|(area, _)| areas.set(area));
        if areas.is_empty() {
            continue;
        }
        match atoms.iter_mut().find(|(_, known)| *known == areas) {
            Some((members, _)) => members.set(cell),
            None => {
                let mut members = Bits::new(cells);
                members.set(cell);
                atoms.push((members, areas));
            }
        }
    }
    atoms
}

/// The kinds of a pool that are worth having, cheapest first: those that no cheaper one replaces in every respect.
fn kinds_of(world: &World, pool: usize, asked: &Asked, extent: &Extent) -> Vec<Offered> {
    let (data, table, dims) = (&world.pools[pool], world.table(pool), world.dims.len());
    let mut by_row: Vec<Bits> = vec![Bits::new(asked.areas.len()); table.len()];
    for (area, (rows, _)) in asked.areas.iter().enumerate() {
        rows.iter().for_each(|row| by_row[row].set(area));
    }
    let mut candidates: Vec<(i64, usize, usize)> = Vec::new();
    let atoms = atoms(asked, world.cells.len());
    for row in data.base.rows.iter().filter(|row| !by_row[*row].is_empty()) {
        if !crate::dims::fits(&extent.least, data.room(row, dims)) {
            continue;
        }
        let prices = table.row_prices(row);
        for (atom, (cells, areas)) in atoms.iter().enumerate() {
            let price = cells.iter().map(|cell| prices[cell]).min().unwrap_or(NO_PRICE);
            if price != NO_PRICE && by_row[row].meets(areas) {
                candidates.push((price, row, atom));
            }
        }
    }
    // Of equal price the roomiest first, so that it is the one that stays.
    candidates.sort_unstable_by(|a, b| {
        let room = || data.room(b.1, dims).cmp(data.room(a.1, dims));
        a.0.cmp(&b.0).then_with(room).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
    });
    let mut kept: Vec<Offered> = Vec::new();
    // By areas: the kinds kept so far that are in just those.
    let mut groups: Vec<(Bits, Vec<u32>)> = Vec::new();
    for (price, row, atom) in candidates {
        let areas = by_row[row].and(&atoms[atom].1);
        let room: SmallVec<[i64; 4]> =
            data.room(row, dims).iter().zip(&extent.total).map(|(room, total)| *room.min(total)).collect();
        let holds_more = |other: &u32| crate::dims::fits(&room, &kept[*other as usize].kind.room);
        let replaced = groups.iter().any(|(of, kinds)| areas.within(of) && kinds.iter().any(holds_more));
        if replaced {
            continue;
        }
        let id = kept.len() as u32;
        match groups.iter_mut().find(|(of, _)| *of == areas) {
            Some((_, kinds)) => kinds.push(id),
            None => groups.push((areas.clone(), vec![id])),
        }
        kept.push(Offered { kind: Kind { price, room }, row, atom, areas });
    }
    kept
}

/// Keeps in each atom the kinds with the most room for their price, weighed by what pods of each set of resources need in all,
/// the best of each order of magnitude, and the cheapest that holds each pod by itself, for one pod and for all of its size.
fn thin_out(kinds: &mut Vec<Offered>, asked: &Asked, asks: &[Ask<'_>], extent: &Extent) {
    let atoms = kinds.iter().map(|offered| offered.atom + 1).max().unwrap_or(0);
    let mut keep = vec![false; kinds.len()];
    for atom in 0..atoms {
        let own: Vec<usize> = (0..kinds.len()).filter(|k| kinds[*k].atom == atom).collect();
        if own.len() <= 2 * TUNING.best_kinds {
            own.into_iter().for_each(|kind| keep[kind] = true);
            continue;
        }
        for (used, total) in &extent.by_resources {
            keep_best(kinds, &own, used, total, &mut keep);
        }
    }
    // Kinds are in order of price.
    let mut seen: FxHashSet<(&[i64], u32)> = FxHashSet::default();
    for (ask, area) in &asked.by_ask {
        let request = asks[*ask as usize].request;
        if seen.insert((request, *area)) {
            let holds = |offered: &Offered| {
                offered.areas.has(*area as usize) && crate::dims::fits(request, &offered.kind.room)
            };
            kinds.iter().position(holds).into_iter().for_each(|index| keep[index] = true);
            let each = |offered: &Offered| {
                let most = crate::dims::times(request, &offered.kind.room);
                offered.kind.cost() / f64::from(most.min(asks[*ask as usize].count).max(1))
            };
            let holding = kinds.iter().enumerate().filter(|(_, offered)| holds(offered));
            let best = holding.min_by(|a, b| each(a.1).total_cmp(&each(b.1)));
            best.into_iter().for_each(|(index, _)| keep[index] = true);
        }
    }
    let mut keep = keep.into_iter();
    kinds.retain(|_| keep.next().unwrap_or(false));
}

fn keep_best(kinds: &[Offered], own: &[usize], used: &Bits, total: &[i64], keep: &mut [bool]) {
    let ratio = |kind: &Kind| {
        let shares = used.iter().map(|dim| kind.room[dim] as f64 / total[dim].max(1) as f64);
        // The scarcest resource decides how much a node takes; the others matter a little.
        let (least, sum) = shares.fold((f64::INFINITY, 0.0), |(least, sum), s| (s.min(least), sum + s));
        if least > 0.0 { (least + TUNING.plenty * sum) / kind.cost() } else { 0.0 }
    };
    let mut order: Vec<(f64, usize)> = own.iter().map(|k| (ratio(&kinds[*k].kind), *k)).collect();
    order.retain(|(ratio, _)| *ratio > 0.0);
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut steps: FxHashMap<u32, u32> = FxHashMap::default();
    for (rank, (_, index)) in order.iter().enumerate() {
        let step = steps.entry(kinds[*index].kind.price.max(1).ilog2()).or_default();
        keep[*index] |= rank < TUNING.best_kinds || *step < TUNING.best_kinds_per_doubling;
        *step += 1;
    }
}
