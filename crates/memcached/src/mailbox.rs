//! How others reach a worker that waits for its sockets.
//!
//! Invariants: a letter is never lost, and a worker that sleeps is woken by the first one; what it sends to
//! itself wakes nobody, so it looks for that before it sleeps. A
//! connection is named at most once among the letters, however often it is woken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Wake;
use std::thread::ThreadId;

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
    /// The worker's thread, which needs no bell for what it sends to itself.
    owner: OnceLock<ThreadId>,
    /// Whether there are letters for which nobody has rung.
    silent: AtomicBool,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { letters: Mutex::default(), bell, owner: OnceLock::new(), silent: AtomicBool::new(false) })
    }

    /// Says that the calling thread is the worker: it looks at [`Mailbox::has_silent`] before it waits.
    pub fn own(&self) {
        let _ = self.owner.set(std::thread::current().id());
    }

    /// Whether there are letters that the worker has sent to itself.
    pub fn has_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Leaves a letter.
    pub fn send(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let first = letters.is_empty();
        letters.push(letter);
        drop(letters);
        if !first {
            return;
        }
        if self.owner.get().is_some_and(|owner| *owner == std::thread::current().id()) {
            self.silent.store(true, Ordering::Relaxed);
        } else {
            // a full counter means that the bell is ringing already
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<Letter> {
        // silent first: a letter that comes now rings again
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        self.take_silent()
    }

    /// Takes all letters when nobody has rung.
    pub fn take_silent(&self) -> Vec<Letter> {
        self.silent.store(false, Ordering::Relaxed);
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
    fn a_worker_needs_no_bell_for_its_own_letters() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.own();
        mailbox.send(Letter::Stop);
        assert!(mailbox.has_silent());
        let ring = rustix::io::read(&mailbox.bell, &mut [0u8; 8]);
        assert_eq!(ring, Err(rustix::io::Errno::AGAIN));
        assert_eq!(mailbox.take_silent().len(), 1);
        assert!(!mailbox.has_silent());
        std::thread::scope(|scope| _ = scope.spawn(|| mailbox.send(Letter::Stop)));
        assert!(!mailbox.has_silent());
        assert_eq!(rustix::io::read(&mailbox.bell, &mut [0u8; 8]), Ok(8));
    }

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
