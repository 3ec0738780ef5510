//! Reading: one device read for a record; all reads of a call are in flight at once.
//!
//! The future that a caller awaits checks the bytes, not the thread that read them. So checksums use the
//! CPU of the caller and delay no other read.
//!
//! Invariant: a value is returned only if the record's header, key and checksums match the requested key
//! in the segment that the index named, and it has neither expired nor been flushed. Everything else is
//! a miss, and is counted.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::disk::Disk;
use super::expiry::is_expired;
use super::format::{Kind, LargeValue, Marks, RecordView, UNIT, piece_key};
use super::index::Location;
use super::keyspace::Keyspace;
use super::observer::Dropped;
use super::space::Space;
use super::writer::Writer;
use crate::device::{AlignedBuffer, Completion, ReadError, ReadRequest, completion};

/// A read that finds no buffer waits for one for up to this number of read deadlines.
const STARVED_DEADLINES: u32 = 8;
/// Most pieces of a large value that are read at the same time: 32 MiB.
const PIECES_AT_ONCE: u64 = 8;

/// A key whose record is to be read.
#[derive(Clone, Debug)]
pub struct FlashRead<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its hash.
    pub hash: u64,
    /// The place of the record, from [`Flash::lookup`](super::Flash::lookup).
    pub location: Location,
    /// The requested byte range of the value; `None` for the complete value. It is cut at the value's end.
    pub range: Option<Range<u64>>,
}

/// A value from flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashItem {
    /// The requested part of the value.
    pub value: Bytes,
    /// Bytes of the complete value.
    pub value_bytes: u64,
    /// The client's flags.
    pub flags: u32,
    /// The client's marks.
    pub marks: Marks,
    /// The unique version that compare-and-swap compares.
    pub cas: u64,
    /// When the value expires, in seconds since 1970; 0 for never.
    pub expires_at: u32,
    /// The tenant that owns it.
    pub tenant: u32,
}

/// A read in flight. `None` is a miss.
pub struct ReadFuture(State);

enum State {
    Done(Option<FlashItem>),
    WaitingRead(Box<WaitingRead>),
    Reading(Box<Reading>),
    Gathering(Box<Gathering>),
}

/// A read that waits for a buffer.
struct WaitingRead {
    reader: Arc<Reader>,
    wanted: Wanted,
    /// Offset and number of the bytes to read in its segment.
    from: u64,
    length: usize,
    /// Offset of the record in these bytes.
    lead: usize,
    /// When the read is given up.
    until: Duration,
}

/// A record whose read is in flight.
struct Reading {
    reader: Arc<Reader>,
    completion: Completion,
    wanted: Wanted,
    /// Offset of the record in the buffer.
    lead: usize,
    since: Duration,
}

/// What a record must match.
struct Wanted {
    key: Box<[u8]>,
    hash: u64,
    location: Location,
    id: u64,
    range: Option<Range<u64>>,
    kind: Kind,
}

/// A large value whose pieces are being read.
struct Gathering {
    reader: Arc<Reader>,
    head: (u64, Location),
    large: LargeValue,
    range: Range<u64>,
    /// Pieces whose reads were not started yet.
    numbers: Range<u64>,
    /// Most pieces that are read at the same time.
    window: usize,
    /// Pieces in order: their reads, or the bytes of completed ones.
    flying: VecDeque<(Option<ReadFuture>, Bytes)>,
    /// The bytes that are complete, in order.
    value: BytesMut,
    item: FlashItem,
}

/// Reads records, also those that are not on the device yet.
pub(super) struct Reader {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub keys: Arc<Keyspace>,
    pub writer: Arc<Writer>,
}

impl Reader {
    /// A reader of the records that `writer` writes.
    pub fn new(writer: Arc<Writer>) -> Self {
        let (disk, space, keys) =
            (Arc::clone(&writer.disk), Arc::clone(&writer.space), Arc::clone(&writer.keys));
        Self { disk, space, keys, writer }
    }

