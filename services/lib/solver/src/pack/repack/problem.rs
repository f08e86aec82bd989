//! The abstract packing problem: sizes of pods, kinds of nodes.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::reach::Reach;
use crate::table::NO_PRICE;
use crate::world::World;

pub(crate) type SizeId = u32;
pub(crate) type KindId = u32;

/// Pods that are alike for packing.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    pub(crate) request: SmallVec<[i64; 4]>,
    pub(crate) count: u32,
    /// Most on one node.
    pub(crate) cap: u32,
    /// Sizes of one exclusion share its cap: all their pods together on one node.
    pub(crate) exclusion: Option<u32>,
    pub(crate) kinds: Bits,
}

/// A type in some cells of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) pool: usize,
    pub(crate) row: usize,
    pub(crate) price: i64,
    pub(crate) room: SmallVec<[i64; 4]>,
}

impl Kind {
    /// The price as a number to weigh by; what is free still counts for something, so that no more of it is taken than needed.
    pub(crate) fn cost(&self) -> f64 {
        self.price.max(1) as f64
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) sizes: Vec<Size>,
    pub(crate) kinds: Vec<Kind>,
    /// By kind: sizes that may go there.
    pub(crate) accepts: Vec<Vec<SizeId>>,
    /// `dims × sizes`: the requests once more, as columns of floating-point numbers, for loops that only weigh them.
    requests: Vec<f32>,
    dims: usize,
}

/// Which kinds of nodes a packing may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All that are worth having: what a bound must look at.
    All,
    /// Where there are very many, the best and a ladder of sizes: a packing loses little by that.
    Few,
}

/// Kinds of a large catalogue that a packing looks at, in each set of cells.
const BEST_KINDS: usize = 16;

/// What decides which kinds a pod may go on: its requests, and what it reaches in each pool.
type Wants<'a> = (&'a [i64], &'a [(usize, Reach)]);

/// What makes pods one size: requests, cap, exclusion and kinds.
type Alike = (SmallVec<[i64; 4]>, u32, Option<u32>, Bits);

/// What a group of pods asks of new nodes.
pub(crate) struct Ask<'a> {
    pub(crate) request: &'a [i64],
    pub(crate) count: u32,
    pub(crate) cap: u32,
    pub(crate) exclusion: Option<u32>,
    /// Where it may go, by pool.
    pub(crate) reaches: Vec<(usize, Reach)>,
}

/// One node of a packing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) kind: KindId,
    pub(crate) content: Vec<(SizeId, u32)>,
}

