//! The answers that are to be sent to a client.
//!
//! Small pieces are copied into one buffer; large values are referenced and written from where they are.
//! An answer that waits for the device keeps its place, and everything after it is queued: answers are
//! sent in the order of their requests.
//!
//! Invariants: bytes are sent in the order in which they were pushed. [`Output::queued`] counts every
//! byte held for the client, so that the session can stop before there are too many.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::task::{Context, Poll};

use super::input::Buffers;
use sandur_cache::Value;

/// Values of at most this many bytes are copied, which is cheaper than one more element of a vectored
/// write.
pub(super) const COPY_BYTES_MAX: usize = 8 << 10;
/// Above this many queued bytes a session stops answering until some are sent.
pub(super) const QUEUED_BYTES_MAX: usize = 1 << 20;
/// The largest number of answers that wait for the device at once.
pub(super) const WAITING_MAX: usize = 1024;
/// Elements of one vectored write; Linux accepts 1024.
const SLICES_MAX: usize = 64;

/// An answer that is not available yet.
pub(super) trait Later: Send {
    /// Writes the answer if it is available. Otherwise the context's waker is woken once it is.
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Bytes) -> Poll<()>;
}

/// Pieces of answers in order.
#[derive(Default)]
pub(super) struct Bytes {
    /// All copied bytes.
    copied: Vec<u8>,
    /// Values that are not copied, each with its position: the number of copied bytes before it.
    held: VecDeque<(usize, Value)>,
    /// Bytes of `held`.
    held_bytes: usize,
    /// Copied bytes that are sent, and bytes of the first held value that are sent.
    left: usize,
    left_of_held: usize,
}

impl Bytes {
    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    /// Returns the buffer of copied bytes, to append to.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends a value, by copy if it is small.
    #[inline]
    pub fn push_value(&mut self, value: Value) {
        if value.len() <= COPY_BYTES_MAX {
            self.copied.extend_from_slice(&value);
        } else {
            self.held_bytes += value.len();
            self.held.push_back((self.copied.len(), value));
        }
    }

    /// Returns the number of bytes that are not sent.
    pub fn len(&self) -> usize {
        self.copied.len() - self.left + self.held_bytes - self.left_of_held
    }

    /// Returns the current end, to which [`Bytes::rewind`] can return.
    pub fn mark(&self) -> Mark {
        Mark { copied: self.copied.len(), held: self.held.len() }
    }

    /// Removes everything that was pushed since `mark`. No bytes may have been sent since then.
    pub fn rewind(&mut self, mark: Mark) {
        self.copied.truncate(mark.copied);
        while self.held.len() > mark.held {
            if let Some((_, value)) = self.held.pop_back() {
                self.held_bytes -= value.len();
            }
        }
    }

    /// Appends the contents of `other`.
    fn append(&mut self, mut other: Bytes) {
        let base = self.copied.len();
        self.copied.append(&mut other.copied);
        self.held_bytes += other.held_bytes;
        self.held.extend(other.held.into_iter().map(|(place, value)| (base + place, value)));
    }

    fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut from = self.left;
        let mut skip = self.left_of_held;
        for (place, value) in &self.held {
            if slices.len() + 2 > SLICES_MAX {
                return;
            }
            if *place > from {
                slices.push(IoSlice::new(&self.copied[from..*place]));
                from = *place;
            }
            slices.push(IoSlice::new(&value[skip..]));
            skip = 0;
        }
        if from < self.copied.len() {
            slices.push(IoSlice::new(&self.copied[from..]));
        }
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let until = self.held.front().map_or(self.copied.len(), |(place, _)| *place);
            let copied = count.min(until - self.left);
            self.left += copied;
            count -= copied;
            let Some((_, value)) = self.held.front() else { break };
            let held = count.min(value.len() - self.left_of_held);
            self.left_of_held += held;
            count -= held;
            if self.left_of_held < value.len() {
                break;
            }
            self.held_bytes -= value.len();
            self.left_of_held = 0;
            self.held.pop_front();
        }
        if self.left == self.copied.len() && self.held.is_empty() {
            self.copied.clear();
            self.left = 0;
        }
    }
}

/// A position in [`Bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    copied: usize,
    held: usize,
}

/// Everything that is to be sent to one client.
#[derive(Default)]
pub(super) struct Output {
    /// The bytes that can be sent now.
    ready: Bytes,
    /// Answers that are not available yet, each with the bytes that follow it.
    waiting: VecDeque<(Box<dyn Later>, Bytes)>,
    /// Bytes that follow unavailable answers, except those after the last one.
    between: usize,
}

/// A position in an [`Output`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    waiting: usize,
    mark: Mark,
}

