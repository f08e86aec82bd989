//! Drains for people: a line for each node with its progress, and below it what it waits for.

use std::io::{self, Write};

use jiff::Timestamp;

use super::rows::{Drain, Wait};
use crate::age;

/// So many waits are shown of each drain unless all are asked for.
pub(super) const FEW: usize = 5;
const BAR: u32 = 10;
const HEADINGS: [&str; 8] =
    ["NODE", "NODECLAIM", "NODEPOOL", "PHASE", "AGE", "PODS GONE", "FORCED", "REASON"];

/// `most`: of what each drain waits for.
pub(super) fn print(out: &mut dyn Write, drains: &[Drain], most: usize, now: Timestamp) -> io::Result<()> {
    let rows: Vec<[String; 8]> = drains.iter().map(|drain| cells(drain, now)).collect();
    let widths = widths(&rows);
    line(out, &HEADINGS.map(str::to_owned), &widths)?;
    for (drain, row) in drains.iter().zip(&rows) {
        line(out, row, &widths)?;
        waits(out, drain, most, now)?;
    }
    Ok(())
}

/// One drain that changed, where lines cannot be drawn again.
pub(super) fn append(out: &mut dyn Write, drain: &Drain, most: usize, now: Timestamp) -> io::Result<()> {
    let row = cells(drain, now);
    let widths = widths(std::slice::from_ref(&row));
    line(out, &row, &widths)?;
    waits(out, drain, most, now)
}

fn widths(rows: &[[String; 8]]) -> [usize; 8] {
    std::array::from_fn(|column| {
        let own = rows.iter().map(|row| row[column].chars().count());
        own.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    })
}

fn line(out: &mut dyn Write, cells: &[String; 8], widths: &[usize; 8]) -> io::Result<()> {
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    let text = padded.collect::<Vec<_>>().join("  ");
    writeln!(out, "{}", text.trim_end())
}

fn cells(drain: &Drain, now: Timestamp) -> [String; 8] {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [
        or_dash(&drain.node),
        or_dash(&drain.node_claim),
        or_dash(&drain.node_pool),
        drain.phase.word().to_owned(),
        drain.since.map_or_else(|| "-".to_owned(), |at| age::since(at, now)),
        progress(drain.pods_gone, drain.pods_total),
        drain.deadline.map_or_else(|| "never".to_owned(), |at| forced(at, now)),
        or_dash(&drain.reason),
    ]
}

fn forced(at: Timestamp, now: Timestamp) -> String {
    if at <= now { "now".to_owned() } else { format!("in {}", age::until(at, now)) }
}

/// A bar that is full when all are gone.
fn progress(gone: u32, total: u32) -> String {
    if total == 0 {
        return "-".to_owned();
    }
    let gone = gone.min(total);
    let full = (u64::from(gone) * u64::from(BAR) / u64::from(total)) as usize;
    format!("[{}{}] {gone}/{total}", "#".repeat(full), ".".repeat(BAR as usize - full))
}

fn waits(out: &mut dyn Write, drain: &Drain, most: usize, now: Timestamp) -> io::Result<()> {
    for wait in drain.waiting.iter().take(most) {
        writeln!(out, "  {}", sentence(wait, now))?;
    }
    match drain.waiting.len().saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more (--all shows them)"),
    }
}

fn sentence(wait: &Wait, now: Timestamp) -> String {
    let subject = wait.pod.as_deref().map(|pod| format!("{pod}: ")).unwrap_or_default();
    let since = wait.since.map(|at| format!("for {}", age::since(at, now)));
    let forced = wait.forced_at.map(|at| format!("forced {}", forced(at, now)));
    let times: Vec<String> = since.into_iter().chain(forced).collect();
    let times = if times.is_empty() { String::new() } else { format!(" ({})", times.join(", ")) };
    format!("{subject}{}{times}", wait.detail)
}

#[cfg(test)]
mod tests {
    use super::super::rows::Phase;
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn wait(pod: &str, detail: &str) -> Wait {
        Wait {
            pod: (!pod.is_empty()).then(|| pod.to_owned()),
            kind: "pdb".into(),
            detail: detail.into(),
            since: Some(at(-150)),
            forced_at: Some(at(3600)),
        }
    }

    fn drain() -> Drain {
        Drain {
            node: "ip-10-0-1-2".into(),
            node_claim: "default-x7k2p".into(),
            node_pool: "default".into(),
            instance_id: "i-1".into(),
            phase: Phase::Draining,
            since: Some(at(-300)),
            deadline: Some(at(7300)),
            reason: "Drifted".into(),
            pods_gone: 7,
            pods_total: 20,
            waiting: vec![wait("shop/db-0", "PDB shop/db allows 0 disruptions: 1 of 1 healthy")],
        }
    }

    #[test]
    fn a_person_sees_how_far_each_node_is_and_what_it_waits_for() {
        let never = Drain {
            node: String::new(),
            node_claim: "default-9".into(),
            phase: Phase::Terminating,
            deadline: None,
            reason: String::new(),
            pods_gone: 0,
            pods_total: 0,
            waiting: vec![Wait { forced_at: None, since: None, ..wait("", "the instance is shutting down") }],
            ..drain()
        };
        let mut out = Vec::new();
        print(&mut out, &[drain(), never], FEW, at(0)).unwrap();
        let expected = "\
NODE         NODECLAIM      NODEPOOL  PHASE        AGE  PODS GONE          FORCED  REASON
ip-10-0-1-2  default-x7k2p  default   draining     5m   [###.......] 7/20  in 2h   Drifted
  shop/db-0: PDB shop/db allows 0 disruptions: 1 of 1 healthy (for 2m, forced in 60m)
-            default-9      default   terminating  5m   -                  never   -
  the instance is shutting down
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn of_many_waits_a_few_are_shown_and_the_rest_is_counted() {
        let many = Drain { waiting: (0..9).map(|n| wait(&format!("shop/p{n}"), "x")).collect(), ..drain() };
        let mut out = Vec::new();
        append(&mut out, &many, FEW, at(0)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + FEW + 1, "{text}");
        assert!(text.ends_with("  … and 4 more (--all shows them)\n"), "{text}");
    }

    #[test]
    fn a_bar_is_full_only_when_every_pod_is_gone_and_bears_any_figures() {
        assert_eq!(progress(0, 3), "[..........] 0/3");
        assert_eq!(progress(2, 3), "[######....] 2/3");
        assert_eq!(progress(3, 3), "[##########] 3/3");
        assert_eq!(progress(u32::MAX, 3), "[##########] 3/3", "more than there were");
        assert_eq!(forced(at(-5), at(0)), "now");
    }
}