impl Problem {
    /// Returns the problem and the size of every ask.
    pub(crate) fn new(
        world: &World,
        asks: &[Ask<'_>],
        reserved: &Bits,
        choice: Choice,
    ) -> (Self, Vec<SizeId>) {
        let mut cell_sets: Vec<(usize, Bits)> = Vec::new();
        let mut row_sets: Vec<(usize, Bits)> = Vec::new();
        for (pool, reach) in asks.iter().flat_map(|a| &a.reaches) {
            let mut cells = reach.cells.clone();
            cells.remove(reserved);
            add_new(&mut cell_sets, (*pool, cells));
            add_new(&mut row_sets, (*pool, reach.rows.clone()));
        }
        close_under_intersection(&mut cell_sets);
        let extent = Extent::of(asks, world.dims.len());
        let mut kinds: Vec<(Kind, Bits)> = Vec::new();
        for (pool, cells) in &cell_sets {
            let mut own = kinds_of(world, *pool, cells, &row_sets, &extent);
            if choice == Choice::Few {
                thin_out(&mut own, *pool, asks, &extent);
            }
            kinds.extend(own.into_iter().map(|k| (k, cells.clone())));
        }
        let mut sizes: Vec<Size> = Vec::new();
        let mut index: FxHashMap<Alike, SizeId> = FxHashMap::default();
        let mut size_of = Vec::with_capacity(asks.len());
        let mut known: FxHashMap<Wants<'_>, Bits> = FxHashMap::default();
        for ask in asks {
            let allowed = known.entry((ask.request, &ask.reaches)).or_insert_with(|| {
                let mut allowed = Bits::new(kinds.len());
                for (pool, reach) in &ask.reaches {
                    for (id, (kind, cells)) in kinds.iter().enumerate() {
                        let fits =
                            kind.pool == *pool && reach.rows.has(kind.row) && cells.within(&reach.cells);
                        if fits && crate::dims::fits(ask.request, &kind.room) {
                            allowed.set(id);
                        }
                    }
                }
                allowed
            });
            let key = (SmallVec::from_slice(ask.request), ask.cap, ask.exclusion, allowed.clone());
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
        let kinds = kinds.into_iter().map(|(kind, _)| kind).collect();
        (Self::of(sizes, kinds, world.dims.len()), size_of)
    }

    fn of(sizes: Vec<Size>, kinds: Vec<Kind>, dims: usize) -> Self {
        let mut accepts: Vec<Vec<SizeId>> = vec![Vec::new(); kinds.len()];
        for (id, size) in sizes.iter().enumerate() {
            size.kinds.iter().for_each(|kind| accepts[kind].push(id as SizeId));
        }
        let column = |dim: usize| sizes.iter().map(move |s| s.request[dim] as f32);
        let requests = (0..dims).flat_map(column).collect();
        Self { sizes, kinds, accepts, requests, dims }
    }

    pub(crate) fn dims(&self) -> usize {
        self.dims
    }

    /// What one pod of each size takes of a resource, for weighing.
    pub(crate) fn column(&self, dim: usize) -> &[f32] {
        &self.requests[dim * self.sizes.len()..(dim + 1) * self.sizes.len()]
    }

    /// The easier problem in which pods of equal requests are alike, but for the rules that force the most nodes. Also says
    /// which of its sizes each size belongs to. Its bounds hold here too.
    pub(crate) fn eased(&self) -> (Self, Vec<SizeId>) {
        let mut forced: FxHashMap<u32, u32> = FxHashMap::default();
        for size in &self.sizes {
            if let Some(exclusion) = size.exclusion {
                *forced.entry(exclusion).or_default() += size.count.div_ceil(size.cap.max(1));
            }
        }
        let most = forced.values().copied().max().unwrap_or(0);
        let matters = |size: &Size| size.exclusion.filter(|e| forced[e].saturating_mul(4) >= most);
        let mut index: FxHashMap<(&[i64], Option<u32>), SizeId> = FxHashMap::default();
        let mut sizes: Vec<Size> = Vec::new();
        let mut belongs = Vec::with_capacity(self.sizes.len());
        for size in &self.sizes {
            let next = sizes.len() as SizeId;
            let exclusion = matters(size);
            let id = *index.entry((&size.request, exclusion)).or_insert_with(|| {
                let cap = if exclusion.is_some() { size.cap } else { u32::MAX };
                sizes.push(Size { count: 0, cap, exclusion, ..size.clone() });
                next
            });
            sizes[id as usize].count += size.count;
            sizes[id as usize].kinds.add(&size.kinds);
            belongs.push(id);
        }
        (Self::of(sizes, self.kinds.clone(), self.dims), belongs)
    }

    /// The problem of what is left, and the size here of each of its sizes.
    pub(crate) fn rest(&self, left: &[u32]) -> (Self, Vec<SizeId>) {
        let size_of: Vec<SizeId> =
            (0..self.sizes.len() as SizeId).filter(|size| left[*size as usize] > 0).collect();
        let with_count =
            |size: &SizeId| Size { count: left[*size as usize], ..self.sizes[*size as usize].clone() };
        let sizes = size_of.iter().map(with_count).collect();
        (Self::of(sizes, self.kinds.clone(), self.dims), size_of)
    }

    /// Every size has some kind.
    pub(crate) fn is_feasible(&self) -> bool {
        self.sizes.iter().all(|s| !s.kinds.is_empty())
    }

    /// As [`Kind::cost`].
    pub(crate) fn price(&self, kind: KindId) -> f64 {
        self.kinds[kind as usize].cost()
    }

    /// What a load is worth at the values of sizes, for each dollar of its price.
    pub(crate) fn value_for_money(&self, load: &Load, value: &[f64]) -> f64 {
        let worth: f64 = load.content.iter().map(|(size, n)| value[*size as usize] * f64::from(*n)).sum();
        worth / self.price(load.kind)
    }

    pub(crate) fn cost(&self, loads: &[Load]) -> i64 {
        loads.iter().map(|l| self.kinds[l.kind as usize].price).sum()
    }
}

fn add_new(list: &mut Vec<(usize, Bits)>, entry: (usize, Bits)) {
    if !list.contains(&entry) {
        list.push(entry);
    }
}

/// Nodes that hold pods of different sets are in the intersection. Beyond a few sets only the sets themselves are used, which
/// loses some mixed nodes and nothing else.
fn close_under_intersection(sets: &mut Vec<(usize, Bits)>) {
    const MOST: usize = 16;
    let mut from = 0;
    while from < sets.len() && sets.len() <= MOST {
        for other in 0..from {
            if sets[from].0 == sets[other].0 {
                let both = sets[from].1.and(&sets[other].1);
                if !both.is_empty() {
                    let entry = (sets[from].0, both);
                    add_new(sets, entry);
                }
            }
        }
        from += 1;
    }
    sets.retain(|(_, cells)| !cells.is_empty());
}

/// The least that any pod needs, and all that they need together: room beyond that is of no use.
struct Extent {
    least: Vec<i64>,
    total: Vec<i64>,
}

impl Extent {
    fn of(asks: &[Ask<'_>], dims: usize) -> Self {
        let (mut least, mut total) = (vec![i64::MAX; dims], vec![0_i64; dims]);
        for ask in asks {
            for dim in 0..dims {
                least[dim] = least[dim].min(ask.request[dim]);
                total[dim] = total[dim].saturating_add(ask.request[dim].saturating_mul(i64::from(ask.count)));
            }
        }
        Self { least, total }
    }
}

/// The rows of a pool worth having in some cells: those that no cheaper row replaces in every respect.
fn kinds_of(
    world: &World,
    pool: usize,
    cells: &Bits,
    row_sets: &[(usize, Bits)],
    extent: &Extent,
) -> Vec<Kind> {
    let (data, table, dims) = (&world.pools[pool], world.table(pool), world.dims.len());
    let mut candidates: Vec<(i64, usize)> = Vec::new();
    for row in data.base.rows.iter() {
        if !table.rows[row].cells.meets(cells) || !crate::dims::fits(&extent.least, data.room(row, dims)) {
            continue;
        }
        let prices = table.row_prices(row);
        let price = cells.iter().map(|cell| prices[cell]).min().unwrap_or(NO_PRICE);
        if price != NO_PRICE {
            candidates.push((price, row));
        }
    }
    let useful = |row: usize| -> SmallVec<[i64; 4]> {
        data.room(row, dims).iter().zip(&extent.total).map(|(room, total)| *room.min(total)).collect()
    };
    // Of equal price the roomiest first, so that it is the one that stays.
    candidates.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| data.room(b.1, dims).cmp(data.room(a.1, dims))).then(a.1.cmp(&b.1))
    });
    let signature = |row: usize| -> SmallVec<[bool; 8]> {
        row_sets.iter().filter(|(p, _)| *p == pool).map(|(_, rows)| rows.has(row)).collect()
    };
    let mut kept: Vec<(Kind, SmallVec<[bool; 8]>)> = Vec::new();
    for (price, row) in candidates {
        let (own, room) = (signature(row), useful(row));
        let replaced = kept.iter().any(|(other, theirs)| {
            crate::dims::fits(&room, &other.room) && own.iter().zip(theirs).all(|(a, b)| !a || *b)
        });
        if !replaced {
            kept.push((Kind { pool, row, price, room }, own));
        }
    }
    kept.into_iter().map(|(kind, _)| kind).collect()
}

