//! What a read of a socket brought.

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes, and there may be more.
    More(usize),
    /// So many bytes, and no more for now; possibly none.
    Drained(usize),
    /// The other side is done.
    End,
}
