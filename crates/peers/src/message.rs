//! Requests and answers as protobuf messages.
//!
//! Unknown fields are skipped, so a message of a later version stays readable; a call that this version does
//! not know is [`Request::Unknown`] and is answered so. Field numbers are never used again.
//! **Invariant.** A decoded message takes no more memory than its bytes and a few words for each piece, of
//! which there are at most [`PIECES_MAX`].

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_protobuf::{Reader, Wire, Writer as _};

use crate::malformed::Malformed;
use crate::queries::{self, PeerQueries, PeerQuery, PeerUsage};
use crate::rules::{self, PeerRules};

/// Maximum length of a request in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Maximum number of pieces of a block, or of frames, in one call.
pub const PIECES_MAX: usize = 1_024;

/// What one process asks another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The durable frames of the WAL that `writer` writes, from the number `from` on.
    Frames {
        /// The incarnation that the caller believes to be at the address.
        writer: Id,
        /// The number of the first frame.
        from: u64,
        /// How long the answer may wait for a frame if there is none yet.
        wait: Duration,
        /// Maximum number of bytes of all frames; the first frame may have more. With zero there are none.
        most_bytes: u64,
    },
    /// Pieces of a block that the other process has in its cache.
    Pieces {
        /// The block.
        block: Id,
        /// The ranges of the pieces in its object, in bytes.
        ranges: Vec<Range<u64>>,
    },
    /// The queries that run in the process.
    Running {
        /// The incarnation that the caller believes to be at the address.
        process: Id,
        /// Only queries that read no data of other tenants; `None` for those of all tenants.
        tenant: Option<String>,
        /// Maximum number of bytes of the answer.
        most_bytes: u64,
    },
    /// The end of a running query.
    Cancel {
        /// The incarnation that runs the query.
        process: Id,
        /// The number of the query in its process.
        query: u64,
    },
    /// The requests of the process to the store.
    Usage {
        /// The incarnation that the caller believes to be at the address.
        process: Id,
    },
    /// The states of the rules that the process evaluates.
    Rules {
        /// The incarnation that the caller believes to be at the address.
        process: Id,
        /// Only rules of this tenant.
        tenant: String,
        /// Only groups whose specifications have these hashes; empty for all groups.
        groups: Vec<u128>,
        /// Whether alerts are only counted.
        without_alerts: bool,
        /// Maximum number of bytes of the answer.
        most_bytes: u64,
    },
    /// A call of a later version.
    Unknown,
}

/// What the other process answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Frames in the order of their numbers, the first one with the number that was asked for.
    Frames {
        /// The newest number of the catalog's log that the process has read.
        catalog: u64,
        /// The number after the last durable frame: all frames before it were written.
        end: u64,
        /// The bytes of the frames.
        frames: Vec<Bytes>,
    },
    /// The pieces in the order of the ranges; `None` for each that is not in the cache.
    Pieces(Vec<Option<Bytes>>),
    /// Running queries.
    Running(PeerQueries),
    /// The query was ended, as it was just before.
    Cancelled(PeerQuery),
    /// No query with this number runs.
    Absent,
    /// The requests to the store.
    Usage(PeerUsage),
    /// States of rules.
    Rules(PeerRules),
    /// The process does not have what was asked for: another incarnation runs there, or the frames are not
    /// in its memory any more.
    Gone,
    /// The process has no memory or no time for the call now.
    Busy,
    /// The process does not know the call.
    Unknown,
}

/// Fields of a request: one call.
mod calls {
    pub(super) const FRAMES: u32 = 1;
    pub(super) const PIECES: u32 = 2;
    pub(super) const RUNNING: u32 = 3;
    pub(super) const CANCEL: u32 = 4;
    pub(super) const USAGE: u32 = 5;
    pub(super) const RULES: u32 = 6;
}

/// Fields of an answer.
mod answers {
    pub(super) const STATUS: u32 = 1;
    pub(super) const FRAMES: u32 = 2;
    pub(super) const PIECES: u32 = 3;
    pub(super) const RUNNING: u32 = 4;
    pub(super) const CANCELLED: u32 = 5;
    pub(super) const USAGE: u32 = 6;
    pub(super) const RULES: u32 = 7;
}

