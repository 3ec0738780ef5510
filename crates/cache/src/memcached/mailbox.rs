//! How others reach a worker that waits for its sockets.
//!
//! Invariants: a letter is never lost, and a worker that sleeps is woken by the first one. A
//! connection is named at most once among the letters, however often it is woken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

use super::connection::Connection;

/// Something for a worker.
pub(super) enum Letter {
    /// A connection that is yours from now on.
    Adopt(Box<Connection>),
    /// Go on with this connection.
    Resume(Token),
    /// Stop.
    Stop,
}

/// A connection of a worker: its place, and how often the place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub place: u32,
    pub use_number: u32,
}

impl Token {
    pub fn to_bits(self) -> u64 {
        u64::from(self.use_number) << 32 | u64::from(self.place)
    }

    pub fn from_bits(bits: u64) -> Self {
        Self { place: bits as u32, use_number: (bits >> 32) as u32 }
    }
}

/// A worker's letters and the bell that wakes it.
pub(super) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    bell: OwnedFd,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { letters: Mutex::default(), bell })
    }

    /// Leaves a letter.
    pub fn send(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let first = letters.is_empty();
        letters.push(letter);
        drop(letters);
        if first {
            // a full counter means that the bell is ringing already
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<Letter> {
        // silent first: a letter that comes now rings again
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What to wait for.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Wakes a connection wherever its worker is.
pub(super) struct ConnectionWaker {
    mailbox: Arc<Mailbox>,
    token: Token,
    sent: AtomicBool,
}

impl ConnectionWaker {
    pub fn new(mailbox: Arc<Mailbox>, token: Token) -> Arc<Self> {
        Arc::new(Self { mailbox, token, sent: AtomicBool::new(false) })
    }

    /// Says that the worker looks at the connection now: later wakes need a new letter.
    pub fn seen(&self) {
        self.sent.store(false, Ordering::Release);
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.sent.swap(true, Ordering::AcqRel) {
            self.mailbox.send(Letter::Resume(self.token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_woken_connection_has_one_letter() {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let token = Token { place: 3, use_number: 9 };
        assert_eq!(Token::from_bits(token.to_bits()), token);
        let waker = ConnectionWaker::new(Arc::clone(&mailbox), token);
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(matches!(mailbox.take().as_slice(), [Letter::Resume(found)] if *found == token));
        assert!(mailbox.take().is_empty());
        waker.wake_by_ref();
        assert!(mailbox.take().is_empty(), "not seen yet");
        waker.seen();
        waker.wake_by_ref();
        assert_eq!(mailbox.take().len(), 1);
    }
}
