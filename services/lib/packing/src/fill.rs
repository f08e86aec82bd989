//! Filling one bin by value: the heuristic that finds good columns, and builds packings.

use smallvec::SmallVec;

use super::problem::{KindId, Problem, SizeId};
use super::tuning::{Tuning, numeric::ROOMY};

/// Fills a bin of the kind with what is left, taking again and again the size with the most value for the share of the
/// remaining room that it needs. `left` is not changed. Returns the value; the content is in the scratch.
pub(crate) fn fill(
    problem: &Problem,
    kind: KindId,
    left: &[u32],
    value: &[f64],
    scratch: &mut Scratch,
) -> f64 {
    scratch.start(problem, kind);
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
    let tuning = &problem.tuning;
    scratch.open.gather(problem, kind, left, value);
    let mut total = 0.0;
    while let Some(index) = scratch.open.densest(&scratch.room_left, &scratch.scale, tuning) {
        let size = scratch.open.sizes[index];
        let most = scratch.most(problem, size, left[size as usize]);
        if most == 0 {
            scratch.open.close(index);
            continue;
        }
        // A part at a time: as room of one resource goes, another size becomes the better one.
        let take = most.div_ceil(tuning.take_one_in);
        total += value[size as usize] * f64::from(take);
        scratch.take(problem, size, take);
        if take == most {
            scratch.open.close(index);
        }
    }
    total
}

/// Sizes that may still be taken, as columns of numbers: the search for the best one is what a fill spends its time on. Single
/// precision is enough to choose by; what really fits is asked in integers.
#[derive(Default)]
struct Open {
    /// In ascending order, so that of equals the first is taken.
    sizes: Vec<SizeId>,
    /// Zero once the size does not fit any more.
    values: Vec<f32>,
    /// `dims × sizes`.
    requests: Vec<f32>,
    /// Value for the share of the room, as of the last look.
    densities: Vec<f32>,
    looks: usize,
    /// Working space.
    kept: Vec<usize>,
}

/// Rounding must not make a request larger than the room that it just fits into.
fn roomy(room: f64) -> f32 {
    room as f32 * (1.0 + ROOMY)
}

impl Open {
    fn gather(&mut self, problem: &Problem, kind: KindId, left: &[u32], value: &[f64]) {
        self.looks = 0;
        self.sizes.clear();
        self.values.clear();
        for &size in &problem.accepts[kind as usize] {
            if left[size as usize] > 0 && value[size as usize] > 0.0 {
                self.sizes.push(size);
                self.values.push(value[size as usize] as f32);
            }
        }
        self.requests.clear();
        for dim in 0..problem.dims() {
            let column = problem.column(dim);
            self.requests.extend(self.sizes.iter().map(|size| column[*size as usize]));
        }
    }

    fn close(&mut self, index: usize) {
        self.values[index] = 0.0;
    }

    /// The size with the most value for its share of the room that is left.
    fn densest(&mut self, room: &[f64], scale: &[f64], tuning: &Tuning) -> Option<usize> {
        self.looks += 1;
        if self.looks.is_multiple_of(tuning.looks_before_compacting) {
            self.compact();
        }
        let len = self.sizes.len();
        self.densities.resize(len, 0.0);
        match (room, scale) {
            (&[r0, r1, r2], &[s0, s1, s2]) => {
                let (room, scale) = ([r0, r1, r2].map(roomy), [s0, s1, s2].map(|scale| scale as f32));
                weigh_three(&mut self.values, &mut self.densities, &self.requests, room, scale);
            }
            _ => weigh(&mut self.values, &mut self.densities, &self.requests, room, scale),
        }
        let most = greatest(&self.densities);
        if most > 0.0 { self.densities.iter().position(|density| *density == most) } else { None }
    }

    /// Forgets sizes that do not fit any more.
    fn compact(&mut self) {
        let len = self.sizes.len();
        self.kept.clear();
        self.kept.extend((0..len).filter(|i| self.values[*i] > 0.0));
        if self.kept.len() == len {
            return;
        }
        let dims = self.requests.len() / len;
        for (to, from) in self.kept.iter().enumerate() {
            self.sizes[to] = self.sizes[*from];
            self.values[to] = self.values[*from];
        }
        let count = self.kept.len();
        for dim in 0..dims {
            for (to, from) in self.kept.iter().enumerate() {
                self.requests[dim * count + to] = self.requests[dim * len + from];
            }
        }
        self.sizes.truncate(count);
        self.values.truncate(count);
        self.requests.truncate(count * dims);
    }
}

/// Values of what does not fit become zero; densities are values for shares of the room.
fn weigh(values: &mut [f32], densities: &mut [f32], requests: &[f32], room: &[f64], scale: &[f64]) {
    densities.fill(0.0);
    for ((column, room), scale) in requests.chunks_exact(values.len().max(1)).zip(room).zip(scale) {
        let (room, scale) = (roomy(*room), *scale as f32);
        for ((value, share), want) in values.iter_mut().zip(densities.iter_mut()).zip(column) {
            *value = if *want <= room { *value } else { 0.0 };
            *share += *want * scale;
        }
    }
    for (share, value) in densities.iter_mut().zip(values.iter()) {
        *share = *value / *share;
    }
}

/// As [`weigh`] with the three resources that every item has, in one go.
fn weigh_three(values: &mut [f32], densities: &mut [f32], requests: &[f32], room: [f32; 3], scale: [f32; 3]) {
    let (first, rest) = requests.split_at(values.len());
    let (second, third) = rest.split_at(values.len());
    let wants = first.iter().zip(second).zip(third);
    for ((value, density), ((a, b), c)) in values.iter_mut().zip(densities).zip(wants) {
        let fits = (*a <= room[0]) & (*b <= room[1]) & (*c <= room[2]);
        *value = if fits { *value } else { 0.0 };
        *density = *value / (a * scale[0] + b * scale[1] + c * scale[2]);
    }
}

/// In lanes, as the processor likes it.
fn greatest(densities: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut lanes = [0.0_f32; LANES];
    let (chunks, rest) = densities.as_chunks::<LANES>();
    for chunk in chunks {
        for (most, density) in lanes.iter_mut().zip(chunk) {
            *most = if *density > *most { *density } else { *most };
        }
    }
    lanes.iter().chain(rest).fold(0.0, |most, density| if *density > most { *density } else { most })
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
    /// See [`Tuning::last_room`].
    last_room: f64,
    open: Open,
    pub(crate) content: Vec<(SizeId, u32)>,
    exclusions: SmallVec<[(u32, u32); 4]>,
}

impl Scratch {
    pub(crate) fn start(&mut self, problem: &Problem, kind: KindId) {
        let room = &problem.kinds[kind as usize].room;
        self.last_room = problem.tuning.last_room;
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
            self.scale.push(1.0 / ((*left).max(1) as f64 + self.last_room * *whole as f64));
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
