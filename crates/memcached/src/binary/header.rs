//! The header of packets, and the encoding of answers.

use crate::output::Bytes;
use sandur_cache::Value;

/// First byte of a request.
pub(crate) const REQUEST_MAGIC: u8 = 0x80;
/// First byte of an answer.
const ANSWER_MAGIC: u8 = 0x81;
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 24;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Status {
    Ok = 0,
    NotFound = 1,
    Exists = 2,
    TooLarge = 3,
    Invalid = 4,
    NotStored = 5,
    NotNumeric = 6,
    NotAuthenticated = 0x20,
    UnknownCommand = 0x81,
    NoMemory = 0x82,
}

impl Status {
    fn text(self) -> &'static [u8] {
        match self {
            Self::Ok => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::Invalid => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NotNumeric => b"Non-numeric server-side value for incr or decr",
            Self::NotAuthenticated => b"Auth failure.",
            Self::UnknownCommand => b"Unknown command",
            Self::NoMemory => b"Out of memory",
        }
    }
}

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub magic: u8,
    pub opcode: u8,
    /// Length of the key in bytes.
    pub key: u16,
    /// Length of the extras in bytes.
    pub extras: u8,
    /// Length of extras, key and value in bytes.
    pub body: u32,
    pub opaque: u32,
    pub cas: u64,
}

impl Header {
    /// Parses the header at the start of `bytes`. Returns `None` if there are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let at = |n: usize| bytes[n];
        Some(Self {
            magic: at(0),
            opcode: at(1),
            key: u16::from_be_bytes([at(2), at(3)]),
            extras: at(4),
            body: u32::from_be_bytes([at(8), at(9), at(10), at(11)]),
            // returned unchanged
            opaque: u32::from_be_bytes([at(12), at(13), at(14), at(15)]),
            cas: u64::from_be_bytes([at(16), at(17), at(18), at(19), at(20), at(21), at(22), at(23)]),
        })
    }

    /// Returns the length of the value in bytes.
    pub fn value_length(&self) -> usize {
        (self.body as usize).saturating_sub(usize::from(self.extras) + usize::from(self.key))
    }

    /// Writes an answer.
    pub fn write(&self, status: Status, cas: u64, extras: &[u8], key: &[u8], value: &[u8], out: &mut Bytes) {
        self.write_head(status, cas, (extras, key), value.len(), out);
        out.push(value);
    }

    /// Writes an answer with a large value.
    pub fn write_value(&self, cas: u64, extras: &[u8], key: &[u8], value: Value, out: &mut Bytes) {
        self.write_head(Status::Ok, cas, (extras, key), value.len(), out);
        out.push_value(value);
    }

    /// Writes an error with its text.
    pub fn write_error(&self, status: Status, out: &mut Bytes) {
        self.write(status, 0, &[], &[], status.text(), out);
    }

    fn write_head(
        &self,
        status: Status,
        cas: u64,
        (extras, key): (&[u8], &[u8]),
        value: usize,
        out: &mut Bytes,
    ) {
        let body = (extras.len() + key.len() + value) as u32;
        let mut head = [0u8; HEADER_BYTES];
        head[0] = ANSWER_MAGIC;
        head[1] = self.opcode;
        head[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        head[4] = extras.len() as u8;
        head[6..8].copy_from_slice(&(status as u16).to_be_bytes());
        head[8..12].copy_from_slice(&body.to_be_bytes());
        head[12..16].copy_from_slice(&self.opaque.to_be_bytes());
        head[16..].copy_from_slice(&cas.to_be_bytes());
        for part in [&head[..], extras, key] {
            out.push(part);
        }
    }
}