    /// See [`super::Flash::read`].
    pub fn read(self: &Arc<Self>, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        let mut batch = Vec::with_capacity(reads.len());
        let start = |read: &FlashRead<'_>| {
            let kind = if read.location.is_large { Kind::Head } else { Kind::Whole };
            self.start_read(read, kind, &mut batch)
        };
        let futures = reads.iter().map(start).collect();
        if !batch.is_empty() {
            self.disk.device.submit(batch);
        }
        futures
    }

    fn start_read(
        self: &Arc<Self>,
        read: &FlashRead<'_>,
        kind: Kind,
        batch: &mut Vec<ReadRequest>,
    ) -> ReadFuture {
        let Location { slot, offset, units, .. } = read.location;
        let id = self.space.table.id(slot);
        if id == 0 || !self.disk.watch.may_read() {
            return ReadFuture(State::Done(None));
        }
        let range = if kind == Kind::Head { None } else { read.range.clone() };
        let wanted =
            Wanted { key: read.key.into(), hash: read.hash, location: read.location, id, range, kind };
        let start = u64::from(offset) * UNIT;
        let end = (start + u64::from(units) * UNIT).min(self.disk.layout.segment_bytes);
        if end > self.space.table.written_to(slot)
            && let Some(bytes) = self.writer.read_unwritten(slot, start, end)
        {
            self.disk.counters.reads_unwritten.add(1);
            let item = self.check(&wanted, &bytes);
            let found = item.map(|(item, range)| (item, Bytes::from(bytes).slice(range)));
            return self.deliver(&wanted, found, read.range.as_ref());
        }
        let align = self.disk.device.read_alignment();
        let (from, upto) = (start / align * align, end.next_multiple_of(align));
        let until = self.disk.env.monotonic() + self.disk.options.read_deadline * STARVED_DEADLINES;
        let waiting = WaitingRead {
            reader: Arc::clone(self),
            wanted: Wanted { range: read.range.clone(), ..wanted },
            from,
            length: (upto - from) as usize,
            lead: (start - from) as usize,
            until,
        };
        match self.disk.read_pool.take(waiting.length) {
            Some(buffer) => {
                let (request, reading) = waiting.feed(buffer);
                batch.push(request);
                ReadFuture(State::Reading(Box::new(reading)))
            }
            None if self.disk.read_pool.holds(waiting.length) => {
                ReadFuture(State::WaitingRead(Box::new(waiting)))
            }
            None => {
                self.disk.counters.reads_overloaded.add(1);
                ReadFuture(State::Done(None))
            }
        }
    }

    /// Checks the record in `bytes`. Returns it without its value, with the place of the requested part
    /// of the value.
    fn check(&self, wanted: &Wanted, bytes: &[u8]) -> Option<(FlashItem, Range<usize>)> {
        let Some(record) = RecordView::parse((wanted.id, wanted.location.offset), bytes) else {
            self.corrupt(wanted);
            return None;
        };
        if record.key != &*wanted.key || record.header.kind != wanted.kind {
            self.disk.counters.reads_false_match.add(1);
            return None;
        }
        let header = record.header;
        let expires_at = self.keys.touched.expiry(wanted.hash, header.expires_at);
        if header.sequence < self.keys.flushed_below() {
            self.disk.counters.reads_stale.add(1);
            return None;
        }
        if is_expired(expires_at, self.disk.now()) {
            self.disk.counters.reads_expired.add(1);
            self.keys.drop_entry(wanted.hash, wanted.location, Dropped::Expired);
            return None;
        }
        let whole = record.value_bytes();
        let range = match &wanted.range {
            Some(range) if wanted.kind != Kind::Head => clamp(range, whole as u64),
            _ => 0..whole as u64,
        };
        let Some(place) = record.value(bytes, range.start as usize..range.end as usize) else {
            self.corrupt(wanted);
            return None;
        };
        let item = FlashItem {
            value: Bytes::new(),
            value_bytes: whole as u64,
            flags: header.flags,
            marks: header.marks,
            cas: header.cas,
            expires_at,
            tenant: header.tenant,
        };
        Some((item, place))
    }

    /// Converts a checked record to an answer, or the head of a large value to the reads of its pieces.
    fn deliver(
        self: &Arc<Self>,
        wanted: &Wanted,
        found: Option<(FlashItem, Bytes)>,
        range: Option<&Range<u64>>,
    ) -> ReadFuture {
        let Some((item, value)) = found else { return ReadFuture(State::Done(None)) };
        if wanted.kind == Kind::Head {
            return self.gather(wanted, item, &value, range);
        }
        self.disk.counters.reads_hit.add(u64::from(wanted.kind == Kind::Whole));
        ReadFuture(State::Done(Some(FlashItem { value, ..item })))
    }

    fn gather(
        self: &Arc<Self>,
        head: &Wanted,
        item: FlashItem,
        table: &[u8],
        range: Option<&Range<u64>>,
    ) -> ReadFuture {
        let Some(large) = LargeValue::parse(table) else { return ReadFuture(State::Done(None)) };
        let range = range.map_or(0..large.bytes, |range| clamp(range, large.bytes));
        let step = u64::from(large.piece_bytes);
        let numbers = range.start / step..range.end.div_ceil(step).max(range.start / step);
        // Buffers must remain for other reads: a value may be larger than all of them.
        let window = (self.disk.options.read_buffer_bytes / 8 / step).clamp(1, PIECES_AT_ONCE) as usize;
        let value = BytesMut::with_capacity((range.end - range.start) as usize);
        let item = FlashItem { value_bytes: large.bytes, ..item };
        let (reader, head) = (Arc::clone(self), (head.hash, head.location));
        let flying = VecDeque::new();
        let mut gathering = Gathering { reader, head, large, range, numbers, window, flying, value, item };
        match gathering.start_more() {
            Some(()) => ReadFuture(State::Gathering(Box::new(gathering))),
            None => ReadFuture(State::Done(None)),
        }
    }

    fn corrupt(&self, wanted: &Wanted) {
        if self.space.table.id(wanted.location.slot) != wanted.id {
            self.disk.counters.reads_stale.add(1);
            return;
        }
        self.disk.counters.reads_corrupt.add(1);
        self.space.table.update(wanted.location.slot, wanted.id, |segment| segment.errors += 1);
        self.keys.drop_entry(wanted.hash, wanted.location, Dropped::Corrupt);
    }

    fn failed(&self, wanted: &Wanted, error: &ReadError) {
        match error {
            ReadError::Device(_) => {
                self.disk.counters.reads_failed.add(1);
                self.disk.watch.read_failed(self.disk.env.monotonic());
                self.space.table.update(wanted.location.slot, wanted.id, |segment| segment.errors += 1);
                self.keys.drop_entry(wanted.hash, wanted.location, Dropped::DeviceError);
            }
            ReadError::Late => self.disk.counters.reads_late.add(1),
            ReadError::Overloaded | ReadError::Closed => self.disk.counters.reads_overloaded.add(1),
        }
    }
}

