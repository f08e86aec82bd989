//! A page of metrics, written piece by piece: with a series for each of 150,000 pods it is 60 MB long, too much to hold once,
//! let alone once for each format.

use std::fmt::{self, Write};

/// Pieces are handed on when they reach this many bytes.
const PIECE: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// The older Prometheus text format, in which a counter's type line carries the `_total` of its samples.
    Prometheus,
}

/// Takes OpenMetrics text in any portions and hands on pieces in the format asked for. An error of the sink ends the page.
pub(crate) struct Page<S> {
    format: Format,
    /// The beginning of a line whose end was not written yet.
    line: String,
    /// What was said of a metric before its type, which decides how it is named.
    held: String,
    piece: String,
    sink: S,
}

impl<S: FnMut(String) -> fmt::Result> Page<S> {
    pub(crate) fn new(format: Format, sink: S) -> Self {
        let (line, held) = (String::new(), String::new());
        Self { format, line, held, piece: String::with_capacity(PIECE), sink }
    }

    /// Hands on what is left.
    pub(crate) fn end(mut self) -> fmt::Result {
        self.hand_on()
    }

    fn hand_on(&mut self) -> fmt::Result {
        if self.piece.is_empty() {
            return Ok(());
        }
        (self.sink)(std::mem::replace(&mut self.piece, String::with_capacity(PIECE)))
    }

    fn take_line(&mut self, line: &str) -> fmt::Result {
        match line.strip_prefix("# ") {
            Some("EOF") => {}
            Some(said) if said.starts_with("UNIT ") => {}
            Some(said) if said.starts_with("TYPE ") => {
                let held = std::mem::take(&mut self.held);
                for said in held.lines().chain([said]) {
                    self.describe(said, line.ends_with(" counter"))?;
                }
            }
            Some(said) => {
                self.held.push_str(said);
                self.held.push('\n');
            }
            None => {
                self.piece.push_str(line);
                self.piece.push('\n');
            }
        }
        Ok(())
    }

    /// `said` is keyword, name and the rest.
    fn describe(&mut self, said: &str, counter: bool) -> fmt::Result {
        let mut words = said.splitn(3, ' ');
        let (keyword, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (suffix, rest) = (if counter { "_total" } else { "" }, words.next().unwrap_or_default());
        writeln!(self.piece, "# {keyword} {name}{suffix} {rest}")
    }
}

impl<S: FnMut(String) -> fmt::Result> Write for Page<S> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        if self.format == Format::OpenMetrics {
            self.piece.push_str(text);
        } else {
            while let Some((head, tail)) = text.split_once('\n') {
                if self.line.is_empty() {
                    self.take_line(head)?;
                } else {
                    let mut line = std::mem::take(&mut self.line);
                    line.push_str(head);
                    self.take_line(&line)?;
                    line.clear();
                    self.line = line;
                }
                text = tail;
            }
            self.line.push_str(text);
        }
        if self.piece.len() >= PIECE { self.hand_on() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "# HELP a_seconds How long.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                        a_seconds_total{x=\"# TYPE\"} 1\n# HELP b_total A gauge.\n# TYPE b_total gauge\nb_total 0\n# EOF\n";
    const OLD: &str = "# HELP a_seconds_total How long.\n# TYPE a_seconds_total counter\n\
                       a_seconds_total{x=\"# TYPE\"} 1\n# HELP b_total A gauge.\n# TYPE b_total gauge\nb_total 0\n";

    fn written(format: Format, portion: usize) -> String {
        let mut out = String::new();
        let mut page = Page::new(format, |piece| {
            out.push_str(&piece);
            Ok(())
        });
        for chunk in OPEN.as_bytes().chunks(portion) {
            page.write_str(std::str::from_utf8(chunk).unwrap()).unwrap();
        }
        page.end().unwrap();
        out
    }

    #[test]
    fn however_it_is_cut_the_page_is_the_same() {
        for portion in 1..=OPEN.len() {
            assert_eq!(written(Format::Prometheus, portion), OLD, "portions of {portion}");
            assert_eq!(written(Format::OpenMetrics, portion), OPEN, "portions of {portion}");
        }
    }

    #[test]
    fn a_long_page_is_handed_on_in_pieces_and_ends_when_nobody_reads() {
        let mut sizes = Vec::new();
        let mut page = Page::new(Format::Prometheus, |piece: String| {
            sizes.push(piece.len());
            if sizes.len() < 3 { Ok(()) } else { Err(fmt::Error) }
        });
        let line = "series 1\n".repeat(100);
        let written = (0..10_000).find(|_| page.write_str(&line).is_err()).unwrap();
        assert!(written * line.len() < 4 * PIECE);
        drop(page);
        assert!(sizes.iter().all(|size| (PIECE..2 * PIECE).contains(size)), "{sizes:?}");
    }
}
