//! Prices for people.

use std::io::{self, Write};

use jiff::Timestamp;

use crate::age;

use super::rows::{Answer, Row, Source};

const HEADINGS: [&str; 6] = ["TYPE", "ZONE", "CAPACITY", "$/HOUR", "SAVES", "AVAILABLE"];

pub(super) fn print(out: &mut dyn Write, answer: &Answer, now: Timestamp) -> io::Result<()> {
    writeln!(out, "on-demand prices {}", told(&answer.on_demand_source, now))?;
    writeln!(out, "spot prices      {}\n", told(&answer.spot_source, now))?;
    if answer.prices.is_empty() {
        return Ok(());
    }
    let rows: Vec<[String; 6]> = answer.prices.iter().map(|row| cells(row, now)).collect();
    let width = |column: usize| {
        let own = rows.iter().map(|row| row[column].len());
        own.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    line(out, &HEADINGS.map(str::to_owned), &widths)?;
    rows.iter().try_for_each(|row| line(out, row, &widths))
}

fn line(out: &mut dyn Write, cells: &[String; 6], widths: &[usize; 6]) -> io::Result<()> {
    let [name, zone, kind, price, saves, available] = cells;
    let [a, b, c, d, e, _] = widths;
    writeln!(out, "{name:a$}  {zone:b$}  {kind:c$}  {price:>d$}  {saves:>e$}  {available}")
}

fn cells(row: &Row, now: Timestamp) -> [String; 6] {
    let available = match (row.available, row.unavailable_since, row.reservation_left) {
        (true, _, Some(left)) => format!("{left} left in {}", row.reservation_id),
        (true, _, None) => "yes".to_owned(),
        (false, Some(since), _) => format!("no, since {} ({})", since.strftime("%H:%M:%S"), ago(since, now)),
        (false, None, Some(_)) => format!("no, {} is used up", row.reservation_id),
        (false, None, None) => "no, a zonal shift is active".to_owned(),
    };
    [
        row.instance_type.clone(),
        row.zone.clone(),
        row.capacity_type.to_owned(),
        if row.reservation_left.is_some() {
            "paid".to_owned()
        } else {
            format!("{:.4}", row.price_per_hour.to_f64())
        },
        row.discount_percent.map(|percent| format!("{percent}%")).unwrap_or_default(),
        available,
    ]
}

fn told(source: &Source, now: Timestamp) -> String {
    let age = source.as_of.map(|at| format!(", read {}", ago(at, now))).unwrap_or_default();
    let from = match source.kind.as_str() {
        "api" => "from AWS".to_owned(),
        "configmap" => "as remembered from an earlier run".to_owned(),
        "built-in" => "estimated from the built-in table".to_owned(),
        "none" => "not known".to_owned(),
        other => other.to_owned(),
    };
    let failing = match (&source.last_error, source.failing_since) {
        (Some(error), Some(since)) => format!("; reading fails since {}: {error}", ago(since, now)),
        _ => String::new(),
    };
    format!("{from}{age}{failing}")
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", age::since(at, now))
}

#[cfg(test)]
mod tests {
    use model::price::MicroDollars;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn row(capacity_type: &'static str) -> Row {
        Row {
            instance_type: "m5.large".into(),
            zone: "us-west-2a".into(),
            zone_id: "usw2-az2".into(),
            capacity_type,
            price_per_hour: MicroDollars::new(96_000),
            discount_percent: None,
            available: true,
            unavailable_since: None,
            reservation_id: String::new(),
            reservation_left: None,
        }
    }

    #[test]
    fn a_person_sees_prices_savings_what_is_gone_since_when_and_where_figures_come_from() {
        let spot = Row {
            price_per_hour: MicroDollars::new(29_781),
            discount_percent: Some(68),
            available: false,
            unavailable_since: Some(at(-90)),
            ..row("spot")
        };
        let failing = Source {
            kind: "configmap".into(),
            as_of: Some(at(-8000)),
            last_error: Some("GetProducts: AccessDenied".into()),
            failing_since: Some(at(-300)),
        };
        let answer = Answer {
            on_demand_source: failing,
            spot_source: Source { kind: "api".into(), as_of: Some(at(-60)), ..Source::default() },
            prices: vec![row("on-demand"), spot],
        };
        let mut out = Vec::new();
        print(&mut out, &answer, at(0)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "\
on-demand prices as remembered from an earlier run, read 2h ago; reading fails since 5m ago: GetProducts: AccessDenied
spot prices      from AWS, read 60s ago

TYPE      ZONE        CAPACITY   $/HOUR  SAVES  AVAILABLE
m5.large  us-west-2a  on-demand  0.0960         yes
m5.large  us-west-2a  spot       0.0298    68%  no, since 14:11:50 (90s ago)
";
        let clock = at(-90).strftime("%H:%M:%S").to_string();
        assert_eq!(text, expected.replace("14:11:50", &clock));
    }
}
