//! An entry of the catalog's log: transactions of one process, each applied completely or not at all.
//!
//! An entry holds its author's session and the catalog number that the session had seen when it first
//! tried to commit (`base`). The state machine uses both: a session's transaction is applied at most
//! once, however often it is written.
//!
//! Since version 2 an entry holds the checksum of its predecessor's bytes. So the log is a chain, and a
//! lost, swapped or edited entry breaks it.

use sandur_base::Id;
use sandur_model::{Dataset, RuleShards};

use super::block_meta::BlockMeta;
use super::delete_request::DeleteRequest;
use super::forms::BlockForms;
use super::frame::{self, Kind};
use super::node_description::NodeDescription;
use super::wire::{NAME_BYTES_MAX, Sink, bounded};
use crate::codec::Reader;
use crate::error::Error;

const KIND: Kind = Kind { magic: *b"SDCE", version: 2, metrics: 3, newest: 3, name: "catalog entry" };
/// The version since which entries hold the checksum of their predecessor.
const CHAINED_SINCE: u8 = 2;

/// Most bytes of an entry. Conditional creates are single puts, which stores limit to 5 GiB but
/// answer quickly only up to a few MiB.
pub const ENTRY_BYTES_MAX: usize = 4 << 20;
/// Most transactions of an entry.
pub const TRANSACTIONS_MAX: usize = 256;

/// Storage of a writer's WAL segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalKind {
    /// Files below the local directory that is the store; sequence numbers count frames.
    Local,
    /// Objects of the bucket; sequence numbers count objects.
    Bucket,
}

/// A change of the catalog's state. Edits are set operations on unique ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Registers a process; before this it must not acknowledge any push.
    Register {
        /// Id of the process start.
        incarnation: Id,
        /// The address at which it serves peers.
        address: String,
        /// Host name, for display.
        host: String,
        /// When it started by its own clock, in milliseconds since the epoch, for display.
        started_ms: i64,
        /// Kind of storage of its WAL.
        wal: WalKind,
        /// The version of edits that it reads.
        edits: u16,
        /// The versions of blocks that it reads; `None` if it states none.
        reads: Option<BlockForms>,
    },
    /// Describes the node of a registered process; a later description replaces an earlier one. Void if a
    /// writer that is not sealed does not read this edit.
    DescribeNode {
        /// The process.
        incarnation: Id,
        /// Its node.
        node: NodeDescription,
    },
    /// The stamps of all samples of a process that are not in blocks, and of all that it will write, are
    /// later than a time. Void unless blocks with stamps may be written.
    StampsAfter {
        /// The process.
        incarnation: Id,
        /// The time of a stamp.
        time: u64,
    },
    /// From now on a process evaluates the rules of exactly these shards. Void if another writer that is not
    /// sealed owns one of them, or does not read this edit.
    OwnRules {
        /// The process.
        incarnation: Id,
        /// The shards.
        shards: RuleShards,
    },
    /// From now on processes may write blocks of these versions. Void if a writer that is not sealed does not
    /// read them.
    ActivateForms(BlockForms),
    /// Adds a block. Void, with its transaction, when its writer is unknown or its id is at or below the
    /// writer's orphan floor.
    AddBlock(BlockMeta),
    /// Removes a block from query results; its object is deleted after a grace period.
    RemoveBlock {
        /// The block.
        id: Id,
        /// When, by the author's clock, in milliseconds since the epoch, for display.
        at_ms: i64,
    },
    /// The rows of segments `from..to` are in blocks.
    Floor {
        /// The incarnation that owns the WAL.
        incarnation: Id,
        /// The floor before this edit: must be the current one.
        from: u64,
        /// The floor after this edit: first sequence number whose rows are not yet in blocks.
        to: u64,
    },
    /// The WAL of an incarnation ends before `fence`; frames from `fence` on are void.
    Seal {
        /// The incarnation that is presumed dead.
        incarnation: Id,
        /// Sequence number of the fence object.
        fence: u64,
    },
    /// Removes a sealed incarnation from the catalog; all of its WAL is in blocks.
    Forget {
        /// The incarnation.
        incarnation: Id,
    },
    /// Voids blocks of an incarnation with an id at or below `id`: they can never be added any more.
    OrphanFloor {
        /// The incarnation that made the blocks.
        incarnation: Id,
        /// The largest void id.
        id: Id,
    },
    /// Records that the objects of removed blocks are deleted.
    Deleted {
        /// The blocks.
        ids: Vec<Id>,
    },
    /// Creates a delete request. Its lines are hidden from now on.
    CreateDelete(DeleteRequest),
    /// Starts a delete request: its lines are removed from blocks from now on.
    StartDelete {
        /// The dataset of the request.
        dataset: Dataset,
        /// The request.
        id: Id,
    },
    /// Cancels a delete request.
    CancelDelete {
        /// The dataset of the request.
        dataset: Dataset,
        /// The request.
        id: Id,
        /// Whether to cancel it even if it was started: some of its lines may already be deleted.
        started: bool,
    },
    /// Finishes a delete request: no block holds lines of it any more.
    FinishDelete {
        /// The dataset of the request.
        dataset: Dataset,
        /// The request.
        id: Id,
        /// When, by the author's clock, in milliseconds since the epoch, for display.
        at_ms: i64,
    },
    /// Records that blocks hold no line of the delete requests that were started by entries up to
    /// `through`.
    BlocksClean {
        /// The blocks.
        ids: Vec<Id>,
        /// Number of an entry of the log.
        through: u64,
    },
}

