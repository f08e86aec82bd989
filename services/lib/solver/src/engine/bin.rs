//! A new node being filled: what it holds, and what it may still become.

use model::pod::HostPort;
use packing::Bits;
use smallvec::SmallVec;

use super::demand::DemandId;
use crate::dims::{fits, times};
use crate::reach::Reach;
use crate::topology::group::GroupId;
use crate::topology::groups::{DomainId, NO_DOMAIN};
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
    /// By hostname group, in ascending order: pods here that it selects.
    selected: SmallVec<[(GroupId, i32); 2]>,
    /// By hostname group of a required anti-affinity, in ascending order: pods here that state it.
    stating: SmallVec<[(GroupId, i32); 2]>,
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
    pub(crate) rung: u16,
    pub(crate) count: u32,
}

impl Bin {
    /// A node of the pool with nothing on it.
    pub(crate) fn empty(pool: usize, reach: Reach, world: &World) -> Self {
        let dims = world.dims.len();
        Self {
            pool,
            reach,
            used: SmallVec::from_elem(0, dims),
            items: SmallVec::new(),
            pods: 0,
            ports: SmallVec::new(),
            selected: SmallVec::new(),
            stating: SmallVec::new(),
            domains: SmallVec::from_elem(NO_DOMAIN, world.groups.keys.len()),
            reservation: None,
            charged: SmallVec::new(),
            min_values_relaxed: false,
            most_room: SmallVec::from_elem(i64::MAX, dims),
        }
    }

    /// Pods here that a hostname group selects.
    pub(crate) fn selected(&self, group: GroupId) -> i32 {
        let found = self.selected.binary_search_by_key(&group, |(known, _)| *known);
        found.map_or(0, |at| self.selected[at].1)
    }

    /// Some pod here states one of these required anti-affinity groups, which are in ascending order.
    pub(crate) fn states_any(&self, groups: &[GroupId]) -> bool {
        self.stating.iter().any(|(group, count)| *count > 0 && groups.binary_search(group).is_ok())
    }

    pub(crate) fn add_selected(&mut self, group: GroupId, by: i32) {
        add_to(&mut self.selected, group, by);
    }

    pub(crate) fn add_stating(&mut self, group: GroupId, by: i32) {
        add_to(&mut self.stating, group, by);
    }

    pub(crate) fn add_item(&mut self, demand: DemandId, rung: u16, count: u32) {
        self.pods += count;
        match self.items.iter_mut().find(|i| i.demand == demand && i.rung == rung) {
            Some(item) => item.count += count,
            None => self.items.push(Item { demand, rung, count }),
        }
    }
}

fn add_to(counts: &mut SmallVec<[(GroupId, i32); 2]>, group: GroupId, by: i32) {
    match counts.binary_search_by_key(&group, |(known, _)| *known) {
        Ok(at) => counts[at].1 += by,
        Err(at) => counts.insert(at, (group, by)),
    }
}

impl World {
    /// Keeps the rows of a pool that have an offering and room for `count` more of `request`, and the cells that those rows
    /// have. Returns the most that any of them leaves free then, by column; `None` if nothing is left.
    pub(crate) fn keep_fitting(
        &self,
        pool: usize,
        reach: &mut Reach,
        used: &[i64],
        request: &[i64],
        count: u32,
    ) -> Option<SmallVec<[i64; 4]>> {
        let (data, table, dims) = (&self.pools[pool], self.table(pool), self.dims.len());
        let mut total: SmallVec<[i64; 8]> = SmallVec::from_slice(used);
        for (sum, amount) in total.iter_mut().zip(request) {
            *sum = sum.saturating_add(amount.saturating_mul(i64::from(count)));
        }
        let mut seen = Bits::new(self.cells.len());
        let mut most: SmallVec<[i64; 4]> = SmallVec::from_elem(i64::MIN, dims);
        let mut pass = Pass {
            room: &data.room,
            cells: reach.cells.words(),
            words: table.all_cell_words(),
            seen: seen.words_mut(),
            most: &mut most,
        };
        match (&total[..], reach.cells.words().len()) {
            (&[a, b, c], 1) => pass.keep_of(&mut reach.rows, [a, b, c]),
            (&[a, b, c, d], 1) => pass.keep_of(&mut reach.rows, [a, b, c, d]),
            _ => pass.keep(&mut reach.rows, &total),
        }
        reach.cells.keep(&seen);
        most.iter_mut().zip(&total).for_each(|(most, used)| *most = most.saturating_sub(*used));
        (!reach.cells.is_empty()).then_some(most)
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

/// One look at rows: which of them have room and an offering, what cells those have, and how much room.
struct Pass<'a> {
    /// `rows × dims`.
    room: &'a [i64],
    cells: &'a [u64],
    /// `rows ×` as many words as `cells`.
    words: &'a [u64],
    seen: &'a mut [u64],
    most: &'a mut [i64],
}

impl Pass<'_> {
    fn keep(&mut self, rows: &mut Bits, total: &[i64]) {
        let (dims, words) = (total.len(), self.cells.len());
        retain(rows, |row| {
            let room = &self.room[row * dims..(row + 1) * dims];
            let own = &self.words[row * words..(row + 1) * words];
            let kept = fits(total, room) && own.iter().zip(self.cells).any(|(own, asked)| own & asked != 0);
            if kept {
                self.seen.iter_mut().zip(own).for_each(|(seen, own)| *seen |= own);
                self.most.iter_mut().zip(room).for_each(|(most, room)| *most = (*most).max(*room));
            }
            kept
        });
    }

    /// As [`Self::keep`], with a known number of columns and few cells: what almost all looks are.
    fn keep_of<const N: usize>(&mut self, rows: &mut Bits, total: [i64; N]) {
        let (room, _) = self.room.as_chunks::<N>();
        let (cells, mut seen, mut most) = (self.cells[0], 0, [i64::MIN; N]);
        retain(rows, |row| {
            let (room, own) = (&room[row], self.words[row]);
            let kept = (own & cells != 0) & (0..N).all(|dim| total[dim] <= room[dim]);
            if kept {
                seen |= own;
                (0..N).for_each(|dim| most[dim] = most[dim].max(room[dim]));
            }
            kept
        });
        self.seen[0] = seen;
        self.most.copy_from_slice(&most);
    }
}

fn retain(rows: &mut Bits, mut keep: impl FnMut(usize) -> bool) {
    for (index, word) in rows.words_mut().iter_mut().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if !keep(index * 64 + bit) {
                *word &= !(1 << bit);
            }
        }
    }
}
