//! The buffer that the JSON decoders translate to: messages of protobuf in memory that is reserved first.

use sandur_protobuf::Writer;

use crate::error::Error;
use crate::memory::DecoderMemory;

/// A message that is being written. After a failed reservation nothing more is appended, and
/// [`MeteredWriter::into_bytes`] returns the error.
pub(crate) struct MeteredWriter {
    bytes: Vec<u8>,
    memory: DecoderMemory,
    short: Option<Error>,
}

impl MeteredWriter {
    /// Returns a writer with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize, memory: &DecoderMemory) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        memory.widen(&mut bytes, capacity, capacity)?;
        Ok(Self { bytes, memory: memory.clone(), short: None })
    }

    /// Returns the message, or the error if memory was short.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Error> {
        match self.short {
            Some(error) => Err(error),
            None => Ok(self.bytes),
        }
    }
}

impl Writer for MeteredWriter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.short.is_none() {
            match self.memory.widen(&mut self.bytes, bytes.len(), usize::MAX) {
                Ok(()) => self.bytes.extend_from_slice(bytes),
                Err(error) => self.short = Some(error),
            }
        }
    }

    #[inline]
    fn written(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}
