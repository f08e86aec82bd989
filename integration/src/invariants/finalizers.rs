//! No finalizer is stuck: what is being deleted is gone in time.

use jiff::Timestamp;

/// Longer than any drain of a test takes, and long enough for the API server to be away meanwhile.
const PATIENCE_SECONDS: i64 = 300;

/// An object that is being deleted, such as `NodeClaim a`, and since when.
pub(super) struct Deleting {
    pub(super) what: String,
    pub(super) since: Timestamp,
}

pub(super) fn problems(all: &[Deleting], now: Timestamp) -> Vec<String> {
    let is_late = |one: &&Deleting| now.duration_since(one.since).as_secs() > PATIENCE_SECONDS;
    all.iter()
        .filter(is_late)
        .map(|one| format!("{} is being deleted since {}", one.what, one.since))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_deleted_for_too_long_is_found() {
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
        let all = [
            Deleting { what: "NodeClaim a".into(), since: at(0) },
            Deleting { what: "NodeClaim b".into(), since: at(200) },
        ];
        assert_eq!(problems(&all, at(310)), ["NodeClaim a is being deleted since 1970-01-01T00:00:00Z"]);
    }
}
