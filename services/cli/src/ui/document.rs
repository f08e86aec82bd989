//! The page as one document: markup, style, script and, where it is to stand alone, the data. Built from the files in `page/`,
//! which are ES modules for their tests and editors; here they are one script, in the order of what they need.

use std::sync::LazyLock;

use base64::Engine as _;

const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// Each needs only those before it.
const SCRIPTS: [&str; 13] = [
    include_str!("page/format.js"),
    include_str!("page/colours.js"),
    include_str!("page/model.js"),
    include_str!("page/dom.js"),
    include_str!("page/layout.js"),
    include_str!("page/paint.js"),
    include_str!("page/cluster.js"),
    include_str!("page/cost.js"),
    include_str!("page/decisions.js"),
    include_str!("page/waiting.js"),
    include_str!("page/compare.js"),
    include_str!("page/question.js"),
    include_str!("page/main.js"),
];

/// What the page may do: run its own script, which is known by its hash, and ask where it came from.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(&SCRIPT),
        hash(STYLE)
    )
});

static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let mut all = String::new();
    SCRIPTS.iter().for_each(|module| add(module, &mut all));
    all
});

pub(super) fn hash(text: &str) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(hash))
}

/// `settings` is JSON: how the page is fed, or everything it shows.
pub(crate) fn page(settings: &str) -> String {
    let mut page = String::with_capacity(MARKUP.len() + STYLE.len() + SCRIPT.len() + settings.len());
    // In one pass, so that nothing in the data is taken for a marker.
    let mut rest = MARKUP;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (marker, after) = after.split_once("}}").expect("page.html closes its markers");
        match marker {
            "policy" => page.push_str(&POLICY),
            "style" => page.push_str(STYLE),
            "data" => embed(settings, &mut page),
            "script" => page.push_str(&SCRIPT),
            other => unreachable!("page.html has the unknown marker {other}"),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON in a script element: nothing in it may look like markup.
fn embed(json: &str, page: &mut String) {
    for letter in json.chars() {
        match letter {
            '<' => page.push_str("\\u003c"),
            '>' => page.push_str("\\u003e"),
            '&' => page.push_str("\\u0026"),
            '\u{2028}' => page.push_str("\\u2028"),
            '\u{2029}' => page.push_str("\\u2029"),
            _ => page.push(letter),
        }
    }
}

/// A module as part of one script: without its imports, and with its exports as plain names.
fn add(module: &str, page: &mut String) {
    for line in module.lines().filter(|line| !line.starts_with("import ")) {
        page.push_str(line.strip_prefix("export ").unwrap_or(line));
        page.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_its_element() {
        let page = page(r#"{"name":"</script><script>alert(1)</script>{{style}}"}"#);
        assert!(!page.contains("<script>alert"), "markup in the data");
        assert!(page.contains(r"\u003c/script\u003e"));
        assert!(page.contains("{{style}}"), "a marker in the data is data");
    }

    #[test]
    fn the_script_has_no_modules_left_and_no_way_to_make_markup_of_data() {
        let page = page("{}");
        for line in page.lines() {
            assert!(!line.starts_with("import ") && !line.starts_with("export "), "{line}");
        }
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!page.contains(way), "{way}");
        }
    }

    #[test]
    fn no_two_modules_declare_the_same_name() {
        let mut seen = std::collections::BTreeMap::new();
        for script in SCRIPTS {
            for line in script.lines() {
                let line = line.strip_prefix("export ").unwrap_or(line);
                let line = line.strip_prefix("async ").unwrap_or(line);
                let Some((word, rest)) = line.split_once(' ') else { continue };
                if !["const", "let", "function", "class"].contains(&word) {
                    continue;
                }
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(
                    name.is_empty() || seen.insert(name.clone(), ()).is_none(),
                    "{name} is declared twice"
                );
            }
        }
    }
}
