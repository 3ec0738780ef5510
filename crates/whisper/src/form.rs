//! The two forms of files.

/// How a file stores points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// whisper's own form: rings of points.
    Classic,
    /// go-carbon's form: blocks of encoded points.
    Compressed,
}
