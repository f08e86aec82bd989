//! How fast the machine is just now, so that times of different machines and loads can be compared.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// Runs, of which the median counts.
const RUNS: usize = 7;
const NUMBERS: u64 = 400_000;

/// Seconds of a fixed piece of work that resembles ours: ordered maps, sorting and integer arithmetic on one core.
pub fn calibrate() -> f64 {
    let mut seconds: Vec<f64> = (0..RUNS).map(|_| timed()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}

fn timed() -> f64 {
    let began = Instant::now();
    black_box(work(black_box(NUMBERS)));
    began.elapsed().as_secs_f64()
}

fn work(count: u64) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all: Vec<u64> = (0..count).map(|_| next()).collect();
    for number in &all {
        let sum = sums.entry(number % 10_007).or_default();
        *sum = sum.wrapping_add(*number);
    }
    all.sort_unstable();
    sums.values().zip(&all).fold(0, |total, (sum, number)| total.rotate_left(5) ^ sum ^ number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_always_the_same() {
        assert_eq!(work(1_000), work(1_000));
        assert_ne!(work(1_000), work(1_001));
    }
}
