//! A checkpoint: the catalog's whole state at one number, as a small root and bounded parts.
//!
//! Parts hold blocks, sorted by tenant, window and id, compressed; the root holds everything else
//! and each part's length and checksum. Parts are written before the root and belong to it alone.

use sandur_base::Id;
use sandur_model::Dataset;

use super::block_meta::{BLOCK_BYTES_MIN, BlockMeta};
use super::delete_request::TenantDeletes;
use super::entry::{NAME_BYTES_MAX, WalKind, bounded};
use super::error::FormatError;
use super::frame::{self, Kind};
use super::log_chain::LogChain;
use super::wire::{Reader, Sink};

const ROOT: Kind = Kind { magic: *b"SDCR", version: 3, newest: 4, name: "checkpoint root" };
/// The version since which roots hold delete requests.
const DELETES_SINCE: u8 = 2;
/// The version since which roots hold checksums of the log.
const CHAIN_SINCE: u8 = 3;
const PART: Kind = Kind { magic: *b"SDCP", version: 1, newest: 2, name: "checkpoint part" };

/// Most blocks of one part: about 1 MiB before compression at typical tenant names.
pub const PART_ROWS_MAX: usize = 8192;
/// Most bytes of one part before compression: every row with the longest tenant id and numbers.
const PART_BYTES_MAX: usize = PART_ROWS_MAX * 384;
/// Fast, and the parts are mostly random ids anyway.
const ZSTD_LEVEL: i32 = 1;

/// A process that registered with the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Id of the process start.
    pub incarnation: Id,
    /// Where it answers peers.
    pub address: String,
    /// Host name, for people.
    pub host: String,
    /// When it started by its own clock, milliseconds since the epoch, for people.
    pub started_ms: i64,
    /// Where its WAL is.
    pub wal: WalKind,
    /// First sequence number of its WAL whose rows are not yet in blocks.
    pub floor: u64,
    /// Sequence number of the fence once it is sealed; its WAL ends before it.
    pub fence: Option<u64>,
    /// Blocks that it made with an id at or below this one can never be added any more.
    pub orphan_floor: Option<Id>,
}

impl Writer {
    /// Whether it is fenced: it can acknowledge nothing any more.
    pub fn is_sealed(&self) -> bool {
        self.fence.is_some()
    }

    /// Whether it is sealed and all its rows are in blocks.
    pub fn is_drained(&self) -> bool {
        self.fence.is_some_and(|fence| self.floor >= fence)
    }
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its edits are part of the state.
    Applied,
    /// The precondition with this index did not hold.
    Precondition(u16),
    /// The edit with this index contradicts the state.
    Edit(u16),
}

/// The memory of a session: what makes writing a transaction twice harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Largest sequence number that was decided.
    pub last_sequence: u64,
    /// Number of the entry that decided it.
    pub at: u64,
    /// Sequence numbers and verdicts of that entry's transactions.
    pub verdicts: Vec<(u64, Verdict)>,
}

/// One part as the root knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRef {
    /// Blocks in the part.
    pub rows: u32,
    /// Bytes of the object.
    pub size: u64,
    /// CRC-32C of the whole object.
    pub checksum: u32,
}

/// A block in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRow {
    /// The block.
    pub meta: BlockMeta,
    /// When it was removed, milliseconds since the epoch by the remover's clock; `None` if it exists.
    pub removed_at_ms: Option<i64>,
}

/// The root of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRoot {
    /// The state is the one after this entry.
    pub number: u64,
    /// Unique id of this checkpoint: its parts are named after it.
    pub id: Id,
    /// Registered processes by incarnation.
    pub writers: Vec<Writer>,
    /// Sessions by id.
    pub sessions: Vec<(Id, Session)>,
    /// The parts in order.
    pub parts: Vec<PartRef>,
    /// Delete requests by dataset.
    pub deletes: Vec<(Dataset, TenantDeletes)>,
    /// The end of the log that the checkpoint was made from.
    pub chain: LogChain,
}

impl CheckpointRoot {
    /// The object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&ROOT);
        out.u64(self.number);
        out.id(self.id);
        out.count(self.writers.len());
        for writer in &self.writers {
            writer.encode(&mut out);
        }
        out.count(self.sessions.len());
        for (id, session) in &self.sessions {
            out.id(*id);
            session.encode(&mut out);
        }
        out.count(self.parts.len());
        for part in &self.parts {
            out.u32(part.rows);
            out.u64(part.size);
            out.u32(part.checksum);
        }
        out.count(self.deletes.len());
        for (dataset, deletes) in &self.deletes {
            out.dataset(dataset);
            deletes.encode(&mut out);
        }
        self.chain.encode(&mut out);
        frame::seal(&ROOT, out)
    }

    /// Reads a root.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut from = Reader::new(frame::open(&ROOT, bytes)?);
        let version = frame::version(bytes);
        let (number, id) = (from.u64("number")?, from.id("checkpoint id")?);
        let mut writers = Vec::new();
        for _ in 0..from.count(30, "writers")? {
            writers.push(Writer::decode(&mut from)?);
        }
        let mut sessions = Vec::new();
        for _ in 0..from.count(19, "sessions")? {
            sessions.push((from.id("session")?, Session::decode(&mut from)?));
        }
        let mut parts = Vec::new();
        for _ in 0..from.count(16, "parts")? {
            let (rows, size) = (from.u32("part rows")?, from.u64("part size")?);
            parts.push(PartRef { rows, size, checksum: from.u32("part checksum")? });
        }
        let mut deletes = Vec::new();
        if version >= DELETES_SINCE {
            for _ in 0..from.count(4, "tenants with deletes")? {
                let dataset = from.dataset()?;
                let requests = TenantDeletes::decode(&dataset, &mut from)?;
                deletes.push((dataset, requests));
            }
        }
        let chain = match version >= CHAIN_SINCE {
            true => LogChain::decode(&mut from)?,
            false => LogChain::default(),
        };
        from.finish(ROOT.name)?;
        Ok(Self { number, id, writers, sessions, parts, deletes, chain })
    }
}

