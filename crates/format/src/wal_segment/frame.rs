//! Frames: the header, and their assembly from records.
//!
//! Header, 68 bytes, little-endian: magic `SWAL`, version (u8: 1, or 2 when a record holds samples, or 3
//! when the body begins with the time of a stamp), kind
//! (u8), two zero bytes, incarnation (16 bytes), sequence (u64), records (u32), body length (u64), first
//! and last timestamp (i64 each), crc32c of the body, crc32c of the header so far.

use bytes::Bytes;
use sandur_base::Id;
use sandur_model::Signal;

use crate::codec::checksum::crc32c_append;
use crate::codec::varint::put_blob;
use crate::codec::varint::put_varint;
use crate::codec::{Reader, crc32c};
use crate::error::Error;
use crate::wal_segment::limits::{PART, SIGNALS_SINCE, STAMPED_SINCE, VERSION, VERSION_MAX};
use crate::wal_segment::record::Record;

/// Bytes of a frame's header.
pub const HEADER_LEN: usize = 68;
/// First bytes of a frame.
pub(crate) const MAGIC: [u8; 4] = *b"SWAL";
/// Most bytes of a body: far above any group commit, and small enough for memory.
pub(crate) const BODY_BYTES_MAX: u64 = 1 << 30;

/// The identity of a frame: its writer and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameId {
    /// The process start that wrote it.
    pub incarnation: Id,
    /// Its number among that writer's frames, from 0.
    pub sequence: u64,
}

/// The purpose of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// It holds batches.
    Data = 0,
    /// It holds no batches: its author sealed the writer, which cannot use this sequence number.
    Fence = 1,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Identity of the frame.
    pub id: FrameId,
    /// Version of its records.
    pub version: u8,
    /// Purpose of the frame.
    pub kind: FrameKind,
    /// Number of batches.
    pub records: u32,
    /// Number of bytes after the header.
    pub body_len: u64,
    /// First timestamp of all entries; [`i64::MAX`] when there is none.
    pub min_ts: i64,
    /// Last timestamp of all entries; [`i64::MIN`] when there is none.
    pub max_ts: i64,
    /// crc32c of the body.
    pub body_crc: u32,
}

impl FrameHeader {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.version, self.kind as u8, 0, 0]);
        out.extend_from_slice(&self.id.incarnation.to_bytes());
        out.extend_from_slice(&self.id.sequence.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.body_len.to_le_bytes());
        out.extend_from_slice(&self.min_ts.to_le_bytes());
        out.extend_from_slice(&self.max_ts.to_le_bytes());
        out.extend_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// Reads the header at the start of `bytes`, which are at `offset` of their file.
    pub fn get(bytes: &[u8], offset: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(PART, offset, bytes);
        let signed = reader.bytes(HEADER_LEN - 4)?;
        let expected = reader.u32()?;
        Reader::new(PART, offset, signed).magic(MAGIC)?;
        let found = crc32c(signed);
        if found != expected {
            return Err(Error::Checksum { part: PART, offset, expected, found });
        }
        let mut reader = Reader::new(PART, offset, signed);
        reader.bytes(4)?;
        let (version, kind, reserved) = (reader.u8()?, reader.u8()?, reader.u16()?);
        reader.version(version.into(), VERSION_MAX.into())?;
        let kind = match kind {
            0 => FrameKind::Data,
            1 => FrameKind::Fence,
            _ => return Err(reader.malformed("the kind of frame is unknown")),
        };
        if reserved != 0 {
            return Err(reader.malformed("reserved bytes are not zero"));
        }
        let header = Self {
            id: FrameId { incarnation: reader.id()?, sequence: reader.u64()? },
            version,
            kind,
            records: reader.u32()?,
            body_len: reader.u64()?,
            min_ts: reader.i64()?,
            max_ts: reader.i64()?,
            body_crc: reader.u32()?,
        };
        if header.body_len > BODY_BYTES_MAX {
            let (found, limit) = (header.body_len, BODY_BYTES_MAX);
            return Err(Error::TooLarge { part: PART, what: "its body", found, limit });
        }
        Ok(header)
    }

    /// Returns the bytes of the complete frame.
    pub fn frame_len(&self) -> u64 {
        HEADER_LEN as u64 + self.body_len
    }
}

/// Appends the frame of these records to `out` in consecutive pieces, and returns its header. The
/// records' text is shared, not copied.
pub fn encode_frame(id: FrameId, records: &[Record], out: &mut Vec<Bytes>) -> Result<FrameHeader, Error> {
    encode_stamped_frame(id, 0, records, out)
}

/// Like [`encode_frame`], with the time of the frame's [stamp](crate::stamp); 0 for a frame without one.
pub fn encode_stamped_frame(
    id: FrameId,
    stamp: u64,
    records: &[Record],
    out: &mut Vec<Bytes>,
) -> Result<FrameHeader, Error> {
    let mut tenants: Vec<&str> = records.iter().map(|r| r.tenant().as_str()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let is_logs = |record: &Record| record.signal() == Signal::Logs;
    let version = match (stamp, records.iter().all(is_logs)) {
        (0, true) => VERSION,
        (0, false) => SIGNALS_SINCE,
        _ => STAMPED_SINCE,
    };
    let mut head = Vec::new();
    if version >= STAMPED_SINCE {
        head.extend_from_slice(&stamp.to_le_bytes());
    }
    put_varint(&mut head, tenants.len() as u64);
    tenants.iter().for_each(|tenant| put_blob(&mut head, tenant.as_bytes()));
    for record in records {
        let tenant = tenants.binary_search(&record.tenant().as_str()).expect("every tenant was collected");
        put_varint(&mut head, tenant as u64);
        record.put(version, &mut head);
    }
    let arenas = || records.iter().map(Record::arena).filter(|arena| !arena.is_empty());
    let body_len = arenas().map(|arena| arena.len() as u64).sum::<u64>() + head.len() as u64;
    if body_len > BODY_BYTES_MAX {
        return Err(Error::TooLarge { part: PART, what: "its body", found: body_len, limit: BODY_BYTES_MAX });
    }
    let header = FrameHeader {
        id,
        version,
        kind: FrameKind::Data,
        records: records.len() as u32,
        body_len,
        min_ts: records.iter().map(Record::min_ts).min().unwrap_or(i64::MAX),
        max_ts: records.iter().map(Record::max_ts).max().unwrap_or(i64::MIN),
        body_crc: arenas().fold(crc32c(&head), |crc, arena| crc32c_append(crc, arena)),
    };
    let mut first = Vec::with_capacity(HEADER_LEN + head.len());
    header.put(&mut first);
    first.append(&mut head);
    out.push(Bytes::from(first));
    out.extend(arenas().cloned());
    Ok(header)
}

/// Returns the frame that seals a writer at this sequence number.
pub fn encode_fence(id: FrameId) -> Bytes {
    let header = FrameHeader {
        id,
        version: VERSION,
        kind: FrameKind::Fence,
        records: 0,
        body_len: 0,
        min_ts: i64::MAX,
        max_ts: i64::MIN,
        body_crc: crc32c(&[]),
    };
    let mut out = Vec::with_capacity(HEADER_LEN);
    header.put(&mut out);
    Bytes::from(out)
}