/// Keeps the kinds with the most room for their price, weighed by what the pods need in all, the best of each order of
/// magnitude, and the cheapest that holds each pod by itself.
fn thin_out(kinds: &mut Vec<Kind>, pool: usize, asks: &[Ask<'_>], extent: &Extent) {
    if kinds.len() <= 2 * BEST_KINDS {
        return;
    }
    let ratio = |kind: &Kind| {
        let share = |(room, total): (&i64, &i64)| if *total > 0 { *room as f64 / *total as f64 } else { 1.0 };
        // The scarcest resource decides how much a node takes; the others matter a little.
        let shares = kind.room.iter().zip(&extent.total).map(share);
        let (least, sum) = shares.fold((f64::INFINITY, 0.0), |(least, sum), s| (s.min(least), sum + s));
        (least + 0.1 * sum) / kind.cost()
    };
    let mut order: Vec<(f64, usize)> = kinds.iter().enumerate().map(|(i, k)| (ratio(k), i)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut keep = vec![false; kinds.len()];
    let mut steps: FxHashMap<u32, u32> = FxHashMap::default();
    for (rank, (_, index)) in order.iter().enumerate() {
        let step = steps.entry(kinds[*index].price.max(1).ilog2()).or_default();
        keep[*index] = rank < BEST_KINDS || *step < 3;
        *step += 1;
    }
    // Kinds are in order of price.
    let mut seen: FxHashSet<(&[i64], &Bits)> = FxHashSet::default();
    for ask in asks {
        for (_, reach) in ask.reaches.iter().filter(|(of, _)| *of == pool) {
            if seen.insert((ask.request, &reach.rows)) {
                let holds =
                    |kind: &Kind| reach.rows.has(kind.row) && crate::dims::fits(ask.request, &kind.room);
                kinds.iter().position(holds).into_iter().for_each(|index| keep[index] = true);
            }
        }
    }
    let mut keep = keep.into_iter();
    kinds.retain(|_| keep.next().unwrap_or(false));
}
