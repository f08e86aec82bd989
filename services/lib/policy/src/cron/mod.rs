//! Cron schedules as the reference reads them: five fields or a macro, in UTC; plus, as an extension, a time zone before
//! them (`TZ=Europe/Berlin 0 9 * * mon-fri`), which the reference refuses.
//!
//! ```text
//! text ── parse ──> Schedule { fields or fixed period, zone } ── next_after ──> hits ── window ──> active, until when
//! ```
//! Instants are unix seconds. Accepted and refused texts, and the hits, are those recorded from the reference's parser
//! (`recorded.tsv`), oddities included: `5/15` is `5-59/15`, `?` is `*`, day of month and day of week are alternatives
//! unless one of them is a star, `7` is no Sunday, an empty list (`,`) never hits. A schedule without a hit within five
//! years counts as *always* active there and here, which is the cautious side: an active budget only ever forbids more.
//!
//! In a named zone an hour that is skipped in spring is taken as if the clock had not jumped, and a time that comes twice in
//! autumn hits twice. Zone data is compiled in; no file is read.

mod calendar;
mod fields;
mod window;
mod zone;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use model::duration::GoDuration;

use fields::Fields;
use zone::Zone;

pub use window::{active, ends};

/// When something starts again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    rule: Rule,
    zone: Zone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Fields(Fields),
    /// `@every`: so many seconds after whenever one asks. Refused by the API's schema, accepted by the parser.
    Every(i64),
}

/// A text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    pub text: String,
    pub reason: String,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no schedule: {}; write five fields such as \"0 9 * * mon-fri\", or @daily",
            self.text, self.reason
        )
    }
}

impl std::error::Error for CronError {}

impl FromStr for Schedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        parse(text).map_err(|reason| CronError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Schedule, String> {
    let trimmed = text.trim();
    let named = trimmed.strip_prefix("CRON_TZ=").or_else(|| trimmed.strip_prefix("TZ="));
    let (zone, rest) = match named {
        None => (Zone::Utc, trimmed),
        Some(named) => {
            let (name, rest) = named.split_once(char::is_whitespace).unwrap_or((named, ""));
            (Zone::named(name)?, rest.trim())
        }
    };
    let rule = match rest.strip_prefix('@') {
        Some(_) => macro_rule(rest)?,
        None => Rule::Fields(Fields::parse(rest)?),
    };
    Ok(Schedule { rule, zone })
}

fn macro_rule(text: &str) -> Result<Rule, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => {
            let period = other.strip_prefix("@every ").ok_or_else(|| format!("there is no macro {other}"))?;
            let period: GoDuration = period.parse().map_err(|error| format!("{error}"))?;
            return Ok(Rule::Every(period.secs().max(1)));
        }
    };
    Fields::parse(fields).map(Rule::Fields)
}

impl Schedule {
    /// The first hit strictly after this second; `None` when there is none within five years.
    pub fn next_after(&self, seconds: i64) -> Option<i64> {
        match &self.rule {
            Rule::Every(period) => Some(seconds.saturating_add(*period)),
            Rule::Fields(fields) => match &self.zone {
                Zone::Utc => fields.next_after(seconds),
                zone => zone.next_after(fields, seconds),
            },
        }
    }

    /// Name of the zone the fields are read in.
    pub fn zone(&self) -> &str {
        self.zone.name()
    }
}
