//! MIME multipart documents: the user's taken apart, ours put together. Only what cloud-init and nodeadm take: one level of
//! parts, text, no line longer for it.

use super::Unrenderable;

pub(super) const SHELL: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// One part: its header lines, and the text below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) headers: Vec<String>,
    pub(super) content: String,
}

impl Part {
    pub(super) fn new(content_type: &str, content: impl Into<String>) -> Self {
        Self { headers: vec![format!("Content-Type: {content_type}")], content: content.into() }
    }
}

/// As cloud-init decides.
pub(super) fn is_mime(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// The parts of the user's document, headers kept as they are. A document of a single part is that part.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, Unrenderable> {
    let text = text.trim_start().replace("\r\n", "\n");
    let whole = part(&text);
    let Some(kind) = header(&whole.headers, "content-type") else {
        return Err(Unrenderable::Mime("it has no Content-Type".to_owned()));
    };
    if !kind.to_ascii_lowercase().starts_with("multipart/") {
        let headers = whole.headers.into_iter().filter(|h| !is_named(h, "mime-version")).collect();
        return Ok(vec![Part { headers, content: whole.content }]);
    }
    let Some(boundary) = boundary_of(kind) else {
        return Err(Unrenderable::Mime("its Content-Type names no boundary".to_owned()));
    };
    let (open, close) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut found: Vec<Vec<&str>> = Vec::new();
    let mut ended = false;
    for line in whole.content.split('\n') {
        match line.trim_end() {
            end if end == close => {
                ended = true;
                break;
            }
            start if start == open => found.push(Vec::new()),
            _ => {
                if let Some(lines) = found.last_mut() {
                    lines.push(line);
                }
            }
        }
    }
    if found.is_empty() {
        return Err(Unrenderable::Mime(format!("no line begins a part: --{boundary}")));
    }
    if !ended {
        return Err(Unrenderable::Mime(format!("its last part has no end: --{boundary}--")));
    }
    Ok(found.into_iter().map(|lines| part(&lines.join("\n"))).collect())
}

/// One document of all parts.
pub(super) fn join(parts: &[Part]) -> String {
    let taken = |mark: &str| parts.iter().any(|p| p.content.lines().any(|line| line.starts_with(mark)));
    // The reference's boundary, unless a line of some part would be taken for it.
    let mut boundary = "//".to_owned();
    while taken(&format!("--{boundary}")) {
        boundary.push('/');
    }
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n");
    for part in parts {
        text.push_str(&format!("--{boundary}\n{}\n\n{}", part.headers.join("\n"), part.content));
        if !part.content.ends_with('\n') {
            text.push('\n');
        }
    }
    text.push_str(&format!("--{boundary}--\n"));
    text
}

fn part(text: &str) -> Part {
    let (head, content) = match text.strip_prefix('\n') {
        Some(content) => ("", content),
        None => text.split_once("\n\n").unwrap_or((text, "")),
    };
    let mut headers: Vec<String> = Vec::new();
    for line in head.lines() {
        match headers.last_mut() {
            Some(before) if line.starts_with([' ', '\t']) => before.push_str(&format!("\n{line}")),
            _ => headers.push(line.to_owned()),
        }
    }
    // A part without headers is plain text, which nothing would run; the user surely meant a script.
    if headers.is_empty() {
        headers.push(format!("Content-Type: {SHELL}"));
    }
    Part { headers, content: content.to_owned() }
}

fn is_named(header: &str, name: &str) -> bool {
    header.split_once(':').is_some_and(|(own, _)| own.trim().eq_ignore_ascii_case(name))
}

fn header<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    headers.iter().find(|h| is_named(h, name)).and_then(|h| h.split_once(':')).map(|(_, value)| value.trim())
}

fn boundary_of(content_type: &str) -> Option<&str> {
    let value = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let bare = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    (!bare.is_empty()).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_headers_and_text() {
        let text = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"==X==\"\r\n\r\npreamble\r\n--==X==\r\nContent-Type: text/cloud-config\r\nX-Own: 1\r\n\r\nruncmd: []\r\n--==X==\r\n\r\necho hi\r\n--==X==--\r\n";
        let parts = parts(text).unwrap();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].headers, ["Content-Type: text/cloud-config", "X-Own: 1"]);
        assert_eq!(parts[0].content, "runcmd: []");
        assert_eq!(parts[1], Part::new(SHELL, "echo hi"));
    }

    #[test]
    fn a_document_that_is_one_part_stays_one_part() {
        let parts = parts("Content-Type: text/x-shellscript\n\n#!/bin/sh\necho\n").unwrap();
        assert_eq!(parts, [Part::new("text/x-shellscript", "#!/bin/sh\necho\n")]);
    }

    #[test]
    fn a_document_that_cannot_be_taken_apart_is_refused_with_the_cause() {
        for (text, cause) in [
            ("MIME-Version: 1.0\n\nx", "no Content-Type"),
            ("Content-Type: multipart/mixed\n\n--a\n", "names no boundary"),
            ("Content-Type: multipart/mixed; boundary=a\n\ntext", "begins a part"),
            ("Content-Type: multipart/mixed; boundary=a\n\n--a\n\necho\n", "no end"),
        ] {
            let error = parts(text).unwrap_err().to_string();
            assert!(error.contains(cause), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_part_that_contains_the_boundary_does_not_end_the_document_early() {
        let script = Part::new(SHELL, "cat <<E\n--//--\nE\n");
        let read = parts(&join(&[script.clone(), Part::new(SHELL, "echo 2\n")])).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(format!("{}\n", read[0].content), script.content);
    }
}
