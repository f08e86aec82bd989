//! Learned memory in a ConfigMap: one entry a type and set of images.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Read;
use crate::memory::Seen;

#[derive(Serialize, Deserialize)]
struct Stored {
    bytes: u64,
    seen: Timestamp,
}

/// `m5.large_<hash>`: neither part has an underscore.
pub(crate) fn memory_key(instance_type: &str, images: &str) -> String {
    format!("{instance_type}_{images}")
}

pub(crate) fn memory_text(seen: Seen) -> String {
    serde_json::to_string(&Stored { bytes: seen.bytes, seen: seen.at }).expect("numbers are always JSON")
}

/// By type and hash of the images.
pub(crate) fn memory_from(data: &BTreeMap<String, String>) -> Read<BTreeMap<(String, String), Seen>> {
    let mut read = Read::<BTreeMap<_, _>>::default();
    for (key, text) in data {
        let entry = key.split_once('_').and_then(|(name, images)| {
            let stored: Stored = serde_json::from_str(text).ok()?;
            let usable = !name.is_empty() && !images.is_empty() && stored.bytes > 0;
            let seen = Seen { bytes: stored.bytes, at: stored.seen };
            usable.then(|| ((name.to_owned(), images.to_owned()), seen))
        });
        match entry {
            Some((key, seen)) => drop(read.found.insert(key, seen)),
            None => read.malformed += 1,
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_as_it_was_and_nonsense_is_left_out() {
        let seen = Seen { bytes: 7_900_000_000, at: "2026-08-01T10:00:00Z".parse().unwrap() };
        let data = BTreeMap::from([
            (memory_key("u-6tb1.56xlarge", "1a2b"), memory_text(seen)),
            ("m5.large".to_owned(), memory_text(seen)),
            ("m5.large_x".to_owned(), "8Gi".to_owned()),
            ("m5.large_y".to_owned(), memory_text(Seen { bytes: 0, ..seen })),
        ]);
        let read = memory_from(&data);
        assert_eq!(read.found, BTreeMap::from([(("u-6tb1.56xlarge".into(), "1a2b".into()), seen)]));
        assert_eq!(read.malformed, 3);
    }
}