fn clamp(range: &Range<u64>, length: u64) -> Range<u64> {
    let start = range.start.min(length);
    start..range.end.clamp(start, length)
}

impl WaitingRead {
    /// Creates the read with its buffer, and the state that awaits it.
    fn feed(self, buffer: AlignedBuffer) -> (ReadRequest, Reading) {
        let Self { reader, wanted, from, length, lead, .. } = self;
        reader.disk.counters.bytes_read.add(length as u64);
        let offset = reader.disk.layout.slot_start(wanted.location.slot) + from;
        let (completer, completion) = completion();
        let since = reader.disk.env.monotonic();
        (ReadRequest { offset, buffer, completer }, Reading { reader, completion, wanted, lead, since })
    }

    /// Whether the wait for a buffer is over, by its deadline or the health of the device.
    fn is_hopeless(&self) -> bool {
        !self.reader.disk.watch.may_read() || self.reader.disk.env.monotonic() >= self.until
    }
}

impl Reading {
    fn finish(&self, result: Result<AlignedBuffer, ReadError>) -> ReadFuture {
        let reader = &self.reader;
        let buffer = match result {
            Ok(buffer) => buffer,
            Err(error) => {
                reader.failed(&self.wanted, &error);
                return ReadFuture(State::Done(None));
            }
        };
        reader.disk.watch.read_succeeded(reader.disk.env.monotonic().saturating_sub(self.since));
        let checked = reader.check(&self.wanted, &buffer.as_ref()[self.lead..]);
        let found = checked.map(|(item, range)| {
            let bytes = Bytes::from_owner(buffer);
            (item, bytes.slice(self.lead + range.start..self.lead + range.end))
        });
        reader.deliver(&self.wanted, found, self.wanted.range.as_ref())
    }
}