/// Statuses of an answer; a message without one has its content.
const GONE: u64 = 1;
const BUSY: u64 = 2;
const UNKNOWN: u64 = 3;
const ABSENT: u64 = 4;

impl Request {
    /// The name of the call, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Frames { .. } => "frames",
            Self::Pieces { .. } => "pieces",
            Self::Running { .. } => "running",
            Self::Cancel { .. } => "cancel",
            Self::Usage { .. } => "usage",
            Self::Rules { .. } => "rules",
            Self::Unknown => "unknown",
        }
    }

    /// The bytes of the message.
    pub(crate) fn encode(&self) -> Bytes {
        let mut message = Vec::new();
        match self {
            Self::Frames { writer, from, wait, most_bytes } => message.message(calls::FRAMES, |call| {
                call.bytes(1, &writer.to_bytes());
                call.number(2, *from);
                call.number(3, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                call.number(4, *most_bytes);
            }),
            Self::Pieces { block, ranges } => message.message(calls::PIECES, |call| {
                call.bytes(1, &block.to_bytes());
                call.packed(2, ranges.iter().flat_map(|range| [range.start, range.end]));
            }),
            Self::Running { process, tenant, most_bytes } => message.message(calls::RUNNING, |call| {
                call.bytes(1, &process.to_bytes());
                tenant.iter().for_each(|tenant| call.bytes(2, tenant.as_bytes()));
                call.number(3, *most_bytes);
            }),
            Self::Cancel { process, query } => message.message(calls::CANCEL, |call| {
                call.bytes(1, &process.to_bytes());
                call.number(2, *query);
            }),
            Self::Usage { process } => {
                message.message(calls::USAGE, |call| call.bytes(1, &process.to_bytes()));
            }
            Self::Rules { process, tenant, groups, without_alerts, most_bytes } => {
                message.message(calls::RULES, |call| {
                    call.bytes(1, &process.to_bytes());
                    call.bytes(2, tenant.as_bytes());
                    rules::write_fingerprints(call, 3, groups);
                    call.number(4, u64::from(*without_alerts));
                    call.number(5, *most_bytes);
                });
            }
            Self::Unknown => {}
        }
        message.into()
    }
}

