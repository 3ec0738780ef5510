//! Reads frames from a file of many or an object of one.

use bytes::Bytes;
use sandur_model::{Batch, Dataset, TenantId};

use crate::codec::{Reader, crc32c};
use crate::error::Error;
use crate::wal_segment::frame::{FrameHeader, HEADER_LEN, MAGIC};
use crate::wal_segment::limits::{PART, STAMPED_SINCE};
use crate::wal_segment::record::StoredRecord;

/// A frame whose checksums are valid.
#[derive(Clone, Debug)]
pub struct Frame {
    header: FrameHeader,
    offset: u64,
    stamp: u64,
    records: Vec<StoredRecord>,
}

impl Frame {
    /// Reads the frame in an object that holds exactly one.
    pub fn from_object(bytes: Bytes) -> Result<Self, Error> {
        let (header, body) = whole_frame(&bytes, 0)?;
        let frame = Self::parse(header, &body, 0)?;
        let expected = frame.header.frame_len();
        if expected != bytes.len() as u64 {
            return Err(Error::Malformed { part: PART, offset: expected, what: "bytes follow the frame" });
        }
        Ok(frame)
    }

    fn parse(header: FrameHeader, body: &Bytes, offset: u64) -> Result<Self, Error> {
        let mut at = offset + HEADER_LEN as u64;
        let (mut stamp, mut rest) = (0, body.clone());
        if header.version >= STAMPED_SINCE {
            let mut reader = Reader::new(PART, at, body);
            stamp = reader.u64()?;
            (at, rest) = (reader.offset(), body.slice(reader.position()..));
        }
        let records = match header.records {
            0 if rest.is_empty() => Vec::new(),
            count => StoredRecord::get_all(header.version, &rest, at, count)?,
        };
        Ok(Self { header, offset, stamp, records })
    }

    /// Returns the header.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// Returns the time of the frame's [stamp](crate::stamp); 0 if it has none.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns the offset of the frame in its file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of batches.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no batch, as in a fence.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the tenant of a batch, without decoding it.
    pub fn tenant(&self, record: usize) -> &TenantId {
        &self.records[record].tenant
    }

    /// Returns the tenant and the signal of a batch, without decoding it.
    pub fn dataset(&self, record: usize) -> Dataset {
        let StoredRecord { tenant, signal, .. } = &self.records[record];
        Dataset { tenant: tenant.clone(), signal: *signal }
    }

    /// Returns the approximate bytes of a decoded batch.
    pub fn memory_bytes(&self, record: usize) -> u64 {
        self.records[record].memory_bytes()
    }

    /// Decodes one batch.
    pub fn batch(&self, record: usize) -> Result<Batch, Error> {
        self.records[record].batch()
    }

    /// Decodes all batches.
    pub fn batches(&self) -> Result<Vec<Batch>, Error> {
        self.records.iter().map(StoredRecord::batch).collect()
    }
}

/// Returns header and body of the frame at `offset` of `bytes`, after verifying their checksums.
fn whole_frame(bytes: &Bytes, offset: usize) -> Result<(FrameHeader, Bytes), Error> {
    let header = FrameHeader::get(&bytes[offset..], offset as u64)?;
    let start = offset + HEADER_LEN;
    let available = (bytes.len() - start) as u64;
    if header.body_len > available {
        let (offset, needed) = (start as u64, header.body_len);
        return Err(Error::Truncated { part: PART, offset, needed, available });
    }
    let body = bytes.slice(start..start + header.body_len as usize);
    let found = crc32c(&body);
    if found != header.body_crc {
        let (offset, expected) = (start as u64, header.body_crc);
        return Err(Error::Checksum { part: PART, offset, expected, found });
    }
    Ok((header, body))
}

/// Reads the frames of a file one by one.
#[derive(Clone, Debug)]
pub struct FrameReader {
    bytes: Bytes,
    offset: usize,
    last: Option<FrameHeader>,
}

impl FrameReader {
    /// Returns a reader of a complete file.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, offset: 0, last: None }
    }

    /// Returns the offset of the next frame, which is the number of bytes of complete frames so far.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Returns the next frame; `None` at the end of the file.
    ///
    /// A damaged frame with no frame after it is [`Error::Torn`]: most likely it was being written when
    /// the writer stopped, and was never acknowledged. Damage before another frame is corruption and
    /// keeps its own error.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        if self.offset == self.bytes.len() {
            return Ok(None);
        }
        let (header, body) = match whole_frame(&self.bytes, self.offset) {
            Ok(found) => found,
            // The header's checksum is valid, so a newer program or a defect wrote it like this.
            Err(error @ (Error::Version { .. } | Error::TooLarge { .. } | Error::Malformed { .. })) => {
                return Err(error);
            }
            Err(_) if !self.another_follows() => return Err(Error::Torn { valid_len: self.offset as u64 }),
            Err(error) => return Err(error),
        };
        let frame = Frame::parse(header, &body, self.offset as u64)?;
        self.offset += header.frame_len() as usize;
        self.last = Some(header);
        Ok(Some(frame))
    }

    /// Whether the rest of a torn file is shorter than its frame, so that the file ended while the frame
    /// was being written. Otherwise the complete frame is present with wrong bytes: power was lost before
    /// they were durable, or they were damaged later.
    pub fn ends_within_frame(&self) -> bool {
        let rest = &self.bytes[self.offset..];
        match FrameHeader::get(rest, self.offset as u64) {
            Ok(header) => header.frame_len() > rest.len() as u64,
            Err(_) => rest.len() < HEADER_LEN,
        }
    }

    /// Whether a complete header of the same writer with a later sequence number follows the damaged
    /// frame.
    fn another_follows(&self) -> bool {
        let after = self.offset + 1;
        memchr::memmem::find_iter(&self.bytes[after..], &MAGIC).any(|at| {
            let header = FrameHeader::get(&self.bytes[after + at..], (after + at) as u64);
            header.is_ok_and(|header| {
                self.last.is_none_or(|last| {
                    last.id.incarnation == header.id.incarnation && last.id.sequence < header.id.sequence
                })
            })
        })
    }
}
