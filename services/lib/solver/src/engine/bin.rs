//! A new node being filled: what it holds, and what it may still become.

use model::pod::HostPort;
use smallvec::SmallVec;

use super::demand::DemandId;
use crate::dims::{fits, times};
use crate::reach::Reach;
use crate::topology::group::GroupId;
use crate::topology::groups::DomainId;
use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) struct Bin {
    pub(crate) pool: usize,
    /// Rows that can hold the content and satisfy everything, the cells that they can be launched in, and labels still open.
    pub(crate) reach: Reach,
    pub(crate) used: SmallVec<[i64; 4]>,
    pub(crate) items: SmallVec<[Item; 4]>,
    pub(crate) pods: u32,
    pub(crate) ports: SmallVec<[HostPort; 2]>,
    /// Pods that hostname groups count here: group, selected, stating.
    pub(crate) hosts: SmallVec<[(GroupId, i32, i32); 2]>,
    /// By topology key: the domain, once decided.
    pub(crate) domains: SmallVec<[DomainId; 4]>,
    /// The reservation that it will be launched into.
    pub(crate) reservation: Option<usize>,
    /// What it was charged against the limits of its pool.
    pub(crate) charged: SmallVec<[i64; 2]>,
    pub(crate) min_values_relaxed: bool,
    /// Upper bound of what any row leaves free, by column; rejects most candidates at once.
    pub(crate) most_room: SmallVec<[i64; 4]>,
}

/// Pods of a demand, placed on one rung of its ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) demand: DemandId,
    pub(crate) rung: u8,
    pub(crate) count: u32,
}

impl Bin {
    pub(crate) fn on_host(&self, group: GroupId) -> (i32, i32) {
        self.hosts.iter().find(|(g, ..)| *g == group).map_or((0, 0), |(_, a, b)| (*a, *b))
    }

    pub(crate) fn add_on_host(&mut self, group: GroupId, selected: i32, stating: i32) {
        match self.hosts.iter_mut().find(|(g, ..)| *g == group) {
            Some((_, a, b)) => {
                *a += selected;
                *b += stating;
            }
            None => self.hosts.push((group, selected, stating)),
        }
    }

    pub(crate) fn add_item(&mut self, demand: DemandId, rung: u8, count: u32) {
        self.pods += count;
        match self.items.iter_mut().find(|i| i.demand == demand && i.rung == rung) {
            Some(item) => item.count += count,
            None => self.items.push(Item { demand, rung, count }),
        }
    }
}

impl World {
    /// Keeps the rows of a pool that have an offering and room for `count` more of `request`, and the cells that those rows
    /// have. False if nothing is left.
    pub(crate) fn keep_fitting(
        &self,
        pool: usize,
        reach: &mut Reach,
        used: &[i64],
        request: &[i64],
        count: u32,
    ) -> bool {
        let (data, table, dims) = (&self.pools[pool], self.table(pool), self.dims.len());
        let mut total: SmallVec<[i64; 8]> = SmallVec::from_slice(used);
        for (sum, amount) in total.iter_mut().zip(request) {
            *sum = sum.saturating_add(amount.saturating_mul(i64::from(count)));
        }
        let mut seen = crate::bits::Bits::new(self.cells.len());
        let (rows, cells) = (&mut reach.rows, &reach.cells);
        for (index, word) in rows.words_mut().iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let row = index * 64 + bit;
                if fits(&total, data.room(row, dims)) && table.rows[row].cells.meets(cells) {
                    seen.add(&table.rows[row].cells);
                } else {
                    *word &= !(1 << bit);
                }
            }
        }
        reach.cells.keep(&seen);
        !reach.cells.is_empty()
    }

    /// The most of `request` that any row of the reach can take beside `used`.
    pub(crate) fn most_that_fit(&self, pool: usize, reach: &Reach, used: &[i64], request: &[i64]) -> u32 {
        let (data, table, dims) = (&self.pools[pool], self.table(pool), self.dims.len());
        let mut most = 0;
        let mut left: SmallVec<[i64; 8]> = SmallVec::from_elem(0, dims);
        for row in reach.rows.iter() {
            if !table.rows[row].cells.meets(&reach.cells) {
                continue;
            }
            for ((slot, room), used) in left.iter_mut().zip(data.room(row, dims)).zip(used) {
                *slot = room - used;
            }
            most = most.max(times(request, &left));
        }
        most
    }

    pub(crate) fn most_room(&self, pool: usize, reach: &Reach, used: &[i64]) -> SmallVec<[i64; 4]> {
        let (data, dims) = (&self.pools[pool], self.dims.len());
        let mut out: SmallVec<[i64; 4]> = SmallVec::from_elem(i64::MIN, dims);
        for row in reach.rows.iter() {
            for (most, room) in out.iter_mut().zip(data.room(row, dims)) {
                *most = (*most).max(*room);
            }
        }
        for (most, used) in out.iter_mut().zip(used) {
            *most = most.saturating_sub(*used);
        }
        out
    }
}
