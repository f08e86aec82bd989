//! Commands in Markdown pages: fenced blocks that begin with ```` ```sh ````, and the word behind it that says how they are run.

/// One block. `kind` is empty for commands that run on any cluster.
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) script: String,
}

/// The blocks of a page in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```sh") else { continue };
        let script: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.push(Block { kind: kind.trim().to_owned(), script: script.join("\n") });
    }
    found
}
