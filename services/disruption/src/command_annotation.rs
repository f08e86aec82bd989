//! What is written on a NodeClaim that is to be removed, so that any later leader knows the command it belongs to from the
//! objects alone. A replacement carries only the command's id under the same key; a note is JSON, an id never is.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandAnnotation {
    pub(crate) id: String,
    /// As `policy::Method` writes it.
    pub(crate) method: String,
    /// NodeClaims that the command removes.
    pub(crate) removes: u32,
    /// NodeClaims that must be initialised before any is removed.
    pub(crate) needs: u32,
    /// RFC 3339.
    pub(crate) proposed: String,
    /// Micro-dollars per hour.
    #[serde(default)]
    pub(crate) saves: i64,
    /// Pods that move.
    #[serde(default)]
    pub(crate) pods: u32,
    /// Seconds until the move has paid for itself.
    #[serde(default)]
    pub(crate) payback: i64,
}

impl CommandAnnotation {
    pub(crate) fn read(text: &str) -> Option<Self> {
        if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
    }

    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("a struct of plain fields has a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_an_id_is_none() {
        let note = CommandAnnotation {
            id: "6afab9e2-aed4b361-1".into(),
            method: "multi".into(),
            removes: 3,
            needs: 1,
            proposed: "2026-01-01T00:00:00Z".into(),
            saves: 120_000,
            pods: 17,
            payback: 420,
        };
        assert_eq!(CommandAnnotation::read(&note.write()), Some(note.clone()));
        assert_eq!(CommandAnnotation::read(&note.id), None, "a replacement's mark");
        assert_eq!(
            CommandAnnotation::read("{\"id\":\"x\"}"),
            None,
            "without the numbers nothing can be gone on with"
        );
    }
}
