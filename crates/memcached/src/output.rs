//! Answers on their way to a client.
//!
//! Small pieces are copied into one buffer, large values are held and written from where they are.
//! An answer that waits for the device stands at its place, and everything after it queues behind:
//! answers leave in the order of their requests.
//!
//! Invariants: bytes leave in the order in which they were pushed. [`Output::queued`] counts every
//! byte that is held for the client, so that the session can stop before there are too many.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::task::{Context, Poll};

use super::input::Buffers;
use sandur_cache::Value;

/// Values of at most this many bytes are copied: cheaper than one more element of a vectored write.
pub(super) const COPY_BYTES_MAX: usize = 8 << 10;
/// Above this many queued bytes a session stops answering until some have left.
pub(super) const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Answers that may wait for the device at once.
pub(super) const WAITING_MAX: usize = 1024;
/// Elements of one vectored write, of the 1024 that Linux takes.
const SLICES_MAX: usize = 64;

/// An answer that is not known yet.
pub(super) trait Later: Send {
    /// Writes the answer when it is there; otherwise the context's waker is woken once it is.
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Bytes) -> Poll<()>;
}

/// Pieces of answers in order.
#[derive(Default)]
pub(super) struct Bytes {
    /// Every copied byte.
    copied: Vec<u8>,
    /// Values that are not copied, each with its place: the number of copied bytes before it.
    held: VecDeque<(usize, Value)>,
    /// Bytes of `held`.
    held_bytes: usize,
    /// Copied bytes that have left, and bytes of the first held value that have left.
    left: usize,
    left_of_held: usize,
}

impl Bytes {
    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    /// The copied bytes, to add to.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Adds a value, by copy when it is small.
    #[inline]
    pub fn push_value(&mut self, value: Value) {
        if value.len() <= COPY_BYTES_MAX {
            self.copied.extend_from_slice(&value);
        } else {
            self.held_bytes += value.len();
            self.held.push_back((self.copied.len(), value));
        }
    }

    /// Bytes that have not left.
    pub fn len(&self) -> usize {
        self.copied.len() - self.left + self.held_bytes - self.left_of_held
    }

    /// Where the next piece would stand, to take back what is pushed from now on.
    pub fn mark(&self) -> Mark {
        Mark { copied: self.copied.len(), held: self.held.len() }
    }

    /// Takes back everything that was pushed since `mark`. Nothing may have left since then.
    pub fn rewind(&mut self, mark: Mark) {
        self.copied.truncate(mark.copied);
        while self.held.len() > mark.held {
            if let Some((_, value)) = self.held.pop_back() {
                self.held_bytes -= value.len();
            }
        }
    }

    /// Adds everything of `other`.
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

/// A place in [`Bytes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    copied: usize,
    held: usize,
}

/// Everything that one client has to be sent.
#[derive(Default)]
pub(super) struct Output {
    /// What can leave now.
    ready: Bytes,
    /// Answers under way, each with what follows it.
    waiting: VecDeque<(Box<dyn Later>, Bytes)>,
    /// Bytes that follow answers under way, those behind the last one aside.
    between: usize,
}

/// A place in an [`Output`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    waiting: usize,
    mark: Mark,
}

impl Output {
    /// Where the next piece goes.
    #[inline]
    pub fn tail(&mut self) -> &mut Bytes {
        match self.waiting.back_mut() {
            None => &mut self.ready,
            Some((_, after)) => after,
        }
    }

    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.tail().push(bytes);
    }

    /// Adds a line and its end.
    #[inline]
    pub fn line(&mut self, line: &[u8]) {
        let out = self.tail().buffer();
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }

    /// Adds an answer that is not known yet.
    pub fn push_later(&mut self, later: Box<dyn Later>) {
        self.between += self.waiting.back().map_or(0, |(_, after)| after.len());
        self.waiting.push_back((later, Bytes::default()));
    }

    /// Where the next piece would stand.
    pub fn place(&mut self) -> Place {
        Place { waiting: self.waiting.len(), mark: self.tail().mark() }
    }

    /// Takes back everything since `place`, in the same call, and says how many answers under way
    /// were given up.
    pub fn rewind(&mut self, place: Place) -> usize {
        let given_up = self.waiting.len().saturating_sub(place.waiting);
        while self.waiting.len() > place.waiting {
            self.waiting.pop_back();
            self.between -= self.waiting.back().map_or(0, |(_, after)| after.len());
        }
        self.tail().rewind(place.mark);
        given_up
    }

    /// Takes a buffer from the worker's, if there is none.
    pub fn borrow(&mut self, buffers: &mut Buffers) {
        if self.ready.copied.capacity() == 0 {
            self.ready.copied = buffers.take_for_answers();
        }
    }

    /// Gives the buffer back once everything has left.
    pub fn release(&mut self, buffers: &mut Buffers) {
        if self.ready.len() == 0 && self.ready.copied.capacity() > 0 {
            buffers.give_back_from_answers(std::mem::take(&mut self.ready.copied));
        }
    }

    /// Number of answers under way.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that are held for the client.
    pub fn queued(&self) -> usize {
        self.ready.len() + self.between + self.waiting.back().map_or(0, |(_, after)| after.len())
    }

    /// Whether the session shall stop answering for now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.queued() > QUEUED_BYTES_MAX || self.waiting.len() >= WAITING_MAX
    }

    /// Whether there is nothing to send, now or later.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.len() == 0
    }

    /// Whether something can leave now.
    pub fn has_ready(&self) -> bool {
        self.ready.len() > 0
    }

    /// Moves answers that have arrived to their places, as far as none before them is under way.
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

    /// What to write next: empty when nothing can leave.
    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(SLICES_MAX.min(2 * self.ready.held.len() + 1));
        self.ready.slices(&mut slices);
        slices
    }

    /// What to write next, when it is one piece.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        self.ready.held.is_empty().then(|| &self.ready.copied[self.ready.left..])
    }

    /// Says that `count` bytes have left.
    pub fn advance(&mut self, count: usize) {
        self.ready.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// An answer that is there when `ready` says so.
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

    /// Everything that leaves, `step` bytes at a time.
    fn drain(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while output.has_ready() {
            let joined: Vec<u8> = output.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            let take = joined.len().min(step);
            assert!(take > 0, "what is ready can leave");
            all.extend_from_slice(&joined[..take]);
            output.advance(take);
        }
        all
    }

    #[test]
    fn pieces_leave_in_order_whatever_the_writes_take() {
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
    fn answers_under_way_hold_back_what_follows() {
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
