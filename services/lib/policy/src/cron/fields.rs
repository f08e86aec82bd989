//! The five fields as sets of numbers, and the search for the next time that is in all of them.

use super::calendar::{date, days, next_month, weekday};

const MINUTES_PER_DAY: i64 = 24 * 60;
/// As far as a hit is looked for, in calendar years after the year one asks about.
const YEARS: i64 = 5;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Bit n of a set stands for the number n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Neither day field has a star: a day that is in one of them is enough.
    either_day: bool,
}

/// What a field may hold.
struct Bounds {
    field: &'static str,
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds { field: "minute", least: 0, most: 59, names: &[] };
const HOUR: Bounds = Bounds { field: "hour", least: 0, most: 23, names: &[] };
const DAY: Bounds = Bounds { field: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Bounds = Bounds { field: "month", least: 1, most: 12, names: &MONTHS };
const WEEKDAY: Bounds = Bounds { field: "day of week", least: 0, most: 6, names: &WEEKDAYS };

struct Set {
    bits: u64,
    /// Some part was a star without a step above one.
    star: bool,
}

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return Err(format!("it has {} fields where five are needed", parts.len()));
        };
        let (day, weekday) = (DAY.set(day)?, WEEKDAY.set(weekday)?);
        Ok(Self {
            minutes: MINUTE.set(minute)?.bits,
            hours: HOUR.set(hour)?.bits,
            days: day.bits,
            months: MONTH.set(month)?.bits,
            weekdays: weekday.bits,
            either_day: !day.star && !weekday.star,
        })
    }

    /// The first whole minute strictly after, all numbers read in one and the same zone.
    pub(super) fn next_after(&self, seconds: i64) -> Option<i64> {
        let first = seconds.div_euclid(60) + 1;
        let last_year = date((seconds + 1).div_euclid(86_400)).year + YEARS;
        let mut day = first.div_euclid(MINUTES_PER_DAY);
        let mut from = first.rem_euclid(MINUTES_PER_DAY);
        loop {
            let today = date(day);
            if today.year > last_year {
                return None;
            }
            if !has(self.months, today.month) {
                day = days(next_month(today));
                from = 0;
                continue;
            }
            if self.is_day(day, today.day)
                && let Some(minute) = self.minute_from(from)
            {
                return Some((day * MINUTES_PER_DAY + minute) * 60);
            }
            day += 1;
            from = 0;
        }
    }

    fn is_day(&self, day: i64, of_month: u32) -> bool {
        let (a, b) = (has(self.days, of_month), has(self.weekdays, weekday(day)));
        if self.either_day { a || b } else { a && b }
    }

    /// The first minute of a day that is not before `from`.
    fn minute_from(&self, from: i64) -> Option<i64> {
        let first = u32::try_from(from).ok()?;
        for hour in (first / 60..24).filter(|hour| has(self.hours, *hour)) {
            let least = if hour == first / 60 { first % 60 } else { 0 };
            if let Some(minute) = (least..60).find(|minute| has(self.minutes, *minute)) {
                return Some(i64::from(hour * 60 + minute));
            }
        }
        None
    }
}

fn has(set: u64, number: u32) -> bool {
    set >> number & 1 == 1
}

impl Bounds {
    /// Comma separated parts; empty ones are skipped.
    fn set(&self, text: &str) -> Result<Set, String> {
        let mut set = Set { bits: 0, star: false };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let one = self.part(part).map_err(|why| format!("{part:?} in field {}: {why}", self.field))?;
            set.bits |= one.bits;
            set.star |= one.star;
        }
        Ok(set)
    }

    /// `*`, `n`, `n-m`, each with an optional `/step`. What follows a star and a hyphen is not looked at.
    fn part(&self, text: &str) -> Result<Set, String> {
        let pieces: Vec<&str> = text.split('/').collect();
        let (range, step) = match pieces.as_slice() {
            [range] => (*range, None),
            [range, step] => (*range, Some(*step)),
            _ => return Err("it has more than one slash".to_owned()),
        };
        let ends: Vec<&str> = range.split('-').collect();
        let mut star = matches!(ends[0], "*" | "?");
        let (start, mut end) = match ends.as_slice() {
            _ if star => (self.least, self.most),
            [one] => (self.number(one)?, self.number(one)?),
            [low, high] => (self.number(low)?, self.number(high)?),
            _ => return Err("it has more than one hyphen".to_owned()),
        };
        let step = step.map(plain_number).transpose()?;
        if step.is_some() && ends.len() == 1 {
            end = self.most;
        }
        let step = step.unwrap_or(1);
        star &= step <= 1;
        if start < self.least {
            return Err(format!("{start} is below {}", self.least));
        }
        if end > self.most {
            return Err(format!("{end} is above {}", self.most));
        }
        if start > end {
            return Err(format!("{start} is after {end}"));
        }
        if step == 0 {
            return Err("a step of 0 never arrives".to_owned());
        }
        let stride = usize::try_from(step).unwrap_or(usize::MAX);
        let bits = (start..=end).step_by(stride).fold(0, |bits, n| bits | 1 << n);
        Ok(Set { bits, star })
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        match self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            Some(at) => Ok(u64::try_from(at).unwrap_or(u64::MAX).saturating_add(self.least)),
            None => plain_number(text),
        }
    }
}

/// Digits, with a plus before them if one likes.
fn plain_number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = all_digits.then(|| digits.parse::<i64>().ok()).flatten();
    number.map(i64::unsigned_abs).ok_or_else(|| format!("{text:?} is no number or name"))
}
