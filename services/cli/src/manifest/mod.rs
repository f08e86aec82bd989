//! Reading of Kubernetes manifests: YAML and JSON, many documents a file, many files a directory, `kind: List`, standard
//! input. What comes out is typed and remembers where it stood, so that an error found later still names file and line.
//!
//! Only reading. Defaults that a cluster would fill in are [`crate::cluster`]'s.

mod defaults;
mod document;
mod error;
mod locate;
mod objects;
mod sources;
mod stream;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use error::InputError;
pub use objects::{Named, Objects};
pub use sources::{Origin, Sources};

use std::path::Path;

use serde_json::Value;

use stream::Failure;

/// Everything that the paths hold. `-` is standard input. Kinds that are not understood are passed to `ignored`, one
/// line each.
pub fn read(paths: &[String], ignored: &mut dyn FnMut(String)) -> Result<(Objects, Sources), InputError> {
    let mut objects = Objects::default();
    let sources =
        read_each(paths, &mut |value, origin, sources| add(&mut objects, value, origin, sources, ignored))?;
    Ok((objects, sources))
}

fn add(
    objects: &mut Objects,
    value: Value,
    origin: Origin,
    sources: &Sources,
    ignored: &mut dyn FnMut(String),
) -> Result<(), Failure> {
    objects.add(defaults::filled_in(value), origin, &mut |kind| {
        ignored(format!("{}:{}: {kind} ignored", sources.name(origin), origin.line));
    })
}

/// The same objects as they stand in the text, for a service that reads them itself.
pub fn read_values(paths: &[String]) -> Result<Vec<Value>, InputError> {
    let mut values = Vec::new();
    read_each(paths, &mut |value, _, _| {
        values.push(value);
        Ok(())
    })?;
    Ok(values)
}

type EachObject<'a> = dyn FnMut(Value, Origin, &Sources) -> Result<(), Failure> + 'a;

fn read_each(paths: &[String], each: &mut EachObject<'_>) -> Result<Sources, InputError> {
    let mut sources = Sources::default();
    for path in paths {
        if path == "-" {
            let text = std::io::read_to_string(std::io::stdin())
                .map_err(|error| InputError::of_file("standard input", error))?;
            let source = sources.add("(standard input)", Some(text.clone()));
            document::read_text(&text, source, &sources, &mut |value, origin| each(value, origin, &sources))?;
            continue;
        }
        for file in files_of(path)? {
            let text = std::fs::read_to_string(&file).map_err(|error| InputError::of_file(&file, error))?;
            let source = sources.add(&file, None);
            document::read_text(&text, source, &sources, &mut |value, origin| each(value, origin, &sources))?;
        }
    }
    Ok(sources)
}

/// A file as it is; of a directory everything that is YAML or JSON, at any depth, in order of the names.
fn files_of(path: &str) -> Result<Vec<String>, InputError> {
    let about = std::fs::metadata(path).map_err(|error| InputError::of_file(path, error))?;
    if !about.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut open = vec![Path::new(path).to_owned()];
    while let Some(directory) = open.pop() {
        let shown = directory.display().to_string();
        let entries = std::fs::read_dir(&directory).map_err(|error| InputError::of_file(&shown, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| InputError::of_file(&shown, error))?;
            let file = entry.path();
            let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if file.is_dir() {
                open.push(file);
            } else if matches!(extension, "yaml" | "yml" | "json") {
                found.push(file.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}
