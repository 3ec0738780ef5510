//! The template compiler and the compiled templates: any text, on any line.
//!
//! The input is a template, a zero byte, and a logfmt line with values that the template may name. The
//! template runs on the line, and on a longer one, on which output that grows with its input reaches its
//! limits.

use super::stages::process;

/// Length of the longer line in bytes.
const LONG_LINE_BYTES: usize = 4 << 10;

/// The input is a template and a line.
pub fn run(input: &[u8]) {
    let split = input.iter().position(|b| *b == 0).unwrap_or(input.len());
    let (template, line) = (&input[..split], input.get(split + 1..).unwrap_or_default());
    let Ok(template) = std::str::from_utf8(template) else { return };
    let quoted = go_quoted(template);
    let query = format!("{{app=\"a\"}} | logfmt | line_format {quoted} | label_format out={quoted}");
    let long = line.repeat(LONG_LINE_BYTES / line.len().max(1));
    process(&query, &[line, &long]);
}

/// Quotes the text as a string of LogQL.
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
