//! Dates from days since 1970-01-01 and back, in the Gregorian calendar extended both ways.
//!
//! Years are counted from March, so that the leap day is the last of the year and months have a closed form.

const DAYS_PER_ERA: i64 = 146_097;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
}

/// 0 is Sunday.
pub(super) fn weekday(days: i64) -> u32 {
    // 1970-01-01 was a Thursday.
    u32::try_from((days + 4).rem_euclid(7)).expect("a remainder of seven is small")
}

pub(super) fn date(days: i64) -> Date {
    // Day 0 of the era that holds 2000 is 0000-03-01.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    let small = |n: i64| u32::try_from(n).expect("months and days are small and positive");
    Date { year, month: small(month), day: small(day) }
}

/// Days since 1970-01-01 of a date.
pub(super) fn days(date: Date) -> i64 {
    let year = date.year - i64::from(date.month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let from_march = (i64::from(date.month) + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + i64::from(date.day) - 1;
    era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The first day of the month after.
pub(super) fn next_month(date: Date) -> Date {
    if date.month == 12 {
        Date { year: date.year + 1, month: 1, day: 1 }
    } else {
        Date { year: date.year, month: date.month + 1, day: 1 }
    }
}
