//! Unprocessed bytes from a client, and the buffers that the connections of a worker share.
//!
//! Invariants: an idle connection has no buffer: an empty [`Input`] returns its buffer to the worker's
//! [`Buffers`], which keeps a bounded number of them. An input grows to at most [`INPUT_BYTES_MAX`], and
//! all inputs of a worker together to its limit, if it has one.

/// Bytes of a new buffer. One read gets all bytes of usual requests and pipelines.
pub(super) const INPUT_BYTES: usize = 16 << 10;
/// The largest command line in bytes. Only a multiget of many keys comes near.
pub(super) const INPUT_BYTES_MAX: usize = 16 << 20;
/// The largest number of buffers that a worker keeps for reuse.
const BUFFERS_KEPT: usize = 64;
/// The largest answer buffer in bytes that a worker keeps.
const ANSWER_BYTES_KEPT: usize = 2 << 20;

/// The buffers of one worker.
pub(super) struct Buffers {
    /// The largest number of bytes that connections may use.
    limit: usize,
    /// Bytes that connections use.
    lent: usize,
    free: Vec<Vec<u8>>,
    /// The buffer for answers of the connection that is being served.
    answers: Vec<u8>,
}

/// Why there is no space to read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSpace {
    /// This input has its largest size.
    TooLong,
    /// All inputs of the worker together have their largest size.
    OutOfMemory,
}

impl Default for Buffers {
    fn default() -> Self {
        Self::within(0)
    }
}

impl Buffers {
    /// Buffers for connections that may use `limit` bytes together, but at least two buffers; 0 is no
    /// limit.
    pub fn within(limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit.max(2 * INPUT_BYTES) };
        Self { limit, lent: 0, free: Vec::new(), answers: Vec::new() }
    }

    fn lend(&mut self, bytes: usize) -> Result<(), NoSpace> {
        if bytes > self.limit - self.lent {
            return Err(NoSpace::OutOfMemory);
        }
        self.lent += bytes;
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<u8>, NoSpace> {
        self.lend(INPUT_BYTES)?;
        Ok(self.free.pop().unwrap_or_else(|| Vec::with_capacity(INPUT_BYTES)))
    }

    fn give_back(&mut self, mut buffer: Vec<u8>, lent: usize) {
        self.lent -= lent;
        // a buffer that grew for one long line is not kept
        if buffer.capacity() == INPUT_BYTES && self.free.len() < BUFFERS_KEPT {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// Returns a buffer for answers, which has grown to the usual size.
    pub fn take_for_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Keeps a buffer for answers for reuse, unless one answer made it very large.
    pub fn give_back_from_answers(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty(), "its answers are sent");
        if buffer.capacity() <= ANSWER_BYTES_KEPT && buffer.capacity() > self.answers.capacity() {
            self.answers = buffer;
        }
    }

    /// Returns the bytes of the buffers that are kept for reuse.
    pub fn free_bytes(&self) -> u64 {
        (self.free.len() * INPUT_BYTES + self.answers.capacity()) as u64
    }
}

/// The unprocessed bytes of one connection.
#[derive(Default)]
pub(super) struct Input {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes that the worker's buffers count for this input.
    lent: usize,
}

impl Input {
    /// Returns the unprocessed bytes.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Marks the first `count` bytes as processed.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.buffer.len(), "only existing bytes can be consumed");
    }

    /// Returns whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Returns the size of the buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns a buffer with free space to read into.
    pub fn space<'a>(&'a mut self, buffers: &mut Buffers) -> Result<&'a mut Vec<u8>, NoSpace> {
        if self.buffer.capacity() == 0 {
            self.buffer = buffers.take()?;
            self.lent = INPUT_BYTES;
        } else if self.is_empty() {
            self.buffer.clear();
        } else if self.buffer.len() == self.buffer.capacity() {
            if self.start > 0 {
                self.buffer.drain(..self.start);
            } else if self.buffer.capacity() < INPUT_BYTES_MAX {
                buffers.lend(self.buffer.capacity())?;
                self.lent += self.buffer.capacity();
                self.buffer.reserve_exact(self.buffer.capacity());
            } else {
                return Err(NoSpace::TooLong);
            }
        } else {
            return Ok(&mut self.buffer);
        }
        self.start = 0;
        Ok(&mut self.buffer)
    }

    /// Returns the buffer to the worker, whatever its contents: the connection has ended.
    pub fn abandon(&mut self, buffers: &mut Buffers) {
        self.start = self.buffer.len();
        self.release(buffers);
    }

    /// Returns the buffer to the worker if it is empty.
    pub fn release(&mut self, buffers: &mut Buffers) {
        if self.is_empty() && self.buffer.capacity() > 0 {
            self.start = 0;
            buffers.give_back(std::mem::take(&mut self.buffer), std::mem::take(&mut self.lent));
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
    fn an_empty_input_has_no_buffer() {
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
    fn an_input_grows_only_to_its_limit() {
        let mut buffers = Buffers::default();
        let mut input = filled(&mut buffers, INPUT_BYTES);
        while let Ok(space) = input.space(&mut buffers) {
            assert!(space.capacity() > space.len());
            space.resize(space.capacity(), b'x');
        }
        assert_eq!(input.unread().len(), INPUT_BYTES_MAX);
        assert_eq!(input.space(&mut buffers).err(), Some(NoSpace::TooLong));
        input.consume(1);
        assert!(input.space(&mut buffers).is_ok(), "a consumed byte makes room");
        input.consume(input.unread().len());
        input.release(&mut buffers);
        assert!(buffers.free.is_empty() && buffers.lent == 0, "large buffers are not kept");
    }

    #[test]
    fn inputs_of_a_worker_share_its_limit() {
        let mut buffers = Buffers::within(3 * INPUT_BYTES);
        let mut first = filled(&mut buffers, INPUT_BYTES);
        first.space(&mut buffers).unwrap().push(b'x');
        let mut second = filled(&mut buffers, INPUT_BYTES);
        assert_eq!(second.space(&mut buffers).err(), Some(NoSpace::OutOfMemory));
        assert_eq!(Input::default().space(&mut buffers).err(), Some(NoSpace::OutOfMemory));
        first.abandon(&mut buffers);
        assert!(second.space(&mut buffers).is_ok());
        second.abandon(&mut buffers);
        assert_eq!((buffers.lent, first.capacity(), second.capacity()), (0, 0, 0));
        assert_eq!(Buffers::within(1).limit, 2 * INPUT_BYTES, "at least one client can be served");
    }
}
