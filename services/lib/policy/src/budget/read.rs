//! From the text of a budget to what it means.

use model::duration::GoDuration;

use super::{Limit, Nodes, Spec, UNLIMITED, Window};
use crate::cron::Schedule;

pub(super) fn limit(index: usize, spec: &Spec) -> Result<Limit, String> {
    let window = match (&spec.schedule, &spec.duration) {
        (None, None) => None,
        (Some(text), Some(duration)) => Some(window(text, duration)?),
        (Some(_), None) => return Err("it has a schedule and no duration; set both or none".to_owned()),
        (None, Some(_)) => return Err("it has a duration and no schedule; set both or none".to_owned()),
    };
    Ok(Limit { index, nodes: nodes(&spec.nodes)?, reasons: spec.reasons.clone(), window })
}

fn window(text: &str, duration: &GoDuration) -> Result<Window, String> {
    let schedule: Schedule = text.parse().map_err(|error| format!("schedule {error}"))?;
    // Part of a second counts as a whole one: a budget is rather active for too long.
    let seconds = duration.nanos().div_euclid(1_000_000_000)
        + i64::from(duration.nanos().rem_euclid(1_000_000_000) > 0);
    Ok(Window { text: text.to_owned(), schedule, seconds })
}

fn nodes(text: &str) -> Result<Nodes, String> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // More nodes than any pool has: no limit, rather than an overflow.
        plain.then(|| digits.parse::<u32>().map_or(UNLIMITED, |n| n.min(UNLIMITED)))
    };
    let read = match text.strip_suffix('%') {
        Some(digits) => number(digits).map(Nodes::Percent),
        None => number(text).map(Nodes::Count),
    };
    read.ok_or_else(|| format!("nodes {text:?} is neither a number nor a percentage; write \"5\" or \"10%\""))
}
