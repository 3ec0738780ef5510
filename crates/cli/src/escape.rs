//! Escapes text from servers and files for a terminal: characters that would move the cursor, change
//! colors or change the direction of writing are shown as escapes, so that a log line cannot forge the
//! text around it.

use std::borrow::Cow;

/// The start of continuation lines: indented further than any line of our own.
const CONTINUED: &str = "\n    ";

/// The text with hidden characters escaped; tabs are kept, and continuation lines are indented.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\t' && is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\t' => out.push('\t'),
            '\n' => out.push_str(CONTINUED),
            '\r' if chars.peek() == Some(&'\n') => {}
            c => push_visible(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// Appends a character so that it is visible and does not break the line.
pub fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) && u32::from(c) < 0x100 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if is_hidden(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        c => out.push(c),
    }
}

/// Whether the character is a control character or changes the direction of writing.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain\ttext ü", "plain\ttext ü"),
            ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\rb", "a\\rb"),
            ("a\r\nb\n", "a\n    b\n    "),
            ("\u{9b}31m\u{7f}", "\\x9b31m\\x7f"),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        assert!(matches!(escaped("nothing to do"), Cow::Borrowed(_)));
    }
}
