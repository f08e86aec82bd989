//! Kubernetes resource quantities, exact: an `i128` count of nano-units and the notation the quantity was written in.
//!
//! Parsing, rounding, capping and printing follow `resource.Quantity` of k8s.io/apimachinery; `tests/data/quantities.tsv`
//! holds figures recorded from it. Differences, both outside any figure a cluster can hold: decimal values saturate at
//! 10^29 units where upstream grows without bound, and a value beyond the largest suffix keeps that suffix (`1000E`,
//! where upstream prints a bare and wrong `1`). Printing is always the canonical form; upstream sometimes echoes the
//! input text (`+1`, `1.500`) from a cache.

mod parse;
mod print;
#[cfg(test)]
mod properties;
mod serde_impl;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

pub use parse::ParseError;

pub(crate) const NANO_PER_UNIT: i128 = 1_000_000_000;
const NANO_PER_MILLI: i128 = 1_000_000;

/// Largest magnitude in nano-units: 10^29 units. Sums of two stay within `i128` (1.7 × 10^38) or saturate.
pub(crate) const LIMIT: i128 = 10_i128.pow(38);

/// How a quantity was written, which decides how it is printed. It takes no part in comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `12M`: powers of 1000 with a letter.
    #[default]
    DecimalSi,
    /// `12Mi`: powers of 1024.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// An exact amount of a resource.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    pub(crate) fn from_nano(nano: i128, format: Format) -> Self {
        Self { nano: nano.clamp(-LIMIT, LIMIT), format }
    }

    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        Self { nano: units as i128 * NANO_PER_UNIT, format: Format::DecimalSi }
    }

    #[must_use]
    pub const fn from_milli(milli: i64) -> Self {
        Self { nano: milli as i128 * NANO_PER_MILLI, format: Format::DecimalSi }
    }

    /// Whole units that print with binary suffixes, as memory usually does.
    #[must_use]
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nano: bytes as i128 * NANO_PER_UNIT, format: Format::BinarySi }
    }

    #[must_use]
    pub const fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    #[must_use]
    pub const fn format(self) -> Format {
        self.format
    }

    #[must_use]
    pub const fn nano(self) -> i128 {
        self.nano
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Milli-units, a remainder rounded away from zero (upstream's `MilliValue`); saturates at the ends of `i64`.
    #[must_use]
    pub fn milli_ceil(self) -> i64 {
        saturate(divide_away_from_zero(self.nano, NANO_PER_MILLI))
    }

    /// Milli-units rounded down, towards minus infinity: the cautious reading of a capacity.
    #[must_use]
    pub fn milli_floor(self) -> i64 {
        saturate(self.nano.div_euclid(NANO_PER_MILLI))
    }

    /// Whole units, a remainder rounded away from zero (upstream's `Value`); saturates at the ends of `i64`.
    #[must_use]
    pub fn value_ceil(self) -> i64 {
        saturate(divide_away_from_zero(self.nano, NANO_PER_UNIT))
    }

    /// Whole units rounded down, towards minus infinity.
    #[must_use]
    pub fn value_floor(self) -> i64 {
        saturate(self.nano.div_euclid(NANO_PER_UNIT))
    }

    /// The sum, held within the limits. A zero takes over the other side's notation, as upstream does.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_add(other.nano), self.format_with(other))
    }

    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self::from_nano(self.nano.saturating_sub(other.nano), self.format_with(other))
    }

    #[must_use]
    pub fn saturating_mul(self, factor: i64) -> Self {
        Self::from_nano(self.nano.saturating_mul(i128::from(factor)), self.format)
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

fn divide_away_from_zero(nano: i128, by: i128) -> i128 {
    let whole = nano / by;
    if nano % by == 0 { whole } else { whole + nano.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Saturating, like every operation here: a quantity never wraps and never panics.
impl Add for Quantity {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nano: -self.nano, ..self }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::add)
    }
}