impl Gathering {
    /// Starts the reads of the next pieces; `None` if one is not on flash any more.
    fn start_more(&mut self) -> Option<()> {
        let mut batch = Vec::new();
        while self.flying.len() < self.window
            && let Some(number) = self.numbers.next()
        {
            let key = piece_key(self.head.0, self.large.nonce, number as u32);
            let hash = self.reader.disk.hash(&key);
            let Some(location) = self.reader.keys.lookup(hash, true) else {
                // This piece was reclaimed before the others, so the value is lost.
                let (hash, at) = self.head;
                self.reader.keys.drop_entry(hash, at, Dropped::Evicted);
                return None;
            };
            let (span, range) = (self.large.piece(number), &self.range);
            let part = range.start.max(span.start) - span.start..range.end.min(span.end) - span.start;
            let read = FlashRead { key: &key, hash, location, range: Some(part) };
            let piece = self.reader.start_read(&read, Kind::Piece, &mut batch);
            self.flying.push_back((Some(piece), Bytes::new()));
        }
        if !batch.is_empty() {
            self.reader.disk.device.submit(batch);
        }
        Some(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<FlashItem>> {
        loop {
            for (flying, arrived) in &mut self.flying {
                let Some(piece) = flying else { continue };
                match Pin::new(piece).poll(context) {
                    Poll::Pending => {}
                    Poll::Ready(None) => return Poll::Ready(None),
                    // A copy, so that the buffer is free for the other pieces, which may wait for one.
                    Poll::Ready(Some(item)) => {
                        (*flying, *arrived) = (None, Bytes::copy_from_slice(&item.value));
                    }
                }
            }
            let before = self.flying.len();
            while let Some((_, arrived)) = self.flying.pop_front_if(|(flying, _)| flying.is_none()) {
                self.value.extend_from_slice(&arrived);
            }
            if self.flying.len() == before && before > 0 {
                return Poll::Pending;
            }
            if self.start_more().is_none() {
                return Poll::Ready(None);
            }
            if self.flying.is_empty() {
                self.reader.disk.counters.reads_hit.add(1);
                let value = std::mem::take(&mut self.value).freeze();
                return Poll::Ready(Some(FlashItem { value, ..self.item.clone() }));
            }
        }
    }
}

impl Future for ReadFuture {
    type Output = Option<FlashItem>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match &mut self.0 {
                State::Done(item) => return Poll::Ready(item.take()),
                State::WaitingRead(waiting) => {
                    let (reader, length) = (Arc::clone(&waiting.reader), waiting.length);
                    if waiting.is_hopeless() {
                        reader.disk.counters.reads_overloaded.add(1);
                        return Poll::Ready(None);
                    }
                    let buffer = ready!(reader.disk.read_pool.poll_take(length, context));
                    let State::WaitingRead(waiting) = std::mem::replace(&mut self.0, State::Done(None))
                    else {
                        return Poll::Ready(None);
                    };
                    let (request, reading) = waiting.feed(buffer);
                    reader.disk.device.submit(vec![request]);
                    self.0 = State::Reading(Box::new(reading));
                }
                State::Reading(reading) => match Pin::new(&mut reading.completion).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(result) => self.0 = reading.finish(result).0,
                },
                State::Gathering(gathering) => {
                    // A piece that is lost is noticed when it is next looked up.
                    return gathering.poll(context);
                }
            }
        }
    }
}
