//! The byte stream of one connection, plain or through TLS.
//!
//! Invariants: nothing blocks. After [`Read::More`] another read may follow at once; after any other
//! result the poller reports when to continue.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use super::read::Read;
use super::tls::TlsStream;

/// A plain or encrypted socket.
pub(super) enum Transport {
    Plain(OwnedFd),
    Tls(OwnedFd, Box<TlsStream>),
}

impl Transport {
    /// Reads into the free space of `into`.
    pub fn read(&mut self, into: &mut Vec<u8>) -> io::Result<Read> {
        match self {
            Self::Plain(socket) => {
                let space = into.capacity() - into.len();
                match rustix::io::read(&*socket, spare_capacity(into)) {
                    Ok(0) => Ok(Read::End),
                    Ok(count) if count == space => Ok(Read::More(count)),
                    // a short read of a stream socket has emptied it
                    Ok(count) => Ok(Read::Drained(count)),
                    Err(Errno::AGAIN) => Ok(Read::Drained(0)),
                    Err(Errno::INTR) => Ok(Read::More(0)),
                    Err(error) => Err(error.into()),
                }
            }
            Self::Tls(socket, stream) => stream.read(socket.as_fd(), into),
        }
    }

    /// Writes. Returns the number of bytes accepted, or `None` if the socket accepts none now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => taken(rustix::io::write(&*socket, bytes)),
            Self::Tls(socket, stream) => stream.write(socket.as_fd(), &[IoSlice::new(bytes)]),
        }
    }

    /// Writes several buffers.
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => taken(rustix::io::writev(&*socket, slices)),
            Self::Tls(socket, stream) => stream.write(socket.as_fd(), slices),
        }
    }

    /// Sends bytes that were accepted but not sent yet. Returns whether all of them are sent.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(socket, stream) => stream.flush(socket.as_fd()),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) | Self::Tls(socket, _) => socket.as_fd(),
        }
    }
}

/// Separates "try again later" from errors.
pub(super) fn taken(result: Result<usize, Errno>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
