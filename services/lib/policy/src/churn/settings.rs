//! The annotations of a NodePool, read.

use jiff::{SignedDuration, Timestamp};
use model::duration::GoDuration;
use model::labels;
use model::price::MicroDollars;

/// What moving one pod costs where the pool does not say: a cent.
pub const COST_PER_POD: MicroDollars = MicroDollars::new(10_000);

/// What a pool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub many_for_many: bool,
    pub minimum_saving: Minimum,
    pub cool_down: SignedDuration,
    pub longest_payback: Option<SignedDuration>,
    /// To be earned within an hour for each pod that moves, where nodes are replaced.
    pub cost_per_pod: MicroDollars,
    /// No voluntary disruption before. A time that cannot be read never comes.
    pub paused_until: Option<Timestamp>,
    /// The first annotation that cannot be read.
    pub problem: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            many_for_many: false,
            minimum_saving: Minimum::Any,
            cool_down: SignedDuration::ZERO,
            longest_payback: None,
            cost_per_pod: COST_PER_POD,
            paused_until: None,
            problem: None,
        }
    }
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
    /// Until when the pool is paused; `None` when it is not.
    pub fn paused(&self, now: Timestamp) -> Option<Timestamp> {
        self.paused_until.filter(|until| now < *until)
    }

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
        if let Some(text) = annotation(labels::COST_PER_POD) {
            match text.parse::<MicroDollars>().ok().filter(|price| *price >= MicroDollars::ZERO) {
                Some(price) => settings.cost_per_pod = price,
                None => note(labels::COST_PER_POD, text, "dollars such as 0.01, or 0 for none"),
            }
        }
        if let Some(text) = annotation(labels::PAUSED_UNTIL) {
            settings.paused_until = Some(text.parse().unwrap_or(Timestamp::MAX));
            if settings.paused_until == Some(Timestamp::MAX) {
                note(labels::PAUSED_UNTIL, text, "a time such as 2026-11-18T08:00:00Z");
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
