//! The annotations of a NodePool, read.

use jiff::SignedDuration;
use model::duration::GoDuration;
use model::labels;
use model::price::MicroDollars;

/// What a pool asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub many_for_many: bool,
    pub minimum_saving: Minimum,
    pub cool_down: SignedDuration,
    pub longest_payback: Option<SignedDuration>,
    /// The first annotation that cannot be read.
    pub problem: Option<String>,
}

/// Least saving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    #[default]
    Any,
    /// Of the price of what is removed.
    Percent(u32),
    PerHour(MicroDollars),
}

impl Minimum {
    pub fn of(self, removed: MicroDollars) -> MicroDollars {
        match self {
            Self::Any => MicroDollars::ZERO,
            Self::PerHour(price) => price,
            Self::Percent(percent) => {
                // Rounded up: a minimum is not met by a little less.
                let part = i128::from(removed.get().max(0)) * i128::from(percent);
                let micro = (part + 99) / 100;
                MicroDollars::new(i64::try_from(micro).unwrap_or(i64::MAX))
            }
        }
    }
}

impl Settings {
    /// `annotation`: the value of a NodePool's annotation.
    pub fn read<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let mut settings = Self::default();
        let mut problem = None;
        let mut note = |key: &str, value: &str, wanted: &str| {
            problem.get_or_insert_with(|| {
                format!("annotation {key}: {value:?} of its NodePool cannot be read; write {wanted}")
            });
        };
        match annotation(labels::MANY_FOR_MANY) {
            None | Some("false") => {}
            Some("true") => settings.many_for_many = true,
            Some(other) => note(labels::MANY_FOR_MANY, other, "true or false"),
        }
        if let Some(text) = annotation(labels::MINIMUM_SAVING) {
            match minimum(text) {
                Some(minimum) => settings.minimum_saving = minimum,
                None => {
                    note(labels::MINIMUM_SAVING, text, "a share such as 5%, or dollars an hour such as 0.02")
                }
            }
        }
        if let Some(text) = annotation(labels::COOL_DOWN) {
            match span(text) {
                Some(span) => settings.cool_down = span,
                None => note(labels::COOL_DOWN, text, "a duration such as 10m"),
            }
        }
        if let Some(text) = annotation(labels::LONGEST_PAYBACK) {
            match span(text) {
                Some(span) => settings.longest_payback = Some(span),
                None => note(labels::LONGEST_PAYBACK, text, "a duration such as 4h"),
            }
        }
        settings.problem = problem;
        settings
    }
}

fn minimum(text: &str) -> Option<Minimum> {
    match text.strip_suffix('%') {
        Some(digits) => {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let percent = digits.parse().ok().filter(|percent| *percent <= 100);
            percent.filter(|_| plain).map(Minimum::Percent)
        }
        None => {
            let price: MicroDollars = text.parse().ok()?;
            (price >= MicroDollars::ZERO).then_some(Minimum::PerHour(price))
        }
    }
}

fn span(text: &str) -> Option<SignedDuration> {
    let span: GoDuration = text.parse().ok()?;
    (span.nanos() >= 0).then(|| SignedDuration::from_nanos(span.nanos()))
}
