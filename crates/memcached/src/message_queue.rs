//! The queue by which other threads reach a worker that waits for its sockets.
//!
//! Invariants: no message is lost, and the first message wakes a sleeping worker. A message from the
//! worker to itself wakes nothing; the worker checks for those before it sleeps. The queue has at most
//! one message per connection, however often the connection is woken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Wake;
use std::thread::ThreadId;

use rustix::event::{EventfdFlags, eventfd};

use super::connection::Connection;

/// A message to a worker.
pub(super) enum Message {
    /// A new connection, which the worker owns from now on.
    Adopt(Box<Connection>),
    /// Continue to serve this connection.
    Resume(Token),
    /// Stop.
    Stop,
}

/// Identifies a connection of a worker: its place, and how often the place was used before.
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

/// A worker's messages and the event descriptor that wakes it.
pub(super) struct MessageQueue {
    messages: Mutex<Vec<Message>>,
    event: OwnedFd,
    /// The worker's thread, which needs no event for messages to itself.
    owner: OnceLock<ThreadId>,
    /// Whether there are messages for which the event was not raised.
    has_own: AtomicBool,
}

impl MessageQueue {
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            messages: Mutex::default(),
            event,
            owner: OnceLock::new(),
            has_own: AtomicBool::new(false),
        })
    }

    /// Declares the calling thread to be the worker. It must check [`MessageQueue::has_own`] before it
    /// waits.
    pub fn own(&self) {
        let _ = self.owner.set(std::thread::current().id());
    }

    /// Returns whether there are messages that the worker sent to itself.
    pub fn has_own(&self) -> bool {
        self.has_own.load(Ordering::Relaxed)
    }

    /// Appends a message.
    pub fn send(&self, message: Message) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let first = messages.is_empty();
        messages.push(message);
        drop(messages);
        if !first {
            return;
        }
        if self.owner.get().is_some_and(|owner| *owner == std::thread::current().id()) {
            self.has_own.store(true, Ordering::Relaxed);
        } else {
            // a full counter means that the event is raised already
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Removes and returns all messages.
    pub fn take(&self) -> Vec<Message> {
        // reads the event first, so that a message that arrives now raises it again
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        self.take_own()
    }

    /// Removes and returns all messages when the event was not raised.
    pub fn take_own(&self) -> Vec<Message> {
        self.has_own.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the event descriptor to poll.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Wakes a connection through its worker's queue.
pub(super) struct ConnectionWaker {
    queue: Arc<MessageQueue>,
    token: Token,
    sent: AtomicBool,
}

impl ConnectionWaker {
    pub fn new(queue: Arc<MessageQueue>, token: Token) -> Arc<Self> {
        Arc::new(Self { queue, token, sent: AtomicBool::new(false) })
    }

    /// Records that the worker serves the connection now: later wake-ups need a new message.
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
            self.queue.send(Message::Resume(self.token));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_needs_no_event_for_its_own_messages() {
        let queue = MessageQueue::new().unwrap();
        queue.own();
        queue.send(Message::Stop);
        assert!(queue.has_own());
        let raised = rustix::io::read(&queue.event, &mut [0u8; 8]);
        assert_eq!(raised, Err(rustix::io::Errno::AGAIN));
        assert_eq!(queue.take_own().len(), 1);
        assert!(!queue.has_own());
        std::thread::scope(|scope| _ = scope.spawn(|| queue.send(Message::Stop)));
        assert!(!queue.has_own());
        assert_eq!(rustix::io::read(&queue.event, &mut [0u8; 8]), Ok(8));
    }

    #[test]
    fn a_woken_connection_has_one_message() {
        let queue = Arc::new(MessageQueue::new().unwrap());
        let token = Token { place: 3, use_number: 9 };
        assert_eq!(Token::from_bits(token.to_bits()), token);
        let waker = ConnectionWaker::new(Arc::clone(&queue), token);
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(matches!(queue.take().as_slice(), [Message::Resume(found)] if *found == token));
        assert!(queue.take().is_empty());
        waker.wake_by_ref();
        assert!(queue.take().is_empty(), "the worker has not served it yet");
        waker.seen();
        waker.wake_by_ref();
        assert_eq!(queue.take().len(), 1);
    }
}
