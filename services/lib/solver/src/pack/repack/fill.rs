//! Filling one node by value: the heuristic that finds good columns, and builds packings.

use smallvec::SmallVec;

use super::problem::{KindId, Problem, SizeId};

/// Fills a node of the kind with what is left, taking again and again the size with the most value for the share of the
/// remaining room that it needs. `left` is not changed. Returns the value; the content is in the scratch.
pub(crate) fn fill(
    problem: &Problem,
    kind: KindId,
    left: &[u32],
    value: &[f64],
    scratch: &mut Scratch,
) -> f64 {
    scratch.start(&problem.kinds[kind as usize].room);
    extend(problem, kind, left, value, scratch)
}

/// Goes on filling what is in the scratch. Returns the value that was added.
pub(crate) fn extend(
    problem: &Problem,
    kind: KindId,
    left: &[u32],
    value: &[f64],
    scratch: &mut Scratch,
) -> f64 {
    scratch.open.clear();
    for &size in &problem.accepts[kind as usize] {
        if left[size as usize] > 0 && value[size as usize] > 0.0 {
            scratch.open.push(size);
        }
    }
    let mut total = 0.0;
    loop {
        let mut best: Option<(f64, usize)> = None;
        let mut index = 0;
        while index < scratch.open.len() {
            let size = scratch.open[index];
            let request = problem.request(size);
            let mut share = 0.0;
            let mut fits = true;
            for ((want, room), scale) in request.iter().zip(&scratch.room_left).zip(&scratch.scale) {
                fits &= want <= room;
                share += want * scale;
            }
            if !fits {
                scratch.open.swap_remove(index);
                continue;
            }
            let density = value[size as usize] / share;
            if best.is_none_or(|(d, i)| density > d || (density == d && size < scratch.open[i])) {
                best = Some((density, index));
            }
            index += 1;
        }
        let Some((_, index)) = best else { break };
        let size = scratch.open[index];
        let most = scratch.most(problem, size, left[size as usize]);
        if most == 0 {
            scratch.open.swap_remove(index);
            continue;
        }
        // A part at a time: as room of one resource goes, another size becomes the better one.
        let take = most.div_ceil(3);
        total += value[size as usize] * f64::from(take);
        scratch.take(problem, size, take);
        if take == most {
            scratch.open.swap_remove(index);
        }
    }
    total
}

/// Working space of a fill; holds its result.
#[derive(Default)]
pub(crate) struct Scratch {
    room: SmallVec<[i64; 4]>,
    whole: SmallVec<[i64; 4]>,
    /// One over the room that is left, so that a resource that runs out becomes dear.
    scale: SmallVec<[f64; 4]>,
    /// `room` once more, as a floating-point number: only to pass over what surely does not fit.
    room_left: SmallVec<[f64; 4]>,
    open: Vec<SizeId>,
    pub(crate) content: Vec<(SizeId, u32)>,
    exclusions: SmallVec<[(u32, u32); 4]>,
}

impl Scratch {
    pub(crate) fn start(&mut self, room: &[i64]) {
        self.room = SmallVec::from_slice(room);
        self.whole = SmallVec::from_slice(room);
        self.content.clear();
        self.exclusions.clear();
        self.rescale();
    }

    fn rescale(&mut self) {
        self.scale.clear();
        self.room_left.clear();
        for (left, whole) in self.room.iter().zip(&self.whole) {
            self.scale.push(1.0 / ((*left).max(1) as f64 + 0.02 * *whole as f64));
            self.room_left.push(*left as f64);
        }
    }

    pub(crate) fn most(&self, problem: &Problem, size: SizeId, left: u32) -> u32 {
        let data = &problem.sizes[size as usize];
        let have = self.content.iter().find(|(s, _)| *s == size).map_or(0, |(_, n)| *n);
        let mut most = left.saturating_sub(have).min(data.cap.saturating_sub(have));
        if let Some(exclusion) = data.exclusion {
            let used = self.exclusions.iter().find(|(e, _)| *e == exclusion).map_or(0, |(_, n)| *n);
            most = most.min(data.cap.saturating_sub(used));
        }
        if most == 0 {
            return 0;
        }
        for (want, have) in data.request.iter().zip(&self.room) {
            if *want > 0 {
                most = most.min(u32::try_from(*have / *want).unwrap_or(u32::MAX));
            }
        }
        most
    }

    pub(crate) fn take(&mut self, problem: &Problem, size: SizeId, count: u32) {
        let data = &problem.sizes[size as usize];
        for (room, want) in self.room.iter_mut().zip(&data.request) {
            *room -= want * i64::from(count);
        }
        match self.content.iter_mut().find(|(s, _)| *s == size) {
            Some((_, n)) => *n += count,
            None => self.content.push((size, count)),
        }
        if let Some(exclusion) = data.exclusion {
            match self.exclusions.iter_mut().find(|(e, _)| *e == exclusion) {
                Some((_, n)) => *n += count,
                None => self.exclusions.push((exclusion, count)),
            }
        }
        self.rescale();
    }
}
