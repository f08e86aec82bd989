//! Text to documents to objects.

use serde::de::DeserializeSeed;

use super::InputError;
use super::sources::{Origin, Sources};
use super::stream::{Failure, TopLevel};

/// Takes each object of a text, and where it stood.
pub(super) type Sink<'a> = dyn FnMut(serde_json::Value, Origin) -> Result<(), Failure> + 'a;

/// One document of a file.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// From 1.
    pub(super) first_line: usize,
}

/// Splits at lines of `---`. A JSON text is one document.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Document<'_>> {
    let mut rest = Some((text, 1));
    std::iter::from_fn(move || {
        let (text, first_line) = rest?;
        let mut offset = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let bare = line.trim_end_matches(['\n', '\r']);
            if bare == "---" || bare.starts_with("--- ") || bare.starts_with("---\t") {
                let document = Document { text: &text[..offset], first_line };
                rest = Some((&text[offset + line.len()..], first_line + index + 1));
                return Some(document);
            }
            offset += line.len();
        }
        rest = None;
        Some(Document { text, first_line })
    })
}

/// Limits that keep a hostile document from exhausting memory, yet let the dump of a large cluster through.
pub(super) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 400_000_000,
            max_nodes: 200_000_000,
            max_total_scalar_bytes: 4 << 30,
            max_documents: 1_000_000,
        },
        with_snippet: false,
        // `n` and `on` are names as good as any.
        strict_booleans: true,
    }
}

pub(super) fn read_text(
    text: &str,
    source: u32,
    sources: &Sources,
    sink: &mut Sink<'_>,
) -> Result<(), InputError> {
    for document in documents(text) {
        if document.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        let line = u32::try_from(document.first_line).unwrap_or(u32::MAX);
        let origin = Origin { source, line, item: None };
        read_document(&document, origin, sources, sink)?;
    }
    Ok(())
}

fn read_document(
    document: &Document<'_>,
    origin: Origin,
    sources: &Sources,
    sink: &mut Sink<'_>,
) -> Result<(), InputError> {
    let mut sink = |item: Option<u32>, value: serde_json::Value| sink(value, Origin { item, ..origin });
    let syntax = |line: usize, problem: String| InputError {
        line: origin.line as usize + line.max(1) - 1,
        ..InputError::of_file(sources.name(origin), problem)
    };
    // JSON proper is much quicker to read than YAML; what merely looks like it falls back to YAML.
    let looks_like_json = document.text.trim_start().starts_with(['{', '[']);
    if looks_like_json {
        let mut failure = None;
        let mut json = serde_json::Deserializer::from_str(document.text);
        let read = TopLevel { sink: &mut sink, failure: &mut failure }.deserialize(&mut json);
        let ended = read.and_then(|()| json.end());
        if let Some(failure) = failure {
            return Err(located(failure, origin, sources));
        }
        match ended {
            Ok(()) => return Ok(()),
            Err(error) if is_json_file(sources.name(origin)) => {
                return Err(syntax(error.line(), without_position(&error.to_string())));
            }
            Err(_) => {}
        }
    }
    let mut failure = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(document.text, yaml_options(), |yaml| {
        TopLevel { sink: &mut sink, failure: &mut failure }.deserialize(yaml)
    });
    if let Some(failure) = failure {
        return Err(located(failure, origin, sources));
    }
    read.map_err(|error| {
        let line = error.location().and_then(|l| usize::try_from(l.line()).ok()).unwrap_or(1);
        let text = error.without_snippet().to_string();
        syntax(line, without_position(&text))
    })
}

fn is_json_file(name: &str) -> bool {
    name.ends_with(".json")
}

fn located(failure: Failure, origin: Origin, sources: &Sources) -> InputError {
    let at = Origin { item: failure.item, ..origin };
    sources.error(at, &failure.object, &failure.path, &failure.problem)
}

/// Both parsers append "at line …", which counts from the document's start; the message has the file's line already.
fn without_position(text: &str) -> String {
    let cut = text.find(" at line ").unwrap_or(text.len());
    text[..cut].trim_end_matches([':', ' ']).to_owned()
}
