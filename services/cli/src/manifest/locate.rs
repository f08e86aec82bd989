//! The line at which a field stands in a document. Only for error messages: the text is parsed again for it.

use std::fmt;

use api::convert::Step;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::document::yaml_options;

/// Line within the document, from 1, of the field or, where it is not there, of the nearest field around it.
pub(super) fn line_of(text: &str, path: &[Step]) -> usize {
    for length in (1..=path.len()).rev() {
        let found =
            serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |deserializer| {
                Find(&path[..length]).deserialize(deserializer)
            });
        if let Ok(Some(line)) = found {
            return line.max(1);
        }
    }
    // The first line that says something.
    let blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    text.lines().take_while(|line| blank(line)).count() + 1
}

/// Follows a path and yields the line of its end.
struct Find<'a>(&'a [Step]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => {
                let spanned = <Spanned<IgnoredAny> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(usize::try_from(spanned.referenced.line()).ok().filter(|line| *line > 0))
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0 {
                [Step::Key(wanted), rest @ ..] if *wanted == key => {
                    found = map.next_value_seed(Find(rest))?
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let mut index = 0;
        loop {
            match self.0 {
                [Step::Index(wanted), rest @ ..] if *wanted == index => {
                    match seq.next_element_seed(Find(rest))? {
                        Some(line) => found = line,
                        None => return Ok(found),
                    }
                }
                _ => {
                    if seq.next_element::<IgnoredAny>()?.is_none() {
                        return Ok(found);
                    }
                }
            }
            index += 1;
        }
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