impl Output {
    /// Returns where the next piece is appended.
    #[inline]
    pub fn tail(&mut self) -> &mut Bytes {
        match self.waiting.back_mut() {
            None => &mut self.ready,
            Some((_, after)) => after,
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.tail().push(bytes);
    }

    /// Appends a line and its line end.
    #[inline]
    pub fn line(&mut self, line: &[u8]) {
        let out = self.tail().buffer();
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends an answer that is not available yet.
    pub fn push_later(&mut self, later: Box<dyn Later>) {
        self.between += self.waiting.back().map_or(0, |(_, after)| after.len());
        self.waiting.push_back((later, Bytes::default()));
    }

    /// Returns the current end.
    pub fn place(&mut self) -> Place {
        Place { waiting: self.waiting.len(), mark: self.tail().mark() }
    }

    /// Removes everything since `place`, which must be from the same call. Returns the number of removed
    /// answers that were not available yet.
    pub fn rewind(&mut self, place: Place) -> usize {
        let given_up = self.waiting.len().saturating_sub(place.waiting);
        while self.waiting.len() > place.waiting {
            self.waiting.pop_back();
            self.between -= self.waiting.back().map_or(0, |(_, after)| after.len());
        }
        self.tail().rewind(place.mark);
        given_up
    }

    /// Takes a buffer from the worker if there is none.
    pub fn borrow(&mut self, buffers: &mut Buffers) {
        if self.ready.copied.capacity() == 0 {
            self.ready.copied = buffers.take_for_answers();
        }
    }

    /// Returns the buffer to the worker once everything is sent.
    pub fn release(&mut self, buffers: &mut Buffers) {
        if self.ready.len() == 0 && self.ready.copied.capacity() > 0 {
            buffers.give_back_from_answers(std::mem::take(&mut self.ready.copied));
        }
    }

    /// Returns the number of answers that are not available yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of bytes held for the client.
    pub fn queued(&self) -> usize {
        self.ready.len() + self.between + self.waiting.back().map_or(0, |(_, after)| after.len())
    }

    /// Returns whether the session must pause.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.queued() > QUEUED_BYTES_MAX || self.waiting.len() >= WAITING_MAX
    }

    /// Returns whether there is nothing to send, now or later.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.len() == 0
    }

    /// Returns whether some bytes can be sent now.
    pub fn has_ready(&self) -> bool {
        self.ready.len() > 0
    }

    /// Moves answers that have become available to the ready bytes, up to the first that is not.
    pub fn poll(&mut self, context: &mut Context<'_>) {
        while let Some((later, _)) = self.waiting.front_mut() {
            if self.ready.len() > QUEUED_BYTES_MAX || later.poll(context, &mut self.ready).is_pending() {
                return;
            }
            if let Some((_, after)) = self.waiting.pop_front() {
                if !self.waiting.is_empty() {
                    self.between -= after.len();
                }
                self.ready.append(after);
            }
        }
    }

    /// Returns the slices to write next; empty if none can be sent.
    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(SLICES_MAX.min(2 * self.ready.held.len() + 1));
        self.ready.slices(&mut slices);
        slices
    }

    /// Returns the bytes to write next, if they are one slice.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        self.ready.held.is_empty().then(|| &self.ready.copied[self.ready.left..])
    }

    /// Records that `count` bytes were sent.
    pub fn advance(&mut self, count: usize) {
        self.ready.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// An answer that becomes available when `ready` is set.
    struct Slow {
        text: &'static str,
        ready: std::sync::Arc<std::sync::atomic::AtomicBool>,
    }

    impl Later for Slow {
        fn poll(&mut self, _: &mut Context<'_>, out: &mut Bytes) -> Poll<()> {
            if !self.ready.load(std::sync::atomic::Ordering::Relaxed) {
                return Poll::Pending;
            }
            out.push(self.text.as_bytes());
            Poll::Ready(())
        }
    }

    fn value(byte: u8, length: usize) -> Value {
        Value::from(bytes::Bytes::from(vec![byte; length]))
    }

    /// Sends everything, `step` bytes at a time.
    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while output.has_ready() {
            let joined: Vec<u8> = output.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            let take = joined.len().min(step);
            assert!(take > 0, "ready bytes can be sent");
            all.extend_from_slice(&joined[..take]);
            output.advance(take);
        }
        all
    }

    #[test]
    fn pieces_are_sent_in_order_whatever_the_size_of_writes() {
        for step in [1, 7, 4096, 1 << 20] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            // one byte at a time takes long
            for n in 0..step.min(200) {
                output.push(b"head ");
                expected.extend_from_slice(b"head ");
                let length = if n % 3 == 0 { COPY_BYTES_MAX + n } else { n };
                output.tail().push_value(value(n as u8, length));
                expected.extend(std::iter::repeat_n(n as u8, length));
                output.line(b"");
                expected.extend_from_slice(b"\r\n");
            }
            assert_eq!(output.queued(), expected.len());
            assert!(drain(&mut output, step) == expected, "step {step}");
            assert!(output.is_empty());
        }
    }

    #[test]
    fn bytes_after_an_unavailable_answer_wait_for_it() {
        let ready = |yes: bool| std::sync::Arc::new(std::sync::atomic::AtomicBool::new(yes));
        let (first, second) = (ready(false), ready(true));
        let mut context = Context::from_waker(Waker::noop());
        let mut output = Output::default();
        output.push(b"a");
        output.push_later(Box::new(Slow { text: "b", ready: first.clone() }));
        output.push(b"c");
        output.push_later(Box::new(Slow { text: "d", ready: second }));
        output.push(b"e");
        output.poll(&mut context);
        assert_eq!((drain(&mut output, 9), output.waiting(), output.queued()), (b"a".to_vec(), 2, 2));
        first.store(true, std::sync::atomic::Ordering::Relaxed);
        output.poll(&mut context);
        assert_eq!(drain(&mut output, 9), b"bcde");
        assert!(output.is_empty() && output.queued() == 0);
    }

    #[test]
    fn an_answer_that_is_rewound_is_never_sent() {
        let mut output = Output::default();
        output.push(b"kept");
        let place = output.place();
        output.push(b"no");
        output.tail().push_value(value(1, COPY_BYTES_MAX + 1));
        output.push_later(Box::new(Slow { text: "no", ready: std::sync::Arc::default() }));
        output.push(b"no");
        assert_eq!(output.rewind(place), 1);
        output.push(b"!");
        assert_eq!((output.queued(), drain(&mut output, 99)), (5, b"kept!".to_vec()));
    }
}
