//! The text of a batch while it is built: the opened request and what is appended to it.
//!
//! Spans are offsets into the base followed by the tail, which is what the arena will be. A span
//! never crosses from one to the other. Base and tail together never exceed the limit.

use sandur_model::Span;

use crate::error::Error;
use crate::memory::Meter;

/// Bytes that a span can reach.
pub(crate) const ADDRESSABLE_MAX: u64 = u32::MAX as u64;

/// The opened request, borrowed, and the text that is added to it.
pub(crate) struct Text<'a> {
    base: &'a [u8],
    memory: Meter,
    tail: Vec<u8>,
    limit: u64,
}

impl<'a> Text<'a> {
    /// Text over `base`, which may grow to `limit` bytes in all.
    pub(crate) fn new(base: &'a [u8], limit: u64, memory: &Meter) -> Result<Self, Error> {
        if base.len() as u64 > ADDRESSABLE_MAX {
            return Err(Error::DecompressedTooLarge { limit: ADDRESSABLE_MAX });
        }
        let limit = limit.max(base.len() as u64).min(ADDRESSABLE_MAX);
        Ok(Self { base, memory: memory.clone(), tail: Vec::new(), limit })
    }

    /// The request's own bytes.
    pub(crate) fn base(&self) -> &'a [u8] {
        self.base
    }

    /// The bytes of a span.
    pub(crate) fn get(&self, span: Span) -> &[u8] {
        let (start, len) = (span.start as usize, span.len as usize);
        match start.checked_sub(self.base.len()) {
            None => &self.base[start..start + len],
            Some(start) => &self.tail[start..start + len],
        }
    }

    /// Adds bytes and says where they are.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Span, Error> {
        self.memory.widen(&mut self.tail, bytes.len(), usize::MAX)?;
        self.append_with(|tail| tail.extend_from_slice(bytes))
    }

    /// Adds what `write` appends. A single write, which is small, is bounded by its caller, the sum is
    /// bounded here.
    pub(crate) fn append_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Span, Error> {
        let (from, room) = (self.tail.len(), self.tail.capacity());
        write(&mut self.tail);
        self.memory.take((self.tail.capacity() - room) as u64)?;
        let end = self.base.len() as u64 + self.tail.len() as u64;
        if end > self.limit {
            return Err(Error::DecompressedTooLarge { limit: self.limit });
        }
        Ok(Span { start: (self.base.len() + from) as u32, len: (self.tail.len() - from) as u32 })
    }

    /// What was added.
    pub(crate) fn into_tail(self) -> Vec<u8> {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_reach_base_and_tail_and_the_sum_is_bounded() {
        let mut text = Text::new(b"base", 10, &Meter::default()).unwrap();
        let tail = text.append(b"tail").unwrap();
        assert_eq!(text.get(Span { start: 1, len: 3 }), b"ase");
        assert_eq!((tail.start, text.get(tail)), (4, b"tail".as_slice()));
        assert_eq!(text.get(Span { start: 4, len: 0 }), b"");
        assert!(text.append(b"xx").is_ok());
        assert!(matches!(text.append(b"x"), Err(Error::DecompressedTooLarge { limit: 10 })));
    }
}
