//! What a person is told of a text that is no query.

use std::ops::Range;

/// What is wrong with a text: the bytes that are meant, and the words for people. `None`: it is a query.
pub fn mistake(text: &str) -> Option<(Range<usize>, String)> {
    let error = crate::parse(text).err()?;
    let at = |byte: u32| text.floor_char_boundary(byte as usize);
    Some((at(error.span.start)..at(error.span.end), error.what))
}

/// Names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    crate::FUNCTIONS.iter().map(|function| function.name)
}
