//! Names of claims: `<nodepool>-<five characters>`, as the API server would generate them. Made here, so that a create whose
//! answer was lost can be sent again without making a second claim.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Without vowels and look-alikes, as Kubernetes has them.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// Room for the prefix within a label's 63 characters.
const LONGEST_PREFIX: usize = 58;

/// A fresh name every time.
pub(super) fn random(pool: &str) -> String {
    // Seeded from the system's randomness anew for every value.
    with(pool, RandomState::new().build_hasher().finish())
}

/// The same name for the same command and place in it, whichever replica asks.
pub(super) fn fixed(pool: &str, command: &str, index: usize) -> String {
    // FNV-1a: short, and the same in every build.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in command.bytes().chain([0]).chain(index.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    with(pool, hash)
}

/// The id of a batch of claims, unlike any other that there was or will be; it says how many they are.
pub(super) fn batch(claims: usize) -> String {
    let mut id = String::new();
    for _ in 0..2 {
        push(&mut id, RandomState::new().build_hasher().finish(), 2 * SUFFIX);
    }
    format!("{id}-{claims}")
}

fn with(pool: &str, random: u64) -> String {
    let mut name: String = format!("{pool}-").chars().take(LONGEST_PREFIX).collect();
    push(&mut name, random, SUFFIX);
    name
}

fn push(name: &mut String, mut random: u64, count: usize) {
    for _ in 0..count {
        let at = usize::try_from(random % ALPHABET.len() as u64).unwrap_or(0);
        name.push(char::from(ALPHABET[at]));
        random /= ALPHABET.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_label_and_differ() {
        let long = "p".repeat(100);
        assert_eq!(random(&long).len(), 63);
        let some: std::collections::BTreeSet<String> = (0..50).map(|_| random("general")).collect();
        assert!(
            some.len() > 45 && some.iter().all(|n| n.starts_with("general-") && n.len() == 13),
            "{some:?}"
        );
    }

    #[test]
    fn a_batch_id_fits_a_client_token_with_its_number() {
        let id = batch(100);
        assert_eq!(id.len(), 24);
        assert!(id.ends_with("-100") && id != batch(100));
    }

    #[test]
    fn a_command_always_asks_for_the_same_names() {
        assert_eq!(fixed("general", "c1", 0), fixed("general", "c1", 0));
        assert_ne!(fixed("general", "c1", 0), fixed("general", "c1", 1));
        assert_ne!(fixed("general", "c1", 0), fixed("general", "c2", 0));
    }
}
