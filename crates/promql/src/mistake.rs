//! The mistake in an invalid query, for messages to users.

use std::ops::Range;

/// Returns the bytes of the text that are wrong, and the error text; `None` if the query is valid.
pub fn mistake(text: &str) -> Option<(Range<usize>, String)> {
    let error = crate::parse(text).err()?;
    let at = |byte: u32| text.floor_char_boundary(byte as usize);
    Some((at(error.span.start)..at(error.span.end), error.what))
}

/// Names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    crate::FUNCTIONS.iter().map(|function| function.name)
}
