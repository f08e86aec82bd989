//! Quantity to its canonical text: no fraction, the largest suffix that leaves none.

use std::fmt;

use super::{Format, NANO_PER_UNIT, Quantity};

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.canonical())
    }
}

impl Quantity {
    fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        match self.format {
            Format::BinarySi if self.shows_as_binary() => {
                let (units, power) = reduce(self.nano / NANO_PER_UNIT, 1024, BINARY.len() - 1);
                format!("{units}{}", BINARY[power])
            }
            Format::BinarySi | Format::DecimalSi => {
                let (units, power) = reduce(self.nano, 1000, DECIMAL.len() - 1);
                format!("{units}{}", DECIMAL[power])
            }
            Format::DecimalExponent => {
                let (units, power) = reduce(self.nano, 1000, usize::MAX);
                match power as i64 * 3 - 9 {
                    0 => units.to_string(),
                    exponent => format!("{units}e{exponent}"),
                }
            }
        }
    }

    /// Small or fractional amounts would lose digits in binary notation, so they are shown as decimals.
    fn shows_as_binary(self) -> bool {
        self.nano % NANO_PER_UNIT == 0 && self.nano.abs() >= 1024 * NANO_PER_UNIT
    }
}

/// Divides by `base` as often as it goes without a remainder, at most `most` times. `value` is not zero.
fn reduce(mut value: i128, base: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while power < most && value % base == 0 {
        value /= base;
        power += 1;
    }
    (value, power)
}