/// A condition that must hold at the moment of replay for a transaction to have any effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The WAL floor of an incarnation is exactly `at`.
    FloorIs {
        /// The incarnation that owns the WAL.
        incarnation: Id,
        /// The expected floor.
        at: u64,
    },
    /// An incarnation is registered and not sealed.
    Live {
        /// The incarnation.
        incarnation: Id,
    },
    /// An incarnation is registered, sealed or not.
    Registered {
        /// The incarnation.
        incarnation: Id,
    },
    /// An incarnation is registered and sealed.
    Sealed {
        /// The incarnation.
        incarnation: Id,
    },
    /// All of these blocks exist and are not removed.
    BlocksPresent(Vec<Id>),
}

/// Edits that are applied together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Together with the session it is the commit id; grows with every transaction of a session, never
    /// reused.
    pub sequence: u64,
    /// The incarnation on whose behalf it is made.
    pub author: Id,
    /// The conditions that must hold.
    pub preconditions: Vec<Precondition>,
    /// The changes.
    pub edits: Vec<Edit>,
}

/// One numbered object of the catalog's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, as in its name.
    pub number: u64,
    /// The session, which owns the sequence numbers: one opening of the catalog by one process.
    pub session: Id,
    /// The number that the session had seen when it first tried to write these transactions.
    pub base: u64,
    /// [`entry_checksum`] of the entry before, as the author read it; 0 when the author could not know
    /// it, and `None` in entries of version 1, which do not hold it.
    pub before: Option<u64>,
    /// The transactions, in ascending order of their sequence numbers.
    pub transactions: Vec<Transaction>,
}

impl Entry {
    /// Returns the object's bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        bounded(KIND.name, "its number of transactions", self.transactions.len(), TRANSACTIONS_MAX)?;
        let mut out = frame::begin(&KIND);
        out.u64(self.number);
        out.id(self.session);
        out.u64(self.base);
        out.u64(self.before.unwrap_or(0));
        out.count(self.transactions.len());
        for transaction in &self.transactions {
            transaction.encode(&mut out)?;
        }
        bounded(KIND.name, "its length", out.bytes.len(), ENTRY_BYTES_MAX)?;
        Ok(frame::seal(&KIND, out))
    }

    /// Decodes an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&KIND, bytes)?;
        let (number, session) = (from.u64()?, from.id()?);
        let base = from.u64()?;
        if base >= number {
            return Err(from.malformed("an entry is based on a later one"));
        }
        let before = match frame::version(bytes) >= CHAINED_SINCE {
            true => Some(from.u64()?),
            false => None,
        };
        // A transaction takes at least sequence, author and two counts.
        let count = from.count_of(19)?;
        if count > TRANSACTIONS_MAX {
            return Err(from.malformed("there are more transactions than an entry may have"));
        }
        let mut transactions = Vec::with_capacity(count);
        for _ in 0..count {
            transactions.push(Transaction::decode(&mut from)?);
        }
        from.finish()?;
        Ok(Self { number, session, base, before, transactions })
    }
}

