use super::*;

const HOUR: i64 = 3600;

fn at(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_second()
}

fn schedule(text: &str) -> Schedule {
    text.parse().unwrap()
}

/// Rows: quoted text, then either `error`, or an instant and the hit after it.
// Cases: BEV-18
#[test]
fn texts_and_hits_are_those_of_the_reference_parser() {
    let mut rows = 0;
    for line in include_str!("recorded.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = columns[0].trim_matches('"').replace("\\t", "\t");
        let read = text.parse::<Schedule>();
        // Time zones are our extension; the reference refuses these texts.
        if text.contains("TZ=") {
            assert!(read.is_ok(), "{text}");
            continue;
        }
        rows += 1;
        match columns[1] {
            "error" => assert!(read.is_err(), "{text:?} must be refused"),
            asked => {
                let read = read.unwrap_or_else(|error| panic!("{error}"));
                let hit = (columns[2] != "never").then(|| columns[2].parse().unwrap());
                assert_eq!(read.next_after(asked.parse().unwrap()), hit, "{text:?} after {asked}");
            }
        }
    }
    assert!(rows > 350, "only {rows} rows were read");
}

// Cases: BEV-18
#[test]
fn errors_name_the_field_and_what_is_wrong_with_it() {
    let error = "0 25 * * *".parse::<Schedule>().unwrap_err().to_string();
    for part in ["\"0 25 * * *\"", "hour", "25 is above 23", "@daily"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = "0 9 * *".parse::<Schedule>().unwrap_err().to_string();
    assert!(error.contains("4 fields"), "{error}");
}

// Cases: BEV-13, BEV-14, BEV-15, BEV-17
#[test]
fn a_window_is_open_at_the_hit_and_shut_at_its_end() {
    let noon = schedule("0 12 * * *");
    let hit = at("2026-11-16T12:00:00Z");
    for (now, open) in [(hit - 1, false), (hit, true), (hit + HOUR - 1, true), (hit + HOUR, false)] {
        assert_eq!(active(&noon, HOUR, now), open, "{} s from the hit", now - hit);
    }
    assert_eq!(ends(&noon, HOUR, hit + 5), Some(hit + HOUR));
    assert_eq!(ends(&noon, HOUR, hit - 1), None);
}

// Cases: BEV-16
#[test]
fn a_window_longer_than_the_recurrence_is_always_open() {
    let hourly = schedule("@hourly");
    let start = at("2026-11-16T00:00:00Z");
    for minute in 0..180 {
        assert!(active(&hourly, 2 * HOUR, start + minute * 60));
    }
    assert_eq!(ends(&hourly, 2 * HOUR, start), None);
    assert_eq!(ends(&hourly, HOUR, start), None, "the next window opens as this one shuts");
}

#[test]
fn a_schedule_that_never_hits_is_always_active() {
    for text in ["0 0 30 2 *", ", * * * *"] {
        assert!(active(&schedule(text), HOUR, at("2026-11-16T07:31:20Z")), "{text}");
    }
}

#[test]
fn a_zone_shifts_the_hits_with_the_season() {
    let berlin = schedule("TZ=Europe/Berlin 0 9 * * mon-fri");
    assert_eq!(berlin.zone(), "Europe/Berlin");
    assert_eq!(berlin.next_after(at("2026-07-01T00:00:00Z")), Some(at("2026-07-01T07:00:00Z")));
    assert_eq!(berlin.next_after(at("2026-12-01T00:00:00Z")), Some(at("2026-12-01T08:00:00Z")));
    assert_eq!(schedule("CRON_TZ=UTC @daily"), schedule("@daily"));
    let error = "TZ=Mars/Olympus 0 9 * * *".parse::<Schedule>().unwrap_err().to_string();
    assert!(error.contains("Mars/Olympus"), "{error}");
}

#[test]
fn a_skipped_hour_still_opens_the_window_and_a_repeated_one_opens_it_twice() {
    let night = schedule("TZ=America/New_York 30 2 * * *");
    // Clocks went from 2:00 EST to 3:00 EDT on 8 March 2026.
    assert_eq!(night.next_after(at("2026-03-08T00:00:00Z")), Some(at("2026-03-08T07:30:00Z")));
    assert_eq!(night.next_after(at("2026-03-08T07:30:00Z")), Some(at("2026-03-09T06:30:00Z")));
    // They went back from 2:00 EDT to 1:00 EST on 1 November 2026.
    let twice = schedule("TZ=America/New_York 30 1 * * *");
    let first = at("2026-11-01T05:30:00Z");
    assert_eq!(twice.next_after(at("2026-11-01T00:00:00Z")), Some(first));
    assert_eq!(twice.next_after(first), Some(first + HOUR));
    assert_eq!(twice.next_after(first + HOUR), Some(at("2026-11-02T06:30:00Z")));
}

#[test]
fn hits_in_a_zone_come_in_order_through_changes_of_the_clock() {
    for text in ["TZ=America/New_York */20 * * * *", "TZ=Australia/Lord_Howe 15,45 1-3 * * *"] {
        let schedule = schedule(text);
        let changes = [
            ("2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z"),
            ("2026-04-03T00:00:00Z", "2026-04-07T00:00:00Z"),
            ("2026-10-02T00:00:00Z", "2026-10-06T00:00:00Z"),
            ("2026-10-31T00:00:00Z", "2026-11-03T00:00:00Z"),
        ];
        let mut longest = 0;
        for (from, to) in changes {
            let (mut now, end) = (at(from), at(to));
            while now < end {
                let next = schedule.next_after(now).unwrap();
                assert!(next > now, "{text}: {next} after {now}");
                longest = longest.max(next - now);
                now = next;
            }
        }
        assert!(longest <= 24 * HOUR, "{text}: {longest} s without a hit");
    }
}

#[test]
fn dates_and_days_are_inverse_over_four_centuries() {
    let mut expected = calendar::Date { year: 1800, month: 1, day: 1 };
    for day in calendar::days(expected)..calendar::days(calendar::Date { year: 2201, month: 1, day: 1 }) {
        let date = calendar::date(day);
        assert_eq!(calendar::days(date), day);
        let is_next = date == expected;
        assert!(is_next, "{date:?} where {expected:?} was due");
        let tomorrow = calendar::date(day + 1);
        expected = if tomorrow.day == 1 { calendar::next_month(date) } else { tomorrow };
    }
    assert_eq!(calendar::weekday(calendar::days(calendar::Date { year: 2026, month: 11, day: 16 })), 1);
}