/// Decodes a request.
pub fn decode_request(bytes: &[u8]) -> Result<Request, Malformed> {
    let mut message = Reader::new(bytes);
    let mut request = Request::Unknown;
    while let Some((field, wire)) = message.key()? {
        match (field, wire) {
            (calls::FRAMES, Wire::Bytes) => request = frames_request(message.message()?)?,
            (calls::PIECES, Wire::Bytes) => request = pieces_request(message.message()?)?,
            (calls::RUNNING, Wire::Bytes) => request = running_request(message.message()?)?,
            (calls::CANCEL, Wire::Bytes) => request = cancel_request(message.message()?)?,
            (calls::USAGE, Wire::Bytes) => {
                let mut call = message.message()?;
                request = Request::Usage { process: process(&mut call, |_, _, _| Ok(false))? };
            }
            (calls::RULES, Wire::Bytes) => request = rules_request(message.message()?)?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(request)
}

fn frames_request(mut call: Reader<'_>) -> Result<Request, Malformed> {
    let (mut writer, mut from, mut wait_ms, mut most_bytes) = (None, 0, 0, 0);
    while let Some((field, wire)) = call.key()? {
        match (field, wire) {
            (1, Wire::Bytes) => writer = Some(id(call.bytes()?)?),
            (2, Wire::Varint) => from = call.varint()?,
            (3, Wire::Varint) => wait_ms = call.varint()?,
            (4, Wire::Varint) => most_bytes = call.varint()?,
            (_, wire) => call.skip(wire)?,
        }
    }
    let writer = writer.ok_or(Malformed::Value("a call for frames names no writer"))?;
    Ok(Request::Frames { writer, from, wait: Duration::from_millis(wait_ms), most_bytes })
}

fn pieces_request(mut call: Reader<'_>) -> Result<Request, Malformed> {
    let (mut block, mut ranges) = (None, Vec::new());
    while let Some((field, wire)) = call.key()? {
        match (field, wire) {
            (1, Wire::Bytes) => block = Some(id(call.bytes()?)?),
            (2, Wire::Bytes) => {
                let mut packed = call.message()?;
                while !packed.is_at_end() {
                    let range = packed.varint()?..packed.varint()?;
                    if range.start >= range.end || ranges.len() == PIECES_MAX {
                        return Err(Malformed::Value("a call has an empty range of a block, or too many"));
                    }
                    ranges.push(range);
                }
            }
            (_, wire) => call.skip(wire)?,
        }
    }
    let block = block.ok_or(Malformed::Value("a call for pieces names no block"))?;
    Ok(Request::Pieces { block, ranges })
}

fn running_request(mut call: Reader<'_>) -> Result<Request, Malformed> {
    let (mut tenant, mut most_bytes) = (None, 0);
    let process = process(&mut call, |call, field, wire| {
        match (field, wire) {
            (2, Wire::Bytes) => tenant = Some(queries::tenant(call.bytes()?)?),
            (3, Wire::Varint) => most_bytes = call.varint()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Request::Running { process, tenant, most_bytes })
}

fn cancel_request(mut call: Reader<'_>) -> Result<Request, Malformed> {
    let mut query = 0;
    let process = process(&mut call, |call, field, wire| {
        let is_query = (field, wire) == (2, Wire::Varint);
        if is_query {
            query = call.varint()?;
        }
        Ok(is_query)
    })?;
    Ok(Request::Cancel { process, query })
}

fn rules_request(mut call: Reader<'_>) -> Result<Request, Malformed> {
    let (mut tenant, mut groups, mut without_alerts, mut most_bytes) = (None, Vec::new(), false, 0);
    let process = process(&mut call, |call, field, wire| {
        match (field, wire) {
            (2, Wire::Bytes) => tenant = Some(queries::tenant(call.bytes()?)?),
            (3, Wire::Bytes) => groups = rules::read_fingerprints(call.bytes()?)?,
            (4, Wire::Varint) => without_alerts = call.varint()? != 0,
            (5, Wire::Varint) => most_bytes = call.varint()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let tenant = tenant.ok_or(Malformed::Value("a call for states of rules names no tenant"))?;
    Ok(Request::Rules { process, tenant, groups, without_alerts, most_bytes })
}

/// Reads a call that names its process in field 1. `other` reads the other fields that it knows.
fn process<'a>(
    call: &mut Reader<'a>,
    mut other: impl FnMut(&mut Reader<'a>, u32, Wire) -> Result<bool, Malformed>,
) -> Result<Id, Malformed> {
    let mut process = None;
    while let Some((field, wire)) = call.key()? {
        if (field, wire) == (1, Wire::Bytes) {
            process = Some(id(call.bytes()?)?);
        } else if !other(call, field, wire)? {
            call.skip(wire)?;
        }
    }
    process.ok_or(Malformed::Value("a call names no process"))
}

fn id(bytes: &[u8]) -> Result<Id, Malformed> {
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| Malformed::Value("an id does not have 16 bytes"))?;
    Ok(Id::from_bytes(bytes))
}

impl Answer {
    /// The outcome of the call, for metrics.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Frames { .. } | Self::Pieces(_) => "ok",
            Self::Running(_) | Self::Cancelled(_) | Self::Usage(_) | Self::Rules(_) => "ok",
            Self::Gone => "gone",
            Self::Absent => "absent",
            Self::Busy => "busy",
            Self::Unknown => "unknown",
        }
    }

    /// The parts of the message; long ones are not copied.
    pub(crate) fn encode(&self) -> Vec<Bytes> {
        let mut parts = Parts::default();
        match self {
            Self::Frames { catalog, end, frames } => {
                let mut fixed = Vec::new();
                fixed.number(1, *catalog);
                fixed.number(2, *end);
                parts.open(answers::FRAMES, fixed.len() + frames.iter().map(field_bytes).sum::<usize>());
                parts.text.extend_from_slice(&fixed);
                frames.iter().for_each(|frame| parts.field(3, frame));
            }
            Self::Pieces(pieces) => {
                let none = Bytes::new();
                let of = |piece: &Option<Bytes>| piece.clone().unwrap_or_else(|| none.clone());
                parts.open(answers::PIECES, pieces.iter().map(|piece| field_bytes(&of(piece))).sum());
                pieces.iter().for_each(|piece| parts.field(1, &of(piece)));
            }
            Self::Running(list) => {
                parts.text.message(answers::RUNNING, |fields| queries::write_queries(fields, list));
            }
            Self::Cancelled(query) => {
                parts.text.message(answers::CANCELLED, |fields| query.write(fields));
            }
            Self::Usage(usage) => {
                parts.text.message(answers::USAGE, |fields| queries::write_usage(fields, usage));
            }
            Self::Rules(list) => parts.field(answers::RULES, &list.0),
            Self::Absent => parts.text.varint(answers::STATUS, ABSENT),
            Self::Gone => parts.text.varint(answers::STATUS, GONE),
            Self::Busy => parts.text.varint(answers::STATUS, BUSY),
            Self::Unknown => parts.text.varint(answers::STATUS, UNKNOWN),
        }
        parts.end()
    }
}

/// The parts of a message in order.
#[derive(Default)]
struct Parts {
    parts: Vec<Bytes>,
    text: Vec<u8>,
}

impl Parts {
    /// Begins a nested message of known length.
    fn open(&mut self, field: u32, length: usize) {
        self.text.raw_varint(u64::from(field) << 3 | 2);
        self.text.raw_varint(length as u64);
    }

    /// Appends a field of bytes, which are shared.
    fn field(&mut self, field: u32, bytes: &Bytes) {
        self.open(field, bytes.len());
        self.parts.push(std::mem::take(&mut self.text).into());
        self.parts.push(bytes.clone());
    }

    fn end(mut self) -> Vec<Bytes> {
        self.parts.push(self.text.into());
        self.parts
    }
}

/// The length of a field of bytes with a number below 16.
fn field_bytes(bytes: &Bytes) -> usize {
    let length = bytes.len();
    1 + (usize::BITS - length.max(1).leading_zeros()).div_ceil(7) as usize + length
}

/// Decodes an answer, whose pieces are slices of `bytes`.
pub fn decode_answer(bytes: &Bytes) -> Result<Answer, Malformed> {
    let mut message = Reader::new(bytes);
    let mut answer = Answer::Unknown;
    while let Some((field, wire)) = message.key()? {
        match (field, wire) {
            (answers::STATUS, Wire::Varint) => {
                answer = match message.varint()? {
                    GONE => Answer::Gone,
                    BUSY => Answer::Busy,
                    ABSENT => Answer::Absent,
                    _ => Answer::Unknown,
                };
            }
            (answers::FRAMES, Wire::Bytes) => answer = frames_answer(message.message()?, bytes)?,
            (answers::PIECES, Wire::Bytes) => answer = pieces_answer(message.message()?, bytes)?,
            (answers::RUNNING, Wire::Bytes) => {
                answer = Answer::Running(queries::read_queries(message.message()?)?);
            }
            (answers::CANCELLED, Wire::Bytes) => {
                answer = Answer::Cancelled(PeerQuery::read(message.message()?)?);
            }
            (answers::USAGE, Wire::Bytes) => {
                answer = Answer::Usage(queries::read_usage(message.message()?)?);
            }
            (answers::RULES, Wire::Bytes) => {
                answer = Answer::Rules(PeerRules(bytes.slice_ref(message.bytes()?)));
            }
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(answer)
}

fn frames_answer(mut fields: Reader<'_>, source: &Bytes) -> Result<Answer, Malformed> {
    let (mut catalog, mut end, mut frames) = (0, 0, Vec::new());
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Varint) => catalog = fields.varint()?,
            (2, Wire::Varint) => end = fields.varint()?,
            (3, Wire::Bytes) if frames.len() < PIECES_MAX => frames.push(source.slice_ref(fields.bytes()?)),
            (3, Wire::Bytes) => return Err(Malformed::Value("an answer has too many frames")),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(Answer::Frames { catalog, end, frames })
}

fn pieces_answer(mut fields: Reader<'_>, source: &Bytes) -> Result<Answer, Malformed> {
    let mut pieces = Vec::new();
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Bytes) if pieces.len() < PIECES_MAX => {
                let piece = source.slice_ref(fields.bytes()?);
                pieces.push((!piece.is_empty()).then_some(piece));
            }
            (1, Wire::Bytes) => return Err(Malformed::Value("an answer has too many pieces")),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(Answer::Pieces(pieces))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(parts: Vec<Bytes>) -> Bytes {
        parts.concat().into()
    }

    /// What version 1 wrote stays readable.
    #[test]
    fn messages_of_version_1_stay_readable() {
        let frames = Request::Frames {
            writer: Id(7),
            from: 300,
            wait: Duration::from_millis(1_000),
            most_bytes: 1 << 20,
        };
        let pieces = Request::Pieces { block: Id(9), ranges: vec![8..100, 1_000..2_000] };
        let id = |last: &str| format!("0a10{}{last}", "00".repeat(15));
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&frames.encode()), format!("0a1c{}10ac0218e807208080 40", id("07")).replace(' ', ""));
        assert_eq!(hex(&pieces.encode()), format!("121a{}12060864e807d00f", id("09")));
        for request in [frames, pieces] {
            assert_eq!(decode_request(&request.encode()), Ok(request));
        }
        let answer =
            Answer::Frames { catalog: 5, end: 302, frames: vec![Bytes::from_static(b"ab"), Bytes::new()] };
        assert_eq!(hex(&whole(answer.encode())), "120b080510ae021a0261621a00");
        assert_eq!(hex(&whole(Answer::Busy.encode())), "0802");
    }

    #[test]
    fn calls_about_queries_come_back_unchanged() {
        let process = Id(7);
        let running = |tenant: Option<&str>| Request::Running {
            process,
            tenant: tenant.map(str::to_owned),
            most_bytes: 1 << 20,
        };
        // An empty tenant is not the same as all tenants.
        let requests =
            [running(None), running(Some("")), running(Some("a|b")), Request::Cancel { process, query: 9 }];
        for request in requests.into_iter().chain([Request::Usage { process }]) {
            assert_eq!(decode_request(&request.encode()), Ok(request));
        }
        let query = PeerQuery { id: 3, tenant: "a".to_owned(), start_ns: -1, ..PeerQuery::default() };
        let list = PeerQueries { queries: vec![query.clone(), PeerQuery::default()], left_out: 5 };
        let usage = PeerUsage { requests: 4, dollars: 0.5, dollars_per_month: 12.25 };
        for answer in [Answer::Running(list), Answer::Cancelled(query), Answer::Absent, Answer::Usage(usage)]
        {
            assert_eq!(decode_answer(&whole(answer.encode())), Ok(answer));
        }
        // A call without a process could end a query of another one.
        assert!(decode_request(&[0x22, 2, 0x10, 9]).is_err());
    }

    #[test]
    fn a_call_of_a_later_version_is_unknown() {
        assert_eq!(decode_request(&[0x7a, 2, 8, 1]), Ok(Request::Unknown));
        assert_eq!(decode_answer(&Bytes::from_static(&[8, 99])), Ok(Answer::Unknown));
    }

    proptest! {
        #[test]
        fn answers_come_back_unchanged(
            (catalog, end) in (any::<u64>(), any::<u64>()),
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 0..20),
        ) {
            let bytes: Vec<Bytes> = pieces.into_iter().map(Bytes::from).collect();
            let optional = bytes.iter().map(|piece| (!piece.is_empty()).then(|| piece.clone())).collect();
            for answer in [Answer::Frames { catalog, end, frames: bytes }, Answer::Pieces(optional)] {
                prop_assert_eq!(decode_answer(&whole(answer.encode())), Ok(answer));
            }
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_request(&bytes);
            let _ = decode_answer(&bytes.into());
        }
    }
}
