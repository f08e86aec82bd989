//! The packing problem: sizes of items, kinds of bins.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::tuning::Tuning;

pub type SizeId = u32;
pub type KindId = u32;

/// Items that are alike for packing.
#[derive(Clone, Debug)]
pub struct Size {
    /// What one item takes of each resource.
    pub request: SmallVec<[i64; 4]>,
    pub count: u32,
    /// Most in one bin.
    pub cap: u32,
    /// Sizes of one exclusion share its cap: all their items together in one bin.
    pub exclusion: Option<u32>,
    /// Kinds that may hold the item. Each has room for one.
    pub kinds: Bits,
}

/// Bins that are alike: there are as many as are paid for.
#[derive(Clone, Debug)]
pub struct Kind {
    pub price: i64,
    pub room: SmallVec<[i64; 4]>,
}

impl Kind {
    /// The price as a number to weigh by; what is free still counts for something, so that no more of it is taken than needed.
    pub fn cost(&self) -> f64 {
        self.price.max(1) as f64
    }
}

#[derive(Clone, Debug, Default)]
pub struct Problem {
    pub(crate) sizes: Vec<Size>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) tuning: Tuning,
    /// By kind: sizes that may go there.
    pub(crate) accepts: Vec<Vec<SizeId>>,
    /// `dims × sizes`: the requests once more, as columns of floating-point numbers, for loops that only weigh them.
    requests: Vec<f32>,
    dims: usize,
}

/// One bin of a packing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    pub kind: KindId,
    /// Sizes, and how many items of each.
    pub content: Vec<(SizeId, u32)>,
}

impl Problem {
    /// `dims`: how many resources there are.
    pub fn new(sizes: Vec<Size>, kinds: Vec<Kind>, dims: usize, tuning: Tuning) -> Self {
        let mut accepts: Vec<Vec<SizeId>> = vec![Vec::new(); kinds.len()];
        for (id, size) in sizes.iter().enumerate() {
            size.kinds.iter().for_each(|kind| accepts[kind].push(id as SizeId));
        }
        let column = |dim: usize| sizes.iter().map(move |s| s.request[dim] as f32);
        let requests = (0..dims).flat_map(column).collect();
        Self { sizes, kinds, tuning, accepts, requests, dims }
    }

    pub fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    pub(crate) fn dims(&self) -> usize {
        self.dims
    }

    /// What one item of each size takes of a resource, for weighing.
    pub(crate) fn column(&self, dim: usize) -> &[f32] {
        &self.requests[dim * self.sizes.len()..(dim + 1) * self.sizes.len()]
    }

    /// The easier problem in which items of equal requests are alike, but for the exclusions that force the most bins. Also says
    /// which of its sizes each size belongs to. Its bounds hold here too.
    pub(crate) fn eased(&self) -> (Self, Vec<SizeId>) {
        let mut forced: FxHashMap<u32, u32> = FxHashMap::default();
        for size in &self.sizes {
            if let Some(exclusion) = size.exclusion {
                *forced.entry(exclusion).or_default() += size.count.div_ceil(size.cap.max(1));
            }
        }
        let most = forced.values().copied().max().unwrap_or(0);
        let matters =
            |size: &Size| size.exclusion.filter(|e| forced[e].saturating_mul(self.tuning.eased_part) >= most);
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
        (Self::new(sizes, self.kinds.clone(), self.dims, self.tuning), belongs)
    }

    /// The problem of what is left, and the size here of each of its sizes.
    pub(crate) fn rest(&self, left: &[u32]) -> (Self, Vec<SizeId>) {
        let size_of: Vec<SizeId> =
            (0..self.sizes.len() as SizeId).filter(|size| left[*size as usize] > 0).collect();
        let with_count =
            |size: &SizeId| Size { count: left[*size as usize], ..self.sizes[*size as usize].clone() };
        let sizes = size_of.iter().map(with_count).collect();
        (Self::new(sizes, self.kinds.clone(), self.dims, self.tuning), size_of)
    }

    /// Every size has some kind.
    pub fn is_feasible(&self) -> bool {
        self.sizes.iter().all(|s| !s.kinds.is_empty())
    }

    /// As [`Kind::cost`].
    pub(crate) fn price(&self, kind: KindId) -> f64 {
        self.kinds[kind as usize].cost()
    }

    /// What a load is worth at the values of sizes, per unit of its price.
    pub(crate) fn value_for_money(&self, load: &Load, value: &[f64]) -> f64 {
        let worth: f64 = load.content.iter().map(|(size, n)| value[*size as usize] * f64::from(*n)).sum();
        worth / self.price(load.kind)
    }

    pub fn cost(&self, loads: &[Load]) -> i64 {
        loads.iter().map(|l| self.kinds[l.kind as usize].price).sum()
    }

    /// The kind in which items of one size alone are cheapest, and how many it holds.
    pub fn best_alone(&self, size: SizeId) -> (KindId, u32) {
        let data = &self.sizes[size as usize];
        let mut best: Option<(f64, KindId, u32)> = None;
        for kind in data.kinds.iter() {
            let most = crate::amounts::times(&data.request, &self.kinds[kind].room).min(data.cap).max(1);
            let each = self.price(kind as KindId) / f64::from(most.min(data.count.max(1)));
            if best.is_none_or(|(least, ..)| each < least) {
                best = Some((each, kind as KindId, most.min(data.count.max(1))));
            }
        }
        best.map_or((0, 1), |(_, kind, most)| (kind, most))
    }
}
