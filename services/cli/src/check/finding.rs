//! What one check found, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Good,
    /// Works, or cannot be judged from here.
    Note,
    Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) area: &'static str,
    pub(super) subject: String,
    pub(super) verdict: Verdict,
    pub(super) detail: String,
    /// What to do about it; empty when nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn good(area: &'static str, subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(area, Verdict::Good, subject.into(), detail.into(), String::new())
    }

    pub(super) fn note(
        area: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(area, Verdict::Note, subject.into(), detail.into(), fix.into())
    }

    pub(super) fn wrong(
        area: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(area, Verdict::Wrong, subject.into(), detail.into(), fix.into())
    }

    fn new(area: &'static str, verdict: Verdict, subject: String, detail: String, fix: String) -> Self {
        Self { area, subject, verdict, detail, fix }
    }
}

pub(super) fn print(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    let areas = findings.iter().map(|each| each.area.len()).max().unwrap_or(0);
    let subjects = findings.iter().map(|each| each.subject.len()).max().unwrap_or(0);
    for each in findings {
        let sign = match each.verdict {
            Verdict::Good => "ok  ",
            Verdict::Note => "note",
            Verdict::Wrong => "FAIL",
        };
        writeln!(out, "{sign}  {:areas$}  {:subjects$}  {}", each.area, each.subject, each.detail)?;
        if !each.fix.is_empty() {
            writeln!(out, "      {:areas$}  {:subjects$}  -> {}", "", "", each.fix)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_printed_with_what_to_do_about_it() {
        let findings = [
            Finding::good("cluster", "API server", "answers"),
            Finding::wrong("pools", "nodepool/a", "not ready", "kubectl describe nodepool a"),
        ];
        let mut out = Vec::new();
        print(&mut out, &findings).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("ok ") && lines[1].starts_with("FAIL"), "{text}");
        assert!(lines[2].trim_start().starts_with("-> kubectl describe nodepool a"), "{text}");
    }
}