impl Transaction {
    /// Returns the bytes that the transaction takes in an entry; an error when it can never be written.
    pub fn encoded_len(&self) -> Result<usize, Error> {
        let mut out = Sink::default();
        self.encode(&mut out)?;
        Ok(out.bytes.len())
    }

    fn encode(&self, out: &mut Sink) -> Result<(), Error> {
        out.varint(self.sequence);
        out.id(self.author);
        out.count(self.preconditions.len());
        for precondition in &self.preconditions {
            precondition.encode(out);
        }
        out.count(self.edits.len());
        for edit in &self.edits {
            edit.encode(out)?;
        }
        Ok(())
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        let (sequence, author) = (from.varint()?, from.id()?);
        let mut preconditions = Vec::new();
        for _ in 0..from.count_of(2)? {
            preconditions.push(Precondition::decode(from)?);
        }
        let mut edits = Vec::new();
        for _ in 0..from.count_of(2)? {
            edits.push(Edit::decode(from)?);
        }
        Ok(Self { sequence, author, preconditions, edits })
    }
}

impl Precondition {
    fn encode(&self, out: &mut Sink) {
        match self {
            Self::FloorIs { incarnation, at } => {
                out.u8(1);
                out.id(*incarnation);
                out.varint(*at);
            }
            Self::Live { incarnation } => {
                out.u8(2);
                out.id(*incarnation);
            }
            Self::Registered { incarnation } => {
                out.u8(3);
                out.id(*incarnation);
            }
            Self::Sealed { incarnation } => {
                out.u8(4);
                out.id(*incarnation);
            }
            Self::BlocksPresent(ids) => {
                out.u8(5);
                encode_ids(ids, out);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match from.u8()? {
            1 => Self::FloorIs { incarnation: from.id()?, at: from.varint()? },
            2 => Self::Live { incarnation: from.id()? },
            3 => Self::Registered { incarnation: from.id()? },
            4 => Self::Sealed { incarnation: from.id()? },
            5 => Self::BlocksPresent(decode_ids(from)?),
            tag => return Err(from.unknown("precondition", tag)),
        })
    }
}

impl Edit {
    fn encode(&self, out: &mut Sink) -> Result<(), Error> {
        match self {
            Self::Register { incarnation, address, host, started_ms, wal, edits, reads } => {
                bounded(KIND.name, "the length of an address", address.len(), NAME_BYTES_MAX)?;
                out.u8(1);
                out.id(*incarnation);
                out.text(address);
                out.host(host, *edits, *reads)?;
                out.i64(*started_ms);
                wal.encode(out);
            }
            Self::AddBlock(meta) if meta.deletes_through > 0 => {
                out.u8(14);
                out.varint(meta.deletes_through);
                meta.encode(out);
            }
            Self::AddBlock(meta) => {
                out.u8(2);
                meta.encode(out);
            }
            Self::RemoveBlock { id, at_ms } => {
                out.u8(3);
                out.id(*id);
                out.i64(*at_ms);
            }
            Self::Floor { incarnation, from, to } => {
                out.u8(4);
                out.id(*incarnation);
                out.varint(*from);
                out.varint(*to);
            }
            Self::Seal { incarnation, fence } => encode_of_writer((5, *incarnation, *fence), out),
            Self::Forget { incarnation } => {
                out.u8(6);
                out.id(*incarnation);
            }
            Self::OrphanFloor { incarnation, id } => {
                out.u8(7);
                out.id(*incarnation);
                out.id(*id);
            }
            Self::Deleted { ids } => {
                out.u8(8);
                encode_ids(ids, out);
            }
            Self::ActivateForms(forms) => {
                out.u8(15);
                out.forms(*forms);
            }
            Self::DescribeNode { incarnation, node } => {
                out.u8(16);
                out.id(*incarnation);
                node.encode(out)?;
            }
            Self::StampsAfter { incarnation, time } => encode_of_writer((18, *incarnation, *time), out),
            Self::OwnRules { incarnation, shards } => {
                encode_of_writer((17, *incarnation, shards.bits()), out);
            }
            Self::CreateDelete(_)
            | Self::StartDelete { .. }
            | Self::CancelDelete { .. }
            | Self::FinishDelete { .. }
            | Self::BlocksClean { .. } => self.encode_of_deletes(out)?,
        }
        Ok(())
    }

