//! Text of the cluster as a terminal may get it. Pure.

/// Stands for each character that is left out.
const REPLACEMENT: char = '\u{fffd}';

/// Names and reasons come from objects that others write: escape sequences, line breaks and characters that change the
/// direction of text must not reach the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { REPLACEMENT } else { c }).collect()
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_replaced_and_the_rest_stays() {
        assert_eq!(printable("ip-10-0-1-2.ec2.internal"), "ip-10-0-1-2.ec2.internal");
        assert_eq!(printable("Größe 漢字"), "Größe 漢字");
        assert_eq!(printable("a\u{1b}[2Jb\r\n\u{7}\u{9b}31m"), "a�[2Jb����31m");
        assert_eq!(printable("a\u{202e}cba"), "a�cba");
    }
}
