//! The objects of a backup: the manifest, which says that a backup is complete, and marks.
//!
//! `docs/formats/backup.md` describes the bytes. A manifest lists the copies of the WAL and of stored rules
//! with their checksums, and the checksum of the root of a checkpoint, which lists the blocks.

use sandur_base::Id;

use super::frame::{self, Kind};
use super::log_chain::LogPosition;
use super::wire::{NAME_BYTES_MAX, Sink, bounded};
use crate::codec::Reader;
use crate::error::Error;

const MANIFEST: Kind = Kind { magic: *b"SDBM", version: 1, metrics: 1, newest: 2, name: "backup manifest" };
/// The version that has stored rules. A manifest without them is written as version 1, so that older programs
/// read it, and they refuse one whose rules they would leave out.
const WITH_RULES: u8 = 2;
const MARK: Kind = Kind { magic: *b"SDBK", version: 1, metrics: 1, newest: 1, name: "backup mark" };

/// Most copies of WAL objects in a manifest: 40 MB.
pub const BACKUP_WAL_MAX: usize = 1_000_000;
/// Most copies of objects of stored rules in a manifest. An index names two objects of each of at most 10,000
/// tenants; the others are those that nothing refers to.
pub const BACKUP_RULES_MAX: usize = 100_000;
/// Fewest bytes of a copy of rules in a manifest: a name of one byte with its length, a size, a checksum.
const RULE_COPY_BYTES_MIN: usize = 1 + 1 + 1 + 4;
/// Fewest bytes of a copy in a manifest: an id, two varints of one byte, a checksum.
const WAL_COPY_BYTES_MIN: usize = 16 + 1 + 1 + 4;

/// A copy of an object of the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalCopy {
    /// The writer.
    pub incarnation: Id,
    /// The number in the object's name.
    pub sequence: u64,
    /// Bytes of the copy.
    pub size: u64,
    /// CRC-32C of the copy.
    pub checksum: u32,
}

/// A copy of an object of stored rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCopy {
    /// The name of the object below `rules/`.
    pub name: String,
    /// Bytes of the copy.
    pub size: u64,
    /// CRC-32C of the copy.
    pub checksum: u32,
}

/// The description of a complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupManifest {
    /// The backup's id.
    pub id: Id,
    /// The version of the program that made it, for display.
    pub program: String,
    /// The URL of the store that it is a copy of, for display.
    pub source: String,
    /// When it began, in milliseconds since the epoch.
    pub began_ms: i64,
    /// When the catalog was read whose state it has.
    pub read_ms: i64,
    /// When it was complete.
    pub ended_ms: i64,
    /// The position of that state in the log of the source.
    pub at: LogPosition,
    /// The number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Their rows.
    pub rows: u64,
    /// CRC-32C of the root of the checkpoint.
    pub root: u32,
    /// In which attempt the WAL was copied: a part of the names of the copies.
    pub attempt: u32,
    /// The copies of the WAL.
    pub wal: Vec<WalCopy>,
    /// The copies of stored rules.
    pub rules: Vec<RuleCopy>,
}

