//! Small dense bit sets.

use smallvec::SmallVec;

/// A set of small numbers. Sets that are combined have been made for as many numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits(SmallVec<[u64; 8]>);

impl Bits {
    #[inline]
    pub fn new(len: usize) -> Self {
        Self(SmallVec::from_elem(0, len.div_ceil(64)))
    }

    #[inline]
    pub fn full(len: usize) -> Self {
        let mut bits = Self(SmallVec::from_elem(u64::MAX, len.div_ceil(64)));
        if let (Some(last), true) = (bits.0.last_mut(), !len.is_multiple_of(64)) {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    #[inline]
    pub fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    #[inline]
    pub fn unset(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    #[inline]
    pub fn has(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|w| w >> (index % 64) & 1 == 1)
    }

    #[inline]
    pub fn keep(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= b;
        }
    }

    #[inline]
    pub fn remove(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a &= !b;
        }
    }

    #[inline]
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }

    #[inline]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    #[inline]
    pub fn within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
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
