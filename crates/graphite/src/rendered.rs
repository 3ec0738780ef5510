//! The answer of a request: its content and the type of it.
//!
//! **Invariant.** The code that writes an answer keeps it within [`ANSWER_BYTES_MAX`].

/// The most bytes of an answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 30;

/// An answer.
#[derive(Debug)]
pub struct Rendered {
    /// The content type.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
}
