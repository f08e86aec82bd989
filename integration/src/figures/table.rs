//! The one table at the end of `make bench`: bar, measured, ratio, and the ratio to the committed baseline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Better, Figure};

/// A change that a second run on the same machine does not explain.
const NOTABLE: f64 = 1.25;

/// A whole run of `make bench`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Seconds of the calibration loop beside which the figures were measured.
    pub calibration: f64,
    /// Commit, date and machine.
    pub of: BTreeMap<String, String>,
    /// By program.
    pub figures: BTreeMap<String, Vec<Figure>>,
}

impl Measurement {
    fn find(&self, program: &str, what: &str) -> Option<&Figure> {
        self.figures.get(program)?.iter().find(|figure| figure.what == what)
    }

    /// How many times as much `now` takes than it did here. Times count in units of each side's calibration loop.
    fn ratio(&self, program: &str, now: &Figure, calibration: f64) -> Option<f64> {
        let then = self.find(program, &now.what)?;
        if then.unit != now.unit || then.measured <= 0.0 || now.measured <= 0.0 {
            return None;
        }
        let speed = if now.is_time() { self.calibration / calibration } else { 1.0 };
        Some(match now.better {
            Better::Lower => now.measured / then.measured * speed,
            Better::Higher => then.measured / now.measured * speed,
        })
    }
}

/// Every figure beside its bar and beside the baseline, where there is one.
pub fn table(now: &Measurement, baseline: Option<&Measurement>) -> String {
    let mut text =
        format!("{:<64} {:>12} {:>12} {:>7} {:>9}\n", "what", "bar", "measured", "ratio", "baseline");
    for (program, figures) in &now.figures {
        let _ = writeln!(text, "{program}");
        for figure in figures {
            let against = baseline.and_then(|then| then.ratio(program, figure, now.calibration));
            let against = against.map_or_else(missing, |ratio| {
                format!("{ratio:.2}{}", if ratio > NOTABLE { " !" } else { "" })
            });
            let _ = writeln!(text, "{} {against:>9}{}", line(figure), noted(figure));
        }
    }
    text
}

/// One figure beside its bar.
pub(super) fn line(figure: &Figure) -> String {
    let amount = |value: f64| format!("{} {}", short(value), figure.unit);
    let bar = figure.bar.map_or_else(missing, amount);
    let ratio = figure
        .ratio()
        .map_or_else(missing, |ratio| format!("{ratio:.2}{}", if figure.is_met() { "" } else { " !" }));
    format!("  {:<62} {bar:>12} {:>12} {ratio:>7}", figure.what, amount(figure.measured))
}

fn missing() -> String {
    "-".to_owned()
}

fn noted(figure: &Figure) -> String {
    if figure.note.is_empty() { String::new() } else { format!("  {}", figure.note) }
}

/// Three significant digits, and all digits of what is larger.
fn short(value: f64) -> String {
    let digits = if value <= 0.0 { 0 } else { (2 - value.log10().floor() as i32).clamp(0, 6) };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(calibration: f64, figures: Vec<Figure>) -> Measurement {
        let figures = BTreeMap::from([("bench".to_owned(), figures)]);
        Measurement { calibration, figures, ..Measurement::default() }
    }

    fn row<'a>(text: &'a str, what: &str) -> &'a str {
        text.lines().find(|line| line.contains(what)).expect("the row")
    }

    #[test]
    fn a_missed_bar_is_marked_in_both_directions() {
        let slow = Figure::new("start", 1500.0, "ms").at_most(1000.0);
        let few = Figure::new("messages", 500.0, "/s").at_least(1000.0);
        let good = Figure::new("memory", 20.0, "MB").at_most(25.0);
        assert!(!slow.is_met() && !few.is_met() && good.is_met());
        let text = table(&measurement(1.0, vec![slow, few, good]), None);
        assert!(row(&text, "start").contains("1.50 !"), "{text}");
        assert!(row(&text, "messages").contains("2.00 !"), "{text}");
        assert!(row(&text, "memory").contains("0.80"), "{text}");
    }

    #[test]
    fn times_are_compared_in_units_of_the_calibration_loop_and_memory_as_it_is() {
        let of = |ms: f64, mb: f64| vec![Figure::new("start", ms, "ms"), Figure::new("memory", mb, "MB")];
        let baseline = measurement(0.1, of(100.0, 20.0));
        // Half as fast a machine: twice the time is no regression, twice the memory is one.
        let text = table(&measurement(0.2, of(200.0, 40.0)), Some(&baseline));
        assert!(row(&text, "start").ends_with("1.00"), "{text}");
        assert!(row(&text, "memory").ends_with("2.00 !"), "{text}");
        let slower = table(&measurement(0.1, of(150.0, 20.0)), Some(&baseline));
        assert!(row(&slower, "start").ends_with("1.50 !"), "{slower}");
    }

    #[test]
    fn what_the_baseline_does_not_have_is_not_compared() {
        let now = measurement(1.0, vec![Figure::new("new", 1.0, "s")]);
        assert!(row(&table(&now, Some(&measurement(1.0, Vec::new()))), "new").ends_with('-'));
    }
}
