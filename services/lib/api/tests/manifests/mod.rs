//! Reads the manifests beside this file: what the API server must accept and what it must reject. Standard library only, so
//! that any test crate can include it by path.
//!
//! `valid/*.yaml`: documents to create, or to replace when one of that name exists, in the order of the file.
//!
//! `invalid/*.yaml`: the first line is `# rejected: <part of the API server's message>`. A second line `# update-of: …` says that
//! the first document must be accepted and the second, as its replacement, must not; `# status-of: …` says the same of a
//! replacement of the status subresource. Without either the only document must be rejected when created.

use std::fs;
use std::path::{Path, PathBuf};

/// How the last document of a rejected manifest is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Created.
    Create,
    /// Replaces the first document.
    Update,
    /// Replaces the first document's status.
    UpdateStatus,
}

/// A file of `invalid/`.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    /// Name of the file.
    pub(crate) name: String,
    /// What the API server's message must contain.
    pub(crate) expected: String,
    /// How the last document is sent.
    pub(crate) attempt: Attempt,
    /// One document, or two.
    pub(crate) documents: Vec<String>,
}

/// A file of `valid/`.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    /// Name of the file.
    pub(crate) name: String,
    /// The documents in order.
    pub(crate) documents: Vec<String>,
}

/// All manifests that must be accepted. `root` is this file's directory.
pub(crate) fn accepted(root: &Path) -> Vec<Accepted> {
    files(&root.join("valid"))
        .into_iter()
        .map(|(name, text)| Accepted { name, documents: documents(&text) })
        .collect()
}

/// All manifests that must be rejected. `root` is this file's directory.
pub(crate) fn rejected(root: &Path) -> Vec<Rejected> {
    files(&root.join("invalid"))
        .into_iter()
        .map(|(name, text)| {
            let mut lines = text.lines();
            let expected = lines
                .next()
                .and_then(|line| line.strip_prefix("# rejected: "))
                .unwrap_or_else(|| panic!("{name} must begin with '# rejected: '"))
                .to_owned();
            let attempt = match lines.next() {
                Some(line) if line.starts_with("# update-of: ") => Attempt::Update,
                Some(line) if line.starts_with("# status-of: ") => Attempt::UpdateStatus,
                _ => Attempt::Create,
            };
            let documents = documents(&text);
            let wanted = if attempt == Attempt::Create { 1 } else { 2 };
            assert_eq!(documents.len(), wanted, "{name} must have {wanted} documents");
            Rejected { name, expected, attempt, documents }
        })
        .collect()
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("read {}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {name}: {error}"));
            (name, text)
        })
        .collect()
}

fn documents(text: &str) -> Vec<String> {
    text.split("\n---\n").map(str::to_owned).collect()
}
