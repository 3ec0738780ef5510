//! Bytes that a client sent and nobody has used yet, and the buffers that connections of a worker share.
//!
//! Invariants: an idle connection holds no buffer: an empty [`Input`] gives its buffer back to the
//! worker's [`Buffers`], which keeps a bounded number of them. An input grows to
//! [`INPUT_BYTES_MAX`] and no further.

/// Bytes of a fresh buffer: one read takes everything that usual requests and pipelines hold.
pub(super) const INPUT_BYTES: usize = 16 << 10;
/// Most bytes of a command line, which only a multiget of many keys comes near.
pub(super) const INPUT_BYTES_MAX: usize = 16 << 20;
/// Buffers that a worker keeps for the next readable connections.
const BUFFERS_KEPT: usize = 64;
/// Largest buffer for answers that a worker keeps.
const ANSWER_BYTES_KEPT: usize = 2 << 20;

/// Buffers of one worker.
#[derive(Default)]
pub(super) struct Buffers {
    free: Vec<Vec<u8>>,
    /// For the answers of the connection whose turn it is.
    answers: Vec<u8>,
}

impl Buffers {
    fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| Vec::with_capacity(INPUT_BYTES))
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        // a buffer that grew for one long line is not worth keeping
        if buffer.capacity() == INPUT_BYTES && self.free.len() < BUFFERS_KEPT {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// A buffer for answers, which has grown to what is usual.
    pub fn take_for_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Takes a buffer for answers back, unless one answer made it very large.
    pub fn give_back_from_answers(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty(), "its answers have left");
        if buffer.capacity() <= ANSWER_BYTES_KEPT && buffer.capacity() > self.answers.capacity() {
            self.answers = buffer;
        }
    }

    /// Bytes of the buffers that wait for use.
    pub fn free_bytes(&self) -> u64 {
        (self.free.len() * INPUT_BYTES + self.answers.capacity()) as u64
    }
}

/// Unused bytes of one connection.
#[derive(Default)]
pub(super) struct Input {
    buffer: Vec<u8>,
    start: usize,
}

impl Input {
    /// What is there.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Marks the first `count` bytes as used.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.buffer.len(), "only what is there can be used");
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Bytes of the buffer that is held.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// A buffer with free space to read into; `None` when the input may not grow any more.
    pub fn space<'a>(&'a mut self, buffers: &mut Buffers) -> Option<&'a mut Vec<u8>> {
        if self.buffer.capacity() == 0 {
            self.buffer = buffers.take();
        } else if self.is_empty() {
            self.buffer.clear();
        } else if self.buffer.len() == self.buffer.capacity() {
            if self.start > 0 {
                self.buffer.drain(..self.start);
            } else if self.buffer.capacity() < INPUT_BYTES_MAX {
                self.buffer.reserve_exact(self.buffer.capacity());
            } else {
                return None;
            }
            self.start = 0;
            return Some(&mut self.buffer);
        } else {
            return Some(&mut self.buffer);
        }
        self.start = 0;
        Some(&mut self.buffer)
    }

    /// Gives the buffer back when nothing is in it.
    pub fn release(&mut self, buffers: &mut Buffers) {
        if self.is_empty() && self.buffer.capacity() > 0 {
            self.start = 0;
            buffers.give_back(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(buffers: &mut Buffers, bytes: usize) -> Input {
        let mut input = Input::default();
        input.space(buffers).unwrap().resize(bytes, b'x');
        input
    }

    #[test]
    fn an_empty_input_holds_no_buffer() {
        let mut buffers = Buffers::default();
        let mut input = filled(&mut buffers, 10);
        input.consume(4);
        input.release(&mut buffers);
        assert_eq!((input.unread().len(), buffers.free.len()), (6, 0));
        input.consume(6);
        input.release(&mut buffers);
        assert_eq!((input.capacity(), buffers.free.len()), (0, 1));
        assert_eq!(buffers.free_bytes(), INPUT_BYTES as u64);
    }

    #[test]
    fn an_input_grows_to_its_limit_only() {
        let mut buffers = Buffers::default();
        let mut input = filled(&mut buffers, INPUT_BYTES);
        while let Some(space) = input.space(&mut buffers) {
            assert!(space.capacity() > space.len());
            space.resize(space.capacity(), b'x');
        }
        assert_eq!(input.unread().len(), INPUT_BYTES_MAX);
        input.consume(1);
        assert!(input.space(&mut buffers).is_some(), "a used byte makes room");
        input.consume(input.unread().len());
        input.release(&mut buffers);
        assert!(buffers.free.is_empty(), "large buffers are not kept");
    }
}
