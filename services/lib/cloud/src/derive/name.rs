//! What an instance type's name tells: `m7g.large` is category `m`, generation `7`, family `m7g`, size `large`.

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// Both or none of category and generation are known.
    pub category: Option<&'a str>,
    pub generation: Option<&'a str>,
    pub family: Option<&'a str>,
    pub size: Option<&'a str>,
    pub flex: bool,
}

/// Category: the leading letters. Generation: the number that follows them, with a memory size such as `-6tb` between.
pub fn parts(name: &str) -> NameParts<'_> {
    let (family, size) = match name.split_once('.') {
        Some((family, size)) if !size.contains('.') => (Some(family), Some(size)),
        _ => (None, None),
    };
    let (category, generation) = match name.rsplit_once('.') {
        Some((before_dot, _)) => category_and_generation(before_dot).unzip(),
        None => (None, None),
    };
    NameParts { category, generation, family, size, flex: family.is_some_and(|f| f.contains("-flex")) }
}

fn category_and_generation(text: &str) -> Option<(&str, &str)> {
    let letters = text.len() - text.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    let (category, rest) = text.split_at(letters);
    let digits = |t: &str| t.len() - t.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after_size = rest.strip_prefix('-').and_then(|r| {
        let count = digits(r);
        if count == 0 { None } else { r[count..].strip_prefix("tb") }
    });
    // The memory size is optional: where no number follows it, it was none.
    let start = [after_size, Some(rest)].into_iter().flatten().find(|r| digits(r) > 0)?;
    (!category.is_empty()).then(|| (category, &start[..digits(start)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_the_reference_does() {
        for (name, category, generation, family, size, flex) in [
            ("m5.large", Some("m"), Some("5"), Some("m5"), Some("large"), false),
            ("c7i-flex.2xlarge", Some("c"), Some("7"), Some("c7i-flex"), Some("2xlarge"), true),
            ("u-6tb1.56xlarge", Some("u"), Some("1"), Some("u-6tb1"), Some("56xlarge"), false),
            ("u7i-12tb.224xlarge", Some("u"), Some("7"), Some("u7i-12tb"), Some("224xlarge"), false),
            ("hpc7g.4xlarge", Some("hpc"), Some("7"), Some("hpc7g"), Some("4xlarge"), false),
            ("mac2-m2pro.metal", Some("mac"), Some("2"), Some("mac2-m2pro"), Some("metal"), false),
            ("r7iz.metal-32xl", Some("r"), Some("7"), Some("r7iz"), Some("metal-32xl"), false),
            ("inf2.xlarge", Some("inf"), Some("2"), Some("inf2"), Some("xlarge"), false),
            ("odd", None, None, None, None, false),
            ("5.large", None, None, Some("5"), Some("large"), false),
            ("m.large", None, None, Some("m"), Some("large"), false),
            ("a1.b.c", Some("a"), Some("1"), None, None, false),
            ("", None, None, None, None, false),
        ] {
            assert_eq!(parts(name), NameParts { category, generation, family, size, flex }, "{name}");
        }
    }
}
