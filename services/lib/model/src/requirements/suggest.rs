//! The label a user probably meant.

use super::Requirements;
use crate::labels;

/// A well-known label first, then one that is defined in `known`: one of which `key` is a part, or that differs only in
/// its domain. Of several, the one whose name is the same, then the shortest, then the first in the alphabet.
pub(super) fn suggest(
    known: &Requirements,
    key: &str,
    allow_undefined: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let well_known = labels::WELL_KNOWN.into_iter().filter(|label| allow_undefined(label));
    nearest(key, well_known).or_else(|| nearest(key, known.keys())).map(str::to_owned)
}

fn nearest<'a>(key: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .filter(|candidate| !key.is_empty() && (candidate.contains(key) || name(candidate) == name(key)))
        .min_by_key(|candidate| (name(candidate) != name(key), candidate.len(), *candidate))
}

/// What stands after the slash.
fn name(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}
