//! The plainest packing: sizes in order, the dearest first, each item into the first bin that has room, else into a new bin of
//! the kind that is cheapest for it. It is among the packings that are tried, so that no plan costs more than this one.

use super::problem::{KindId, Load, Problem, SizeId};

/// What kind of bin is opened for items that no bin has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// The cheapest that holds one of them.
    Cheapest,
    /// The one in which such items alone cost least each.
    BestAlone,
}

struct Bin {
    load: Load,
    room: Vec<i64>,
    /// Rules whose caps items here share, and how many there are.
    exclusions: Vec<(u32, u32)>,
}

/// The cheaper of the two. `None` if there was no time for it. Every size has some kind.
pub(crate) fn pack(problem: &Problem, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<Vec<Load>> {
    let all: Vec<u32> = problem.sizes.iter().map(|size| size.count).collect();
    let packed = |opened| -> Option<Vec<Load>> {
        let bins = first_fit(problem, Vec::new(), &all, opened, keep_going)?;
        Some(bins.into_iter().map(|bin| bin.load).collect())
    };
    let (one, other) = (packed(Opened::Cheapest)?, packed(Opened::BestAlone)?);
    Some(if problem.cost(&other) < problem.cost(&one) { other } else { one })
}

/// Puts what is left into the loads, and into new bins where they have no room.
pub(crate) fn put_rest(problem: &Problem, left: &[u32], loads: &mut Vec<Load>) {
    if left.iter().all(|n| *n == 0) {
        return;
    }
    let bins = loads.iter().map(|load| Bin::holding(problem, load)).collect();
    if let Some(bins) = first_fit(problem, bins, left, Opened::BestAlone, &|| true) {
        *loads = bins.into_iter().map(|bin| bin.load).collect();
    }
}

fn first_fit(
    problem: &Problem,
    mut bins: Vec<Bin>,
    left: &[u32],
    opened: Opened,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<Bin>> {
    let cheapest: Vec<KindId> = problem.sizes.iter().map(|size| cheapest(problem, size)).collect();
    let mut order: Vec<usize> = (0..problem.sizes.len()).collect();
    let price = |size: usize| problem.kinds[cheapest[size] as usize].price;
    order.sort_by(|a, b| {
        let request = |size: usize| &problem.sizes[size].request;
        price(*b).cmp(&price(*a)).then_with(|| request(*b).cmp(request(*a))).then(a.cmp(b))
    });
    for size in order {
        if !keep_going() {
            return None;
        }
        let mut left = left[size];
        for bin in &mut bins {
            if left == 0 {
                break;
            }
            left -= bin.put(problem, size, left);
        }
        let kind = match opened {
            Opened::Cheapest => cheapest[size],
            Opened::BestAlone => problem.best_alone(size as SizeId).0,
        };
        while left > 0 {
            let mut bin = Bin::empty(problem, kind);
            let count = bin.put(problem, size, left);
            if count == 0 {
                return None;
            }
            left -= count;
            bins.push(bin);
        }
    }
    Some(bins)
}

fn cheapest(problem: &Problem, size: &super::problem::Size) -> KindId {
    let kinds = size.kinds.iter().map(|kind| kind as KindId);
    kinds.min_by_key(|kind| (problem.kinds[*kind as usize].price, *kind)).unwrap_or(0)
}

impl Bin {
    fn empty(problem: &Problem, kind: KindId) -> Self {
        let room = problem.kinds[kind as usize].room.to_vec();
        Self { load: Load { kind, content: Vec::new() }, room, exclusions: Vec::new() }
    }

    fn holding(problem: &Problem, load: &Load) -> Self {
        let mut bin = Self::empty(problem, load.kind);
        for (size, n) in &load.content {
            bin.put(problem, *size as usize, *n);
        }
        bin
    }

    /// Puts up to `want` items here; returns how many.
    fn put(&mut self, problem: &Problem, size: usize, want: u32) -> u32 {
        let data = &problem.sizes[size];
        if !crate::amounts::fits(&data.request, &self.room) || !data.kinds.has(self.load.kind as usize) {
            return 0;
        }
        let used =
            |exclusion: u32| self.exclusions.iter().find(|(e, _)| *e == exclusion).map_or(0, |(_, n)| *n);
        let own =
            || self.load.content.iter().find(|(known, _)| *known as usize == size).map_or(0, |(_, n)| *n);
        let cap = data.cap.saturating_sub(data.exclusion.map_or_else(own, used));
        let count = crate::amounts::times(&data.request, &self.room).min(cap).min(want);
        if count == 0 {
            return 0;
        }
        self.room.iter_mut().zip(&data.request).for_each(|(have, need)| *have -= need * i64::from(count));
        match self.load.content.iter_mut().find(|(known, _)| *known as usize == size) {
            Some((_, n)) => *n += count,
            None => self.load.content.push((size as SizeId, count)),
        }
        if let Some(exclusion) = data.exclusion {
            match self.exclusions.iter_mut().find(|(e, _)| *e == exclusion) {
                Some((_, n)) => *n += count,
                None => self.exclusions.push((exclusion, count)),
            }
        }
        count
    }
}