impl Writer {
    fn encode(&self, out: &mut Sink) {
        out.id(self.incarnation);
        out.text(&self.address);
        out.text(&self.host);
        out.i64(self.started_ms);
        self.wal.encode(out);
        out.varint(self.floor);
        out.u8(u8::from(self.fence.is_some()) | u8::from(self.orphan_floor.is_some()) << 1);
        if let Some(fence) = self.fence {
            out.varint(fence);
        }
        if let Some(id) = self.orphan_floor {
            out.id(id);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let mut writer = Self {
            incarnation: from.id("incarnation")?,
            address: from.text(NAME_BYTES_MAX, "address")?.to_owned(),
            host: from.text(NAME_BYTES_MAX, "host name")?.to_owned(),
            started_ms: from.i64("start time")?,
            wal: WalKind::decode(from)?,
            floor: from.varint("floor")?,
            fence: None,
            orphan_floor: None,
        };
        let flags = from.u8("writer flags")?;
        if flags > 3 {
            return Err(FormatError::Range { what: "writer flags", value: u64::from(flags) });
        }
        if flags & 1 != 0 {
            writer.fence = Some(from.varint("fence")?);
        }
        if flags & 2 != 0 {
            writer.orphan_floor = Some(from.id("orphan floor")?);
        }
        Ok(writer)
    }
}

impl Session {
    fn encode(&self, out: &mut Sink) {
        out.varint(self.last_sequence);
        out.varint(self.at);
        out.count(self.verdicts.len());
        for (sequence, verdict) in &self.verdicts {
            let (tag, index) = match verdict {
                Verdict::Applied => (0, 0),
                Verdict::Precondition(index) => (1, *index),
                Verdict::Edit(index) => (2, *index),
            };
            out.varint(*sequence);
            out.u8(tag);
            out.varint(u64::from(index));
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, FormatError> {
        let (last_sequence, at) = (from.varint("sequence")?, from.varint("number")?);
        let mut verdicts = Vec::new();
        for _ in 0..from.count(3, "verdicts")? {
            let (sequence, tag) = (from.varint("sequence")?, from.u8("verdict")?);
            let value = from.varint("verdict index")?;
            let index = u16::try_from(value);
            let index = index.map_err(|_| FormatError::Range { what: "verdict index", value })?;
            let verdict = match tag {
                0 => Verdict::Applied,
                1 => Verdict::Precondition(index),
                2 => Verdict::Edit(index),
                tag => return Err(FormatError::Tag { what: "verdict", tag }),
            };
            verdicts.push((sequence, verdict));
        }
        Ok(Self { last_sequence, at, verdicts })
    }
}

/// The bytes of a part with these blocks.
pub fn encode_part(rows: &[PartRow]) -> Result<Vec<u8>, FormatError> {
    bounded("blocks of a checkpoint part", rows.len(), PART_ROWS_MAX)?;
    let mut raw = Sink::default();
    for row in rows {
        let clean = row.meta.deletes_through > 0;
        raw.u8(u8::from(row.removed_at_ms.is_some()) | u8::from(clean) << 1);
        if let Some(at) = row.removed_at_ms {
            raw.i64(at);
        }
        if clean {
            raw.varint(row.meta.deletes_through);
        }
        row.meta.encode(&mut raw);
    }
    let packed = zstd::bulk::compress(&raw.bytes, ZSTD_LEVEL);
    let packed = packed.map_err(|_| FormatError::Compression { what: PART.name })?;
    let mut out = frame::begin(&PART);
    out.names_metrics = raw.names_metrics;
    out.u32(rows.len() as u32);
    out.u32(raw.bytes.len() as u32);
    out.bytes.extend_from_slice(&packed);
    Ok(frame::seal(&PART, out))
}

/// Reads a part.
pub fn decode_part(bytes: &[u8]) -> Result<Vec<PartRow>, FormatError> {
    let body = frame::open(&PART, bytes)?;
    let mut header = Reader::new(body);
    let (rows, length) = (header.u32("part rows")?, header.u32("part length")?);
    let (rows, length) = (rows as usize, length as usize);
    if length > PART_BYTES_MAX || rows > length / BLOCK_BYTES_MIN {
        return Err(FormatError::Range { what: "part length", value: length as u64 });
    }
    let raw = zstd::bulk::decompress(&body[8..], length).ok().filter(|raw| raw.len() == length);
    let raw = raw.ok_or(FormatError::Compression { what: PART.name })?;
    let mut from = Reader::new(&raw);
    let mut found = Vec::with_capacity(rows);
    for _ in 0..rows {
        let state = from.u8("block state")?;
        if state > 3 {
            return Err(FormatError::Tag { what: "block state", tag: state });
        }
        let removed_at_ms = if state & 1 != 0 { Some(from.i64("removal time")?) } else { None };
        let deletes_through = if state & 2 != 0 { from.varint("number of an entry")? } else { 0 };
        let meta = BlockMeta { deletes_through, ..BlockMeta::decode(&mut from)? };
        found.push(PartRow { meta, removed_at_ms });
    }
    from.finish(PART.name)?;
    Ok(found)
}
