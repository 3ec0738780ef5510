//! The text of a batch that is being built: the decompressed request (base) and the text appended to it
//! (tail).
//!
//! Spans are offsets into the base followed by the tail, which together become the arena. A span never
//! crosses from one to the other. Base and tail together never exceed the limit.

use sandur_model::Span;

use crate::error::Error;
use crate::memory::DecoderMemory;

/// Most bytes that spans can address.
pub(crate) const ADDRESSABLE_MAX: u64 = u32::MAX as u64;

/// The decompressed request, borrowed, and the text that is appended.
pub(crate) struct Text<'a> {
    base: &'a [u8],
    memory: DecoderMemory,
    tail: Vec<u8>,
    limit: u64,
}

impl<'a> Text<'a> {
    /// Returns a text over `base` that may grow to `limit` bytes in total.
    pub(crate) fn new(base: &'a [u8], limit: u64, memory: &DecoderMemory) -> Result<Self, Error> {
        if base.len() as u64 > ADDRESSABLE_MAX {
            return Err(Error::DecompressedTooLarge { limit: ADDRESSABLE_MAX });
        }
        let limit = limit.max(base.len() as u64).min(ADDRESSABLE_MAX);
        Ok(Self { base, memory: memory.clone(), tail: Vec::new(), limit })
    }

    /// Returns the bytes of the request.
    pub(crate) fn base(&self) -> &'a [u8] {
        self.base
    }

    /// Returns the bytes of a span.
    pub(crate) fn get(&self, span: Span) -> &[u8] {
        let (start, len) = (span.start as usize, span.len as usize);
        match start.checked_sub(self.base.len()) {
            None => &self.base[start..start + len],
            Some(start) => &self.tail[start..start + len],
        }
    }

    /// Appends bytes and returns their span.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<Span, Error> {
        self.memory.widen(&mut self.tail, bytes.len(), usize::MAX)?;
        self.append_with(|tail| tail.extend_from_slice(bytes))
    }

    /// Appends what `write` writes and returns its span. The caller bounds a single write, which is
    /// small; this function bounds the sum.
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

    /// Returns the appended text.
    pub(crate) fn into_tail(self) -> Vec<u8> {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_address_base_and_tail_and_their_sum_is_bounded() {
        let mut text = Text::new(b"base", 10, &DecoderMemory::default()).unwrap();
        let tail = text.append(b"tail").unwrap();
        assert_eq!(text.get(Span { start: 1, len: 3 }), b"ase");
        assert_eq!((tail.start, text.get(tail)), (4, b"tail".as_slice()));
        assert_eq!(text.get(Span { start: 4, len: 0 }), b"");
        assert!(text.append(b"xx").is_ok());
        assert!(matches!(text.append(b"x"), Err(Error::DecompressedTooLarge { limit: 10 })));
    }
}
