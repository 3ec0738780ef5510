//! The result of a read from a socket.

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The number of bytes read; there may be more.
    More(usize),
    /// The number of bytes read, possibly 0; there are no more for now.
    Drained(usize),
    /// The peer has closed the connection.
    End,
}
