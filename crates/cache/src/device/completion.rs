//! The answer to one read: the reader completes it, the caller awaits it.
//!
//! Invariants: the first answer counts; later ones are dropped with their buffers. A [`Completer`] that
//! is dropped without an answer answers [`ReadError::Closed`], so that a reader that ends never leaves a
//! caller waiting.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::buffer::AlignedBuffer;

/// Why a read returned no bytes.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The device returned an error.
    #[error("the device failed: {0}")]
    Device(#[from] io::Error),
    /// The device did not answer in time.
    #[error("the device did not answer in time")]
    Late,
    /// Too many reads were in flight.
    #[error("too many reads in flight")]
    Overloaded,
    /// The reader ended before the read did.
    #[error("the reader was closed")]
    Closed,
}

enum State {
    Waiting(Option<Waker>),
    Answered(Result<AlignedBuffer, ReadError>),
    Taken,
}

struct Slot(Mutex<State>);

/// The future of the answer.
pub struct Completion(Arc<Slot>);

/// The sender of the answer.
pub struct Completer(Option<Arc<Slot>>);

/// Creates a connected pair.
pub fn completion() -> (Completer, Completion) {
    let slot = Arc::new(Slot(Mutex::new(State::Waiting(None))));
    (Completer(Some(Arc::clone(&slot))), Completion(slot))
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the answer. Returns whether it was the first.
    fn answer(&self, result: Result<AlignedBuffer, ReadError>) -> bool {
        let mut state = self.lock();
        let State::Waiting(waker) = &mut *state else { return false };
        let waker = waker.take();
        *state = State::Answered(result);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl Completer {
    /// Sets the answer and wakes the caller.
    pub fn complete(mut self, result: Result<AlignedBuffer, ReadError>) {
        if let Some(slot) = self.0.take() {
            slot.answer(result);
        }
    }

    /// A handle that can answer in place of a read that is still running.
    pub fn patience(&self) -> Option<Patience> {
        self.0.as_ref().map(|slot| Patience(Arc::clone(slot)))
    }
}

/// Gives up a read in flight when its deadline is over.
pub struct Patience(Arc<Slot>);

impl Patience {
    /// Answers [`ReadError::Late`]. The read itself continues, and its answer will be dropped. Returns
    /// whether the read had no answer yet.
    pub fn give_up(&self) -> bool {
        self.0.answer(Err(ReadError::Late))
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.answer(Err(ReadError::Closed));
        }
    }
}

impl Future for Completion {
    type Output = Result<AlignedBuffer, ReadError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Waiting(waker) => {
                if !waker.as_ref().is_some_and(|w| w.will_wake(context.waker())) {
                    *waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
            State::Taken => Poll::Ready(Err(ReadError::Closed)),
            State::Answered(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(result) => Poll::Ready(result),
                State::Waiting(_) | State::Taken => Poll::Ready(Err(ReadError::Closed)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BufferPool;
    use super::*;

    fn poll(completion: &mut Completion) -> Poll<Result<AlignedBuffer, ReadError>> {
        Pin::new(completion).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_first_answer_counts_and_a_late_buffer_returns_to_the_pool() {
        let pool = BufferPool::new(1 << 20, 0);
        let buffer = pool.take(4096).unwrap();
        let (completer, mut waiting) = completion();
        assert!(poll(&mut waiting).is_pending());
        let patience = completer.patience().unwrap();
        assert!(patience.give_up());
        assert!(!patience.give_up());
        completer.complete(Ok(buffer));
        assert!(matches!(poll(&mut waiting), Poll::Ready(Err(ReadError::Late))));
        assert_eq!(pool.bytes_out(), 0);
    }

    #[test]
    fn a_dropped_completer_answers_closed() {
        let (completer, mut waiting) = completion();
        drop(completer);
        assert!(matches!(poll(&mut waiting), Poll::Ready(Err(ReadError::Closed))));
    }
}
