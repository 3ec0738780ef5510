//! A checkpoint: the catalog's complete state at one number, as a small root and bounded parts.
//!
//! Parts hold blocks, sorted by tenant, window and id, compressed. The root holds all other state, and
//! the length and checksum of each part. Parts are written before the root and belong to no other root.

use sandur_base::Id;
use sandur_model::{Dataset, RuleShards};

use super::block_meta::{BLOCK_BYTES_MIN, BlockMeta};
use super::delete_request::TenantDeletes;
use super::entry::WalKind;
use super::forms::BlockForms;
use super::frame::{self, Kind};
use super::log_chain::LogChain;
use super::node_description::NodeDescription;
use super::wire::{NAME_BYTES_MAX, Sink, bounded};
use crate::codec::Reader;
use crate::error::Error;

const ROOT: Kind = Kind { magic: *b"SDCR", version: 3, metrics: 4, newest: 7, name: "checkpoint root" };
/// The version since which roots hold delete requests.
const DELETES_SINCE: u8 = 2;
/// The version since which roots hold checksums of the log.
const CHAIN_SINCE: u8 = 3;
/// The version of roots that hold active versions of blocks, and of later ones.
const FORMS_SINCE: u8 = 5;
/// The version of roots that describe nodes, and of later ones.
const NODES_SINCE: u8 = 6;
/// The version of roots that hold the stamps of writers and the owners of rules, and of later ones.
const STAMPS_SINCE: u8 = 7;
/// Flags of a writer: it is sealed, it has an orphan floor, its node is described, it states stamps, it owns
/// shards of rules.
const SEALED: u8 = 1;
const FLOORED: u8 = 2;
const DESCRIBED: u8 = 4;
const STAMPED: u8 = 8;
const OWNING: u8 = 16;
const PART: Kind = Kind { magic: *b"SDCP", version: 1, metrics: 3, newest: 3, name: "checkpoint part" };
/// Flags of a row: the block is removed, it is clean of deletes, it has a place in the order of writing.
const REMOVED: u8 = 1;
const CLEAN: u8 = 2;
const PLACED: u8 = 4;

/// Most blocks of one part: about 1 MiB before compression at typical tenant names.
pub const PART_ROWS_MAX: usize = 8192;
/// Most bytes of one part before compression: every row with the longest tenant id and numbers.
const PART_BYTES_MAX: usize = PART_ROWS_MAX * 384;
/// A fast level: most bytes of the parts are random ids.
const ZSTD_LEVEL: i32 = 1;

/// A process that registered with the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Id of the process start.
    pub incarnation: Id,
    /// The address at which it serves peers.
    pub address: String,
    /// Host name, for display.
    pub host: String,
    /// When it started by its own clock, in milliseconds since the epoch, for display.
    pub started_ms: i64,
    /// Kind of storage of its WAL.
    pub wal: WalKind,
    /// First sequence number of its WAL whose rows are not yet in blocks.
    pub floor: u64,
    /// Sequence number of the fence once it is sealed; its WAL ends before the fence.
    pub fence: Option<u64>,
    /// Blocks of this writer with an id at or below this one can never be added any more.
    pub orphan_floor: Option<Id>,
    /// The version of edits that it reads.
    pub edits: u16,
    /// The versions of blocks that it reads; `None` if it states none.
    pub reads: Option<BlockForms>,
    /// Its node; `None` while a writer is registered that does not read descriptions.
    pub node: Option<NodeDescription>,
    /// The stamps of its samples that are not in blocks are later than this time; 0 if it states none.
    pub stamps_after: u64,
    /// The shards of rules that it evaluates; none once it is sealed.
    pub rules: RuleShards,
}

impl Writer {
    /// Whether blocks of these versions may be written while it is registered.
    pub fn allows(&self, forms: BlockForms) -> bool {
        self.is_sealed() || self.reads.unwrap_or(BlockForms::UNSTATED).include(forms)
    }

    /// Whether edits of this version may be written while it is registered.
    pub fn reads_edits(&self, version: u16) -> bool {
        self.is_sealed() || self.edits >= version
    }

    /// Whether it is fenced and so can acknowledge nothing any more.
    pub fn is_sealed(&self) -> bool {
        self.fence.is_some()
    }

    /// Whether it is sealed and all its rows are in blocks.
    pub fn is_drained(&self) -> bool {
        self.fence.is_some_and(|fence| self.floor >= fence)
    }
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its edits are part of the state.
    Applied,
    /// The precondition with this index did not hold.
    Precondition(u16),
    /// The edit with this index contradicts the state.
    Edit(u16),
}

/// The remembered outcomes of a session, because of which writing a transaction twice has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Largest decided sequence number.
    pub last_sequence: u64,
    /// Number of the entry that decided it.
    pub at: u64,
    /// Sequence numbers and verdicts of that entry's transactions.
    pub verdicts: Vec<(u64, Verdict)>,
}