impl BackupManifest {
    /// Returns the object's bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        bounded(MANIFEST.name, "the length of the version", self.program.len(), NAME_BYTES_MAX)?;
        bounded(MANIFEST.name, "the length of the source's URL", self.source.len(), NAME_BYTES_MAX)?;
        bounded(MANIFEST.name, "the number of WAL objects", self.wal.len(), BACKUP_WAL_MAX)?;
        let mut out = frame::begin(&MANIFEST);
        out.id(self.id);
        out.text(&self.program);
        out.text(&self.source);
        out.i64(self.began_ms);
        out.i64(self.read_ms);
        out.i64(self.ended_ms);
        self.at.encode(&mut out);
        out.varint(self.blocks);
        out.varint(self.block_bytes);
        out.varint(self.rows);
        out.u32(self.root);
        out.u32(self.attempt);
        out.count(self.wal.len());
        for copy in &self.wal {
            out.id(copy.incarnation);
            out.varint(copy.sequence);
            out.varint(copy.size);
            out.u32(copy.checksum);
        }
        if !self.rules.is_empty() {
            out.least = WITH_RULES;
            encode_rules(&self.rules, &mut out)?;
        }
        Ok(frame::seal(&MANIFEST, out))
    }

    /// Decodes a manifest.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&MANIFEST, bytes)?;
        let id = from.id()?;
        let program = from.text_within("version", NAME_BYTES_MAX)?.to_owned();
        let source = from.text_within("URL", NAME_BYTES_MAX)?.to_owned();
        let (began_ms, read_ms, ended_ms) = (from.i64()?, from.i64()?, from.i64()?);
        let at = LogPosition::decode(&mut from)?;
        let (blocks, block_bytes, rows) = (from.varint()?, from.varint()?, from.varint()?);
        let (root, attempt) = (from.u32()?, from.u32()?);
        let count = from.count_of(WAL_COPY_BYTES_MIN)?;
        bounded(MANIFEST.name, "the number of WAL objects", count, BACKUP_WAL_MAX)?;
        let mut wal = Vec::with_capacity(count);
        for _ in 0..count {
            let (incarnation, sequence) = (from.id()?, from.varint()?);
            wal.push(WalCopy { incarnation, sequence, size: from.varint()?, checksum: from.u32()? });
        }
        let rules = if frame::version(bytes) >= WITH_RULES { decode_rules(&mut from)? } else { Vec::new() };
        from.finish()?;
        Ok(Self {
            id,
            program,
            source,
            began_ms,
            read_ms,
            ended_ms,
            at,
            blocks,
            block_bytes,
            rows,
            root,
            attempt,
            wal,
            rules,
        })
    }
}

fn encode_rules(rules: &[RuleCopy], out: &mut Sink) -> Result<(), Error> {
    bounded(MANIFEST.name, "the number of objects of rules", rules.len(), BACKUP_RULES_MAX)?;
    out.count(rules.len());
    for copy in rules {
        bounded(MANIFEST.name, "the length of a name of rules", copy.name.len(), NAME_BYTES_MAX)?;
        out.text(&copy.name);
        out.varint(copy.size);
        out.u32(copy.checksum);
    }
    Ok(())
}

fn decode_rules(from: &mut Reader<'_>) -> Result<Vec<RuleCopy>, Error> {
    let count = from.count_of(RULE_COPY_BYTES_MIN)?;
    bounded(MANIFEST.name, "the number of objects of rules", count, BACKUP_RULES_MAX)?;
    let mut rules = Vec::with_capacity(count);
    for _ in 0..count {
        let offset = from.offset();
        let name = from.text_within("name of rules", NAME_BYTES_MAX)?.to_owned();
        // It becomes a part of the path of an object.
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::Malformed { part: MANIFEST.name, offset, what: "a name of rules is no path" });
        }
        rules.push(RuleCopy { name, size: from.varint()?, checksum: from.u32()? });
    }
    Ok(rules)
}

/// A mark: that a place is for backups, or that a backup, a removal or a restore is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupMark {
    /// What it marks: the place, the backup in progress, or the backup that is restored.
    pub id: Id,
    /// When the work began, in milliseconds since the epoch, for display.
    pub began_ms: i64,
    /// Grows while the work is in progress.
    pub counter: u64,
}

impl BackupMark {
    /// Returns the object's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = frame::begin(&MARK);
        out.id(self.id);
        out.i64(self.began_ms);
        out.u64(self.counter);
        frame::seal(&MARK, out)
    }

    /// Decodes a mark.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&MARK, bytes)?;
        let mark = Self { id: from.id()?, began_ms: from.i64()?, counter: from.u64()? };
        from.finish()?;
        Ok(mark)
    }
}
