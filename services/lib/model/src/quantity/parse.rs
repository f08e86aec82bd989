//! Text to quantity. Digits are handled as text, so that no length of input loses a digit before rounding.

use std::str::FromStr;

use super::{Format, LIMIT, NANO_PER_UNIT, Quantity};

/// Why a text is no quantity. The three cases are those of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("a quantity is a number and an optional suffix, such as 500m, 2, 1.5Gi or 1e3")]
    Shape,
    #[error("the number of this quantity has no digits")]
    Number,
    #[error("unknown quantity suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e with an exponent")]
    Suffix,
}

/// Decimal places of a nano-unit.
const NANO_DIGITS: i64 = 9;
/// Largest value written with a binary suffix: upstream holds these within `int64`.
const BINARY_LIMIT: i128 = i64::MAX as i128 * NANO_PER_UNIT;

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Shape);
        }
        let number = Number::scan(text)?;
        let (magnitude, format) = match Suffix::read(number.suffix)? {
            Suffix::Decimal { exponent, format } => {
                // Without a digit upstream still reads zero ("m" is 0), as long as it need not look below nano.
                if number.is_bare() && exponent < -NANO_DIGITS {
                    return Err(ParseError::Number);
                }
                (number.decimal_nano(exponent), format)
            }
            Suffix::Binary { shift } => {
                if number.is_bare() && shift >= 50 {
                    return Err(ParseError::Number);
                }
                number.binary_nano(shift)
            }
        };
        let nano = if number.negative { -magnitude } else { magnitude };
        Ok(Self::from_nano(nano, format))
    }
}

/// The pieces of a written quantity; `whole` has no leading zeros.
struct Number<'a> {
    negative: bool,
    had_digits: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Number<'a> {
    fn scan(text: &'a str) -> Result<Self, ParseError> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", rest),
        };
        let after_letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseError::Shape);
        }
        Ok(Self {
            negative,
            had_digits: !digits.is_empty() || !fraction.is_empty(),
            whole: digits.trim_start_matches('0'),
            fraction,
            suffix,
        })
    }

    fn is_bare(&self) -> bool {
        !self.had_digits
    }

    /// All digits times 10^exponent, in nano-units, rounded up: who asks for some of a resource gets some.
    fn decimal_nano(&self, exponent: i64) -> i128 {
        let digits = [self.whole, self.fraction].concat();
        let significant = digits.trim_start_matches('0');
        if significant.is_empty() {
            return 0;
        }
        let shift = exponent - self.fraction.len() as i64 + NANO_DIGITS;
        let kept = significant.len() as i64 + shift;
        if kept <= 0 {
            return 1;
        }
        if kept > 39 {
            return LIMIT;
        }
        let kept = kept as usize;
        let (head, tail) = significant.split_at(kept.min(significant.len()));
        let padding = kept - head.len();
        // At most 39 digits: a 39th can pass i128, in which case the limit is passed too.
        let value = head
            .bytes()
            .chain(std::iter::repeat_n(b'0', padding))
            .try_fold(0_i128, push_digit)
            .unwrap_or(LIMIT);
        value.saturating_add(i128::from(has_remainder(tail))).min(LIMIT)
    }

    /// All digits times 2^shift, in nano-units, rounded up and capped; below one unit the notation turns decimal.
    fn binary_nano(&self, shift: u32) -> (i128, Format) {
        // The fraction times 2^shift, digit by digit from the right: what is carried out is whole units.
        let mut carry = 0_u128;
        let mut places = self.fraction.as_bytes().to_vec();
        for place in places.iter_mut().rev() {
            carry += u128::from(*place - b'0') << shift;
            *place = b'0' + (carry % 10) as u8;
            carry /= 10;
        }
        let below = places.len().min(NANO_DIGITS as usize);
        let nano = places[..below]
            .iter()
            .copied()
            .chain(std::iter::repeat_n(b'0', NANO_DIGITS as usize - below))
            .try_fold(0_i128, push_digit)
            .unwrap_or(0);
        let rounded = places[below..].iter().any(|&b| b != b'0');

        let whole = self
            .whole
            .bytes()
            .try_fold(0_i128, push_digit)
            .and_then(|units| units.checked_mul(1 << shift))
            .and_then(|units| units.checked_add(carry as i128))
            .and_then(|units| units.checked_mul(NANO_PER_UNIT))
            .and_then(|units| units.checked_add(nano + i128::from(rounded)))
            .map_or(BINARY_LIMIT, |value| value.min(BINARY_LIMIT));
        let format = if whole > 0 && whole < NANO_PER_UNIT { Format::DecimalSi } else { Format::BinarySi };
        (whole, format)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

fn push_digit(value: i128, digit: u8) -> Option<i128> {
    value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
}

fn has_remainder(digits: &str) -> bool {
    digits.bytes().any(|b| b != b'0')
}

enum Suffix {
    Decimal { exponent: i64, format: Format },
    Binary { shift: u32 },
}

impl Suffix {
    fn read(text: &str) -> Result<Self, ParseError> {
        let si = |exponent| Self::Decimal { exponent, format: Format::DecimalSi };
        Ok(match text {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Self::Binary { shift: 10 },
            "Mi" => Self::Binary { shift: 20 },
            "Gi" => Self::Binary { shift: 30 },
            "Ti" => Self::Binary { shift: 40 },
            "Pi" => Self::Binary { shift: 50 },
            "Ei" => Self::Binary { shift: 60 },
            _ => {
                let exponent = text.strip_prefix(['e', 'E']).ok_or(ParseError::Suffix)?;
                let exponent: i64 = exponent.parse().map_err(|_| ParseError::Suffix)?;
                Self::Decimal {
                    // Upstream keeps the low 32 bits only.
                    exponent: i64::from(exponent as i32),
                    format: Format::DecimalExponent,
                }
            }
        })
    }
}
