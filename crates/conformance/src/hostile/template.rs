//! The template compiler and what it makes: any text, over any line.
//!
//! The input is a template, a zero byte, and a logfmt line whose values the template may name.

use super::stages::process;

/// Takes a template and a line.
pub fn run(input: &[u8]) {
    let split = input.iter().position(|b| *b == 0).unwrap_or(input.len());
    let (template, line) = (&input[..split], input.get(split + 1..).unwrap_or_default());
    let Ok(template) = std::str::from_utf8(template) else { return };
    let quoted = go_quoted(template);
    process(&format!("{{app=\"a\"}} | logfmt | line_format {quoted} | label_format out={quoted}"), &[line]);
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
