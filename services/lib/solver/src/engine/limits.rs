//! Limits of pools: what new nodes are charged, and what can be given back.

use packing::Bits;

use super::state::State;

impl State<'_> {
    /// Takes a new node off the limits of its pool, at the most that it may become, and off its reservation.
    pub(crate) fn charge(&mut self, index: usize) {
        let most = self.most_charged(index);
        let bin = &mut self.bins[index];
        bin.charged = most.into();
        let (left, nodes) = &mut self.limits[bin.pool];
        for (slot, amount) in left.iter_mut().zip(&bin.charged) {
            *slot = slot.saturating_sub(*amount);
        }
        if let Some(nodes) = nodes {
            *nodes -= 1;
        }
        if let Some(id) = bin.reservation {
            self.reservations[id] = self.reservations[id].saturating_sub(1);
        }
    }

    fn most_charged(&self, index: usize) -> Vec<i64> {
        let bin = &self.bins[index];
        let of = |limit: &crate::pools::Limit| {
            bin.reach.rows.iter().map(|row| limit.by_row[row]).max().unwrap_or(0)
        };
        self.world.pools[bin.pool].limits.iter().map(of).collect()
    }

    /// Narrows every node of a limited pool to types no larger than the one that it would be launched as, and gives the
    /// difference back. False if there was none.
    pub(crate) fn give_back_limits(&mut self) -> bool {
        let mut given = false;
        for index in 0..self.bins.len() {
            let pool = self.bins[index].pool;
            let data = &self.world.pools[pool];
            if data.limits.is_empty() {
                continue;
            }
            let Some(launch) = self.launch(pool, &self.bins[index].reach) else { continue };
            let mut small = Bits::new(self.world.table(pool).len());
            for row in self.bins[index].reach.rows.iter() {
                if data.limits.iter().all(|limit| limit.by_row[row] <= limit.by_row[launch.row]) {
                    small.set(row);
                }
            }
            let mut reach = self.bins[index].reach.clone();
            reach.rows.keep(&small);
            if !self.bins[index].min_values_relaxed && !self.has_min_values(pool, &reach) {
                continue;
            }
            self.bins[index].reach = reach;
            let now = self.most_charged(index);
            let bin = &mut self.bins[index];
            bin.most_room = self.world.most_room(pool, &bin.reach, &bin.used);
            for ((left, before), now) in self.limits[pool].0.iter_mut().zip(&mut bin.charged).zip(now) {
                given |= now < *before;
                *left += *before - now;
                *before = now;
            }
        }
        given
    }
}