/// A reference from the root to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRef {
    /// Number of blocks in the part.
    pub rows: u32,
    /// Bytes of the object.
    pub size: u64,
    /// CRC-32C of the complete object.
    pub checksum: u32,
}

/// A block in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRow {
    /// The block.
    pub meta: BlockMeta,
    /// When it was removed, in milliseconds since the epoch by the remover's clock; `None` if it exists.
    pub removed_at_ms: Option<i64>,
}

/// The root of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRoot {
    /// The state is the one after this entry.
    pub number: u64,
    /// Unique id of this checkpoint, used in the names of its parts.
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
    /// The versions of blocks that processes may write.
    pub forms: BlockForms,
    /// The latest time of stamps that a writer has stated, also one that is forgotten; 0 without any.
    pub stamps_before: u64,
}

impl CheckpointRoot {
    /// Returns the object's bytes; an error if a host name is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = frame::begin(&ROOT);
        out.u64(self.number);
        out.id(self.id);
        out.count(self.writers.len());
        for writer in &self.writers {
            writer.encode(&mut out)?;
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
        // As long as none was activated, no node is described, no stamp is stated and nobody owns rules,
        // earlier programs read the root.
        let has = |what: fn(&Writer) -> bool| self.writers.iter().any(what);
        let least = match () {
            () if self.stamps_before > 0 || has(|writer| !writer.rules.is_empty()) => Some(STAMPS_SINCE),
            () if has(|writer| writer.node.is_some()) => Some(NODES_SINCE),
            () if self.forms != BlockForms::UNSTATED => Some(FORMS_SINCE),
            () => None,
        };
        if let Some(least) = least {
            out.least = least;
            out.forms(self.forms);
            if least >= STAMPS_SINCE {
                out.varint(self.stamps_before);
            }
        }
        Ok(frame::seal(&ROOT, out))
    }

    /// Decodes a root.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&ROOT, bytes)?;
        let version = frame::version(bytes);
        let (number, id) = (from.u64()?, from.id()?);
        let mut writers = Vec::new();
        for _ in 0..from.count_of(30)? {
            writers.push(Writer::decode(&mut from, version)?);
        }
        let mut sessions = Vec::new();
        for _ in 0..from.count_of(19)? {
            sessions.push((from.id()?, Session::decode(&mut from)?));
        }
        let mut parts = Vec::new();
        for _ in 0..from.count_of(16)? {
            let (rows, size) = (from.u32()?, from.u64()?);
            parts.push(PartRef { rows, size, checksum: from.u32()? });
        }
        let mut deletes = Vec::new();
        if version >= DELETES_SINCE {
            for _ in 0..from.count_of(4)? {
                let dataset = from.dataset()?;
                let requests = TenantDeletes::decode(&dataset, &mut from)?;
                deletes.push((dataset, requests));
            }
        }
        let chain = match version >= CHAIN_SINCE {
            true => LogChain::decode(&mut from)?,
            false => LogChain::default(),
        };
        let forms = if version >= FORMS_SINCE { from.forms()? } else { BlockForms::UNSTATED };
        let stamps_before = if version >= STAMPS_SINCE { from.varint()? } else { 0 };
        from.finish()?;
        Ok(Self { number, id, writers, sessions, parts, deletes, chain, forms, stamps_before })
    }
}

impl Writer {
    fn encode(&self, out: &mut Sink) -> Result<(), Error> {
        out.id(self.incarnation);
        out.text(&self.address);
        out.host(&self.host, self.edits, self.reads)?;
        out.i64(self.started_ms);
        self.wal.encode(out);
        out.varint(self.floor);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.u8(flag(self.fence.is_some(), SEALED)
            | flag(self.orphan_floor.is_some(), FLOORED)
            | flag(self.node.is_some(), DESCRIBED)
            | flag(self.stamps_after > 0, STAMPED)
            | flag(!self.rules.is_empty(), OWNING));
        if let Some(fence) = self.fence {
            out.varint(fence);
        }
        if let Some(id) = self.orphan_floor {
            out.id(id);
        }
        if let Some(node) = &self.node {
            node.encode(out)?;
        }
        if self.stamps_after > 0 {
            out.varint(self.stamps_after);
        }
        if !self.rules.is_empty() {
            out.varint(self.rules.bits());
        }
        Ok(())
    }