    /// Encodes the edits of delete requests.
    fn encode_of_deletes(&self, out: &mut Sink) -> Result<(), Error> {
        match self {
            Self::CreateDelete(request) => {
                out.u8(9);
                request.encode(out)?;
            }
            Self::StartDelete { dataset, id } => {
                out.u8(10);
                out.dataset(dataset);
                out.id(*id);
            }
            Self::CancelDelete { dataset, id, started } => {
                out.u8(11);
                out.dataset(dataset);
                out.id(*id);
                out.u8(u8::from(*started));
            }
            Self::FinishDelete { dataset, id, at_ms } => {
                out.u8(12);
                out.dataset(dataset);
                out.id(*id);
                out.i64(*at_ms);
            }
            Self::BlocksClean { ids, through } => {
                out.u8(13);
                encode_ids(ids, out);
                out.varint(*through);
            }
            _ => {}
        }
        Ok(())
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match from.u8()? {
            1 => Self::decode_register(from)?,
            2 => Self::AddBlock(BlockMeta::decode(from)?),
            3 => Self::RemoveBlock { id: from.id()?, at_ms: from.i64()? },
            4 => Self::Floor { incarnation: from.id()?, from: from.varint()?, to: from.varint()? },
            5 => Self::Seal { incarnation: from.id()?, fence: from.varint()? },
            6 => Self::Forget { incarnation: from.id()? },
            7 => Self::OrphanFloor { incarnation: from.id()?, id: from.id()? },
            8 => Self::Deleted { ids: decode_ids(from)? },
            15 => Self::ActivateForms(from.forms()?),
            16 => Self::DescribeNode { incarnation: from.id()?, node: NodeDescription::decode(from)? },
            18 => Self::StampsAfter { incarnation: from.id()?, time: from.varint()? },
            17 => Self::OwnRules { incarnation: from.id()?, shards: RuleShards::from_bits(from.varint()?) },
            tag => return Self::decode_of_deletes(tag, from),
        })
    }

    fn decode_register(from: &mut Reader<'_>) -> Result<Self, Error> {
        let incarnation = from.id()?;
        let address = from.text_within("address", NAME_BYTES_MAX)?.to_owned();
        let (host, edits, reads) = from.host()?;
        let (started_ms, wal) = (from.i64()?, WalKind::decode(from)?);
        Ok(Self::Register { incarnation, address, host, started_ms, wal, edits, reads })
    }

    /// Decodes the edits of delete requests.
    fn decode_of_deletes(tag: u8, from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match tag {
            9 => Self::CreateDelete(DeleteRequest::decode(from)?),
            10 => Self::StartDelete { dataset: from.dataset()?, id: from.id()? },
            11 => Self::CancelDelete {
                dataset: from.dataset()?,
                id: from.id()?,
                started: match from.u8()? {
                    0 => false,
                    1 => true,
                    tag => return Err(from.unknown("cancellation", tag)),
                },
            },
            12 => Self::FinishDelete { dataset: from.dataset()?, id: from.id()?, at_ms: from.i64()? },
            13 => Self::BlocksClean { ids: decode_ids(from)?, through: from.varint()? },
            14 => {
                let deletes_through = from.varint()?;
                Self::AddBlock(BlockMeta { deletes_through, ..BlockMeta::decode(from)? })
            }
            tag => return Err(from.unknown("edit", tag)),
        })
    }
}

impl WalKind {
    pub(super) fn encode(self, out: &mut Sink) {
        out.u8(match self {
            Self::Local => 0,
            Self::Bucket => 1,
        });
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        match from.u8()? {
            0 => Ok(Self::Local),
            1 => Ok(Self::Bucket),
            tag => Err(from.unknown("WAL kind", tag)),
        }
    }
}

/// Encodes an edit that sets a number of a writer.
fn encode_of_writer((tag, incarnation, number): (u8, Id, u64), out: &mut Sink) {
    out.u8(tag);
    out.id(incarnation);
    out.varint(number);
}

fn encode_ids(ids: &[Id], out: &mut Sink) {
    out.count(ids.len());
    for id in ids {
        out.id(*id);
    }
}

fn decode_ids(from: &mut Reader<'_>) -> Result<Vec<Id>, Error> {
    let count = from.count_of(16)?;
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(from.id()?);
    }
    Ok(ids)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
