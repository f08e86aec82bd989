//! Where objects came from, and how to find a field of theirs again.

use api::convert::{FieldPath, Step};

use super::InputError;
use super::document::documents;
use super::locate::line_of;

/// Files read so far. Their text is not kept (a cluster's dump may be large): it is read again when there is an error to
/// report, save for standard input.
#[derive(Debug, Default)]
pub struct Sources {
    files: Vec<(String, Option<String>)>,
}

/// Place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub(super) source: u32,
    /// Line of the document's start, from 1.
    pub(super) line: u32,
    /// Index in a `List`.
    pub(super) item: Option<u32>,
}

impl Sources {
    pub(super) fn add(&mut self, name: &str, text: Option<String>) -> u32 {
        self.files.push((name.to_owned(), text));
        u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
    }

    pub fn name(&self, origin: Origin) -> &str {
        self.files.get(origin.source as usize).map_or("", |(name, _)| name)
    }

    /// An error at a field of an object; its line is searched in the text.
    pub fn error(&self, origin: Origin, object: &str, path: &FieldPath, problem: &str) -> InputError {
        InputError {
            file: self.name(origin).to_owned(),
            line: self.line(origin, path),
            object: object.to_owned(),
            field: path.to_string(),
            problem: problem.to_owned(),
        }
    }

    /// What a conversion complained of.
    pub fn conversion_error(&self, origin: Origin, error: &api::convert::Error) -> InputError {
        self.error(origin, &error.object, &error.path, &error.problem)
    }

    fn line(&self, origin: Origin, path: &FieldPath) -> usize {
        let start = origin.line as usize;
        let Some((name, kept)) = self.files.get(origin.source as usize) else { return start };
        let text = kept.clone().or_else(|| std::fs::read_to_string(name).ok()).unwrap_or_default();
        let Some(document) = documents(&text).find(|d| d.first_line == start) else { return start };
        let mut steps: Vec<Step> = Vec::new();
        if let Some(item) = origin.item {
            steps.push(Step::Key("items".to_owned()));
            steps.push(Step::Index(item as usize));
        }
        steps.extend(path.0.iter().cloned());
        start + line_of(document.text, &steps) - 1
    }
}
