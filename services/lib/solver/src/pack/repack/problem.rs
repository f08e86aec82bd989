//! The abstract packing problem: sizes of pods, kinds of nodes. It knows neither pods nor pools; `asks` makes it from those.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bits::Bits;

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

/// One node of a packing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) kind: KindId,
    pub(crate) content: Vec<(SizeId, u32)>,
}

impl Problem {
    pub(super) fn of(sizes: Vec<Size>, kinds: Vec<Kind>, dims: usize) -> Self {
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