    fn decode(from: &mut Reader<'_>, version: u8) -> Result<Self, Error> {
        let (incarnation, address) = (from.id()?, from.text_within("address", NAME_BYTES_MAX)?.to_owned());
        let (host, edits, reads) = from.host()?;
        let mut writer = Self {
            incarnation,
            address,
            host,
            edits,
            reads,
            started_ms: from.i64()?,
            wal: WalKind::decode(from)?,
            floor: from.varint()?,
            fence: None,
            orphan_floor: None,
            node: None,
            stamps_after: 0,
            rules: RuleShards::NONE,
        };
        let flags = from.u8()?;
        let known = match version {
            STAMPS_SINCE.. => SEALED | FLOORED | DESCRIBED | STAMPED | OWNING,
            NODES_SINCE => SEALED | FLOORED | DESCRIBED,
            _ => SEALED | FLOORED,
        };
        if flags & !known != 0 {
            return Err(from.malformed("the flags of a writer are unknown"));
        }
        if flags & SEALED != 0 {
            writer.fence = Some(from.varint()?);
        }
        if flags & FLOORED != 0 {
            writer.orphan_floor = Some(from.id()?);
        }
        if flags & DESCRIBED != 0 {
            writer.node = Some(NodeDescription::decode(from)?);
        }
        if flags & STAMPED != 0 {
            writer.stamps_after = from.varint()?;
        }
        if flags & OWNING != 0 {
            writer.rules = RuleShards::from_bits(from.varint()?);
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

    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        let (last_sequence, at) = (from.varint()?, from.varint()?);
        let mut verdicts = Vec::new();
        for _ in 0..from.count_of(3)? {
            let (sequence, tag) = (from.varint()?, from.u8()?);
            let value = from.varint()?;
            let index = u16::try_from(value);
            let index = index.map_err(|_| from.malformed("the index of a verdict has more than 16 bits"))?;
            let verdict = match tag {
                0 => Verdict::Applied,
                1 => Verdict::Precondition(index),
                2 => Verdict::Edit(index),
                tag => return Err(from.unknown("verdict", tag)),
            };
            verdicts.push((sequence, verdict));
        }
        Ok(Self { last_sequence, at, verdicts })
    }
}

/// Returns the bytes of a part with these blocks.
pub fn encode_part(rows: &[PartRow]) -> Result<Vec<u8>, Error> {
    bounded(PART.name, "its number of blocks", rows.len(), PART_ROWS_MAX)?;
    let mut raw = Sink::default();
    for row in rows {
        let BlockMeta { deletes_through, place, .. } = row.meta;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let removed = flag(row.removed_at_ms.is_some(), REMOVED);
        raw.u8(removed | flag(deletes_through > 0, CLEAN) | flag(place > 0, PLACED));
        if let Some(at) = row.removed_at_ms {
            raw.i64(at);
        }
        for number in [deletes_through, place].into_iter().filter(|number| *number > 0) {
            raw.varint(number);
        }
        row.meta.encode(&mut raw);
    }
    let packed = zstd::bulk::compress(&raw.bytes, ZSTD_LEVEL);
    let packed = packed.map_err(|_| Error::Misuse("a checkpoint part cannot be compressed"))?;
    let mut out = frame::begin(&PART);
    out.names_metrics = raw.names_metrics;
    out.u32(rows.len() as u32);
    out.u32(raw.bytes.len() as u32);
    out.bytes.extend_from_slice(&packed);
    Ok(frame::seal(&PART, out))
}

/// Decodes a part.
pub fn decode_part(bytes: &[u8]) -> Result<Vec<PartRow>, Error> {
    let mut header = frame::open(&PART, bytes)?;
    let (rows, length) = (header.u32()?, header.u32()?);
    let (rows, length) = (rows as usize, length as usize);
    if length > PART_BYTES_MAX || rows > length / BLOCK_BYTES_MIN {
        let (part, found, limit) = (PART.name, length as u64, PART_BYTES_MAX as u64);
        return Err(Error::TooLarge { part, what: "its length before compression", found, limit });
    }
    let packed = header.rest();
    let raw = zstd::bulk::decompress(packed, length).ok().filter(|raw| raw.len() == length);
    let raw = raw.ok_or_else(|| header.malformed("it does not decompress to its declared length"))?;
    let mut from = Reader::new(PART.name, 0, &raw);
    let mut found = Vec::with_capacity(rows);
    for _ in 0..rows {
        let state = from.u8()?;
        if state > REMOVED | CLEAN | PLACED {
            return Err(from.unknown("block state", state));
        }
        let removed_at_ms = if state & REMOVED != 0 { Some(from.i64()?) } else { None };
        let deletes_through = if state & CLEAN != 0 { from.varint()? } else { 0 };
        let place = if state & PLACED != 0 { from.varint()? } else { 0 };
        let meta = BlockMeta { deletes_through, place, ..BlockMeta::decode(&mut from)? };
        found.push(PartRow { meta, removed_at_ms });
    }
    from.finish()?;
    Ok(found)
}
