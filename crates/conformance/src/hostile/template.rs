//! The template compiler and what it makes: any text, over any line.
//!
//! The input is a template, a zero byte, and a logfmt line whose values the template may name. It runs over
//! the line, and over one that is longer, where what grows with its input meets its bounds.

use super::stages::process;

/// The longer line.
const LONG_LINE_BYTES: usize = 4 << 10;

/// Takes a template and a line.
pub fn run(input: &[u8]) {
    let split = input.iter().position(|b| *b == 0).unwrap_or(input.len());
    let (template, line) = (&input[..split], input.get(split + 1..).unwrap_or_default());
    let Ok(template) = std::str::from_utf8(template) else { return };
    let quoted = go_quoted(template);
    let query = format!("{{app=\"a\"}} | logfmt | line_format {quoted} | label_format out={quoted}");
    let long = line.repeat(LONG_LINE_BYTES / line.len().max(1));
    process(&query, &[line, &long]);
}

/// The text as a string of LogQL.
fn go_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
