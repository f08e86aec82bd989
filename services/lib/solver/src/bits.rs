//! Small dense bit sets: instance types, offering cells, nodes, topology domains.

use smallvec::SmallVec;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bits(SmallVec<[u64; 8]>);

impl Bits {
    pub(crate) fn new(len: usize) -> Self {
        Self(SmallVec::from_elem(0, len.div_ceil(64)))
    }

    pub(crate) fn full(len: usize) -> Self {
        let mut bits = Self(SmallVec::from_elem(u64::MAX, len.div_ceil(64)));
        if let (Some(last), true) = (bits.0.last_mut(), !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    pub(crate) fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn unset(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|w| w >> (index % 64) & 1 == 1)
    }

    pub(crate) fn keep(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }

    pub(crate) fn remove(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    index * 64 + bit
                })
            })
        })
    }
}
