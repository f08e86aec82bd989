//! Durations of the API: Go's grammar (`1h30m`, `-1.5s`), with the original text kept so that what a user wrote is
//! written back unchanged, and `Never`.
//!
//! Which units a field accepts (often only s, m and h) is its schema's business, not this module's.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANO_PER_SECOND: i64 = 1_000_000_000;
const NANO_PER_HOUR: i64 = 3600 * NANO_PER_SECOND;
const NANO_PER_MINUTE: i64 = 60 * NANO_PER_SECOND;
/// Magnitude of the least duration, one more than that of the greatest.
const MAGNITUDE_LIMIT: u64 = 1 << 63;

/// A signed span in nanoseconds and the text it was read from. Compares by length of time only.
#[derive(Debug, Clone)]
pub struct GoDuration {
    nanos: i64,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no duration: {reason}; write for example 90s, 1h30m or 720h")]
pub struct DurationError {
    pub text: String,
    pub reason: &'static str,
}

impl GoDuration {
    /// Text becomes what Go prints: `1h0m0s`.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Self { nanos, text: go_text(nanos) }
    }

    #[must_use]
    pub fn from_secs(seconds: i64) -> Self {
        Self::from_nanos(seconds.saturating_mul(NANO_PER_SECOND))
    }

    #[must_use]
    pub const fn nanos(&self) -> i64 {
        self.nanos
    }

    /// Whole seconds, towards zero.
    #[must_use]
    pub const fn secs(&self) -> i64 {
        self.nanos / NANO_PER_SECOND
    }

    /// As a span of the standard library; a negative duration is zero there.
    #[must_use]
    pub fn to_std(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }

    /// The original text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text Go prints for this span, which enters events and hashes of the reference.
    #[must_use]
    pub fn canonical(&self) -> String {
        go_text(self.nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let nanos = parse(text).map_err(|reason| DurationError { text: text.to_owned(), reason })?;
        Ok(Self { nanos, text: text.to_owned() })
    }
}

fn parse(text: &str) -> Result<i64, &'static str> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (part, after) = one_part(rest)?;
        total = total.checked_add(part).filter(|t| *t <= MAGNITUDE_LIMIT).ok_or(TOO_LONG)?;
        rest = after;
    }
    match (negative, total) {
        (true, MAGNITUDE_LIMIT) => Ok(i64::MIN),
        (true, _) => Ok(-(total as i64)),
        (false, _) => i64::try_from(total).map_err(|_| TOO_LONG),
    }
}

const TOO_LONG: &str = "it is longer than 292 years";

/// One number with its unit, in nanoseconds, and what follows it.
fn one_part(text: &str) -> Result<(u64, &str), &'static str> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err("a number is missing");
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = nanos_of(unit)?;
    let mut nanos = 0_u64;
    for digit in whole.bytes() {
        nanos = nanos
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(digit - b'0')))
            .filter(|n| *n <= MAGNITUDE_LIMIT)
            .ok_or(TOO_LONG)?;
    }
    let nanos = nanos.checked_mul(unit).filter(|n| *n <= MAGNITUDE_LIMIT).ok_or(TOO_LONG)?;
    let nanos = nanos + fraction_nanos(fraction, unit);
    if nanos > MAGNITUDE_LIMIT {
        return Err(TOO_LONG);
    }
    Ok((nanos, rest))
}

/// Go takes fractions through a float, which decides the last nanosecond of long ones; so do we. Digits that no longer
/// fit 63 bits are dropped.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next.filter(|v| *v <= MAGNITUDE_LIMIT) {
            Some(next) => value = next,
            None => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn nanos_of(unit: &str) -> Result<u64, &'static str> {
    Ok(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANO_PER_SECOND as u64,
        "m" => NANO_PER_MINUTE as u64,
        "h" => NANO_PER_HOUR as u64,
        "" => return Err("a unit is missing (ns, us, ms, s, m, h)"),
        _ => return Err("a unit is unknown (ns, us, ms, s, m, h exist)"),
    })
}

/// `72h3m0.5s`; below a second the largest unit that leaves a number of at least one: `1.5ms`.
fn go_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    let second = NANO_PER_SECOND as u64;
    if magnitude == 0 {
        return "0s".to_owned();
    }
    if magnitude < second {
        let (unit, name) = match magnitude {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "\u{b5}s"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(magnitude, unit));
    }
    let (minutes, below) = (magnitude / (60 * second), magnitude % (60 * second));
    let seconds = decimal(below, second);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / unit` with no more decimals than it has. `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    if value.is_multiple_of(unit) {
        return (value / unit).to_string();
    }
    let text = format!("{}.{:0width$}", value / unit, value % unit);
    text.trim_end_matches('0').to_owned()
}

impl PartialEq for GoDuration {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for GoDuration {}

impl Hash for GoDuration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Ord for GoDuration {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for GoDuration {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A duration that may be switched off. Unset is written as `Never`, hence the default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum NillableDuration {
    #[default]
    Never,
    After(GoDuration),
}

const NEVER: &str = "Never";

impl NillableDuration {
    #[must_use]
    pub const fn get(&self) -> Option<&GoDuration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }
}

impl FromStr for NillableDuration {
    type Err = DurationError;
    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text == NEVER {
            return Ok(Self::Never);
        }
        text.parse().map(Self::After)
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.get().map_or(NEVER, GoDuration::as_str))
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
