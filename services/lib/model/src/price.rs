//! Prices as whole millionths of a dollar per hour, so that costs add up and compare exactly.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const DECIMALS: usize = 6;
const MICRO_PER_DOLLAR: i64 = 1_000_000;

/// Micro-dollars per hour. Arithmetic saturates: a price never wraps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroDollars(i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("{0:?} is no price: write dollars per hour as a decimal number, such as 0.0416")]
    Shape(String),
    #[error("{0:?} dollars per hour is larger than any price")]
    TooLarge(String),
}

impl MicroDollars {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    #[must_use]
    pub const fn new(micro_dollars: i64) -> Self {
        Self(micro_dollars)
    }

    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Rounds once, half away from zero. `None` when the number is not finite or beyond `i64`.
    #[must_use]
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let micro = (dollars * MICRO_PER_DOLLAR as f64).round();
        // 2^63 is exact in f64; anything below converts without loss of range.
        let limit = -(i64::MIN as f64);
        (micro.is_finite() && micro >= -limit && micro < limit).then_some(Self(micro as i64))
    }

    /// Dollars, for figures shown to people and metrics; never for comparison.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / MICRO_PER_DOLLAR as f64
    }

    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    #[must_use]
    pub const fn saturating_mul(self, count: i64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Decimal text, exact to the micro-dollar; further digits are rounded half away from zero.
impl FromStr for MicroDollars {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let shape = || PriceError::Shape(text.to_owned());
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(shape());
        }
        let kept = fraction.bytes().chain(std::iter::repeat(b'0')).take(DECIMALS);
        let rounds_up = fraction.as_bytes().get(DECIMALS).is_some_and(|b| *b >= b'5');
        let magnitude = whole
            .bytes()
            .chain(kept)
            .try_fold(0_i64, |value, digit| value.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
            .and_then(|value| value.checked_add(i64::from(rounds_up)))
            .ok_or_else(|| PriceError::TooLarge(text.to_owned()))?;
        Ok(Self(if negative { -magnitude } else { magnitude }))
    }
}

/// Dollars with as many of six decimals as are needed.
impl fmt::Display for MicroDollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let unit = MICRO_PER_DOLLAR.unsigned_abs();
        let (dollars, micro) = (magnitude / unit, magnitude % unit);
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = format!("{sign}{dollars}.{micro:06}");
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Add for MicroDollars {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sub for MicroDollars {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Neg for MicroDollars {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for MicroDollars {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for MicroDollars {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for MicroDollars {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Self::add)
    }
}

impl<'a> Sum<&'a Self> for MicroDollars {
    fn sum<I: Iterator<Item = &'a Self>>(prices: I) -> Self {
        prices.copied().sum()
    }
}
