//! A command in one line, as the reference writes it into logs and events.

use model::price::MicroDollars;

use crate::method::Reason;

/// What the line says.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub reason: Reason,
    pub id: &'a str,
    pub pools: &'a [&'a str],
    pub nodes: &'a [&'a str],
    pub replacements: usize,
    pub saving: MicroDollars,
}

fn decision(nodes: usize, replacements: usize) -> &'static str {
    match (nodes, replacements) {
        (0, _) => "no-op",
        (_, 0) => "delete",
        _ => "replace",
    }
}

fn count(replacements: usize) -> String {
    match replacements {
        0 => "[]".to_owned(),
        1 => "[1 replacement]".to_owned(),
        many => format!("[{many} replacements]"),
    }
}

/// `underutilized/<id>: replace: nodepools=[a]: [n1, n2] -> [1 replacement] (savings: $0.12)`.
pub fn text(words: &Words<'_>) -> String {
    format!(
        "{}/{}: {}: nodepools=[{}]: [{}] -> {} (savings: ${:.2})",
        words.reason.label(),
        words.id,
        decision(words.nodes.len(), words.replacements),
        words.pools.join(", "),
        words.nodes.join(", "),
        count(words.replacements),
        words.saving.to_f64()
    )
}

/// About one of its nodes.
pub fn member_text(node: &str, nodes: usize, replacements: usize) -> String {
    let decision = decision(nodes, replacements);
    if nodes > 1 {
        format!("{decision}: [{node}] (part of {nodes}-node consolidation)")
    } else {
        format!("{decision}: [{node}] -> {}", count(replacements))
    }
}
