//! A record: one batch of one tenant.
//!
//! Layout in the head of a frame's body: tenant (LEB128, index in the frame's tenant directory), signal
//! (u8, in frames of version 2), arena codec (u8), plain and stored length of the arena (LEB128), length
//! of the columns (LEB128), the columns. The arenas of all records follow the heads of all records, in
//! the same order.

use bytes::Bytes;
use sandur_model::{Arena, ArenaCodec, Batch, LogBatch, SampleBatch, Signal, TenantId};

use crate::codec::varint::{put_blob, put_varint};
use crate::codec::{Reader, compress};
use crate::error::Error;
use crate::wal_segment::limits::{ARENA_BYTES_MAX, PART, SIGNALS_SINCE};
use crate::wal_segment::{columns, samples};

const STORED: u8 = 0;
const LZ4: u8 = 1;
const SNAPPY: u8 = 2;

/// Smaller arenas are not compressed.
const COMPRESS_MIN: usize = 256;

/// A batch that is prepared for a frame.
#[derive(Clone, Debug)]
pub struct Record {
    tenant: TenantId,
    signal: Signal,
    codec: u8,
    plain_len: usize,
    arena: Bytes,
    columns: Vec<u8>,
    min_ts: i64,
    max_ts: i64,
}

impl Record {
    /// Prepares a batch. Text and values that did not arrive compressed are compressed if that saves
    /// space.
    pub fn of(batch: &Batch) -> Result<Self, Error> {
        match batch {
            Batch::Logs(batch) => Self::of_logs(batch),
            Batch::Metrics(batch) => Self::of_samples(batch),
        }
    }

    /// Prepares samples.
    pub fn of_samples(batch: &SampleBatch) -> Result<Self, Error> {
        let (arena, columns) = samples::put_batch(batch)?;
        let plain_len = arena.bytes.len();
        check_arena(plain_len)?;
        let (codec, arena) = stored_form(&arena);
        let (min_ts, max_ts) = batch.time_bounds().unwrap_or((i64::MAX, i64::MIN));
        let (tenant, signal) = (batch.tenant.clone(), Signal::Metrics);
        Ok(Self { tenant, signal, codec, plain_len, arena, columns, min_ts, max_ts })
    }

    /// Prepares entries of logs.
    pub fn of_logs(batch: &LogBatch) -> Result<Self, Error> {
        let plain_len = batch.arena.bytes.len();
        check_arena(plain_len)?;
        let (codec, arena) = stored_form(&batch.arena);
        let (min_ts, max_ts) = batch.time_bounds().unwrap_or((i64::MAX, i64::MIN));
        let columns = columns::put_columns(batch);
        let (tenant, signal) = (batch.tenant.clone(), Signal::Logs);
        Ok(Self { tenant, signal, codec, plain_len, arena, columns, min_ts, max_ts })
    }

    /// Returns the bytes that the record adds to a frame, without a new tenant's name.
    pub fn frame_bytes(&self) -> usize {
        self.columns.len() + self.arena.len() + 16
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub fn signal(&self) -> Signal {
        self.signal
    }

    pub(crate) fn arena(&self) -> &Bytes {
        &self.arena
    }

    pub(crate) fn min_ts(&self) -> i64 {
        self.min_ts
    }

    pub(crate) fn max_ts(&self) -> i64 {
        self.max_ts
    }

    /// Appends the head of the record after its tenant.
    pub(crate) fn put(&self, version: u8, out: &mut Vec<u8>) {
        if version >= SIGNALS_SINCE {
            out.push(signal_number(self.signal));
        }
        out.push(self.codec);
        put_varint(out, self.plain_len as u64);
        put_varint(out, self.arena.len() as u64);
        put_blob(out, &self.columns);
    }
}

fn check_arena(plain_len: usize) -> Result<(), Error> {
    if plain_len > ARENA_BYTES_MAX {
        let (found, limit) = (plain_len as u64, ARENA_BYTES_MAX as u64);
        return Err(Error::TooLarge { part: PART, what: "the text of a batch", found, limit });
    }
    Ok(())
}

fn signal_number(signal: Signal) -> u8 {
    match signal {
        Signal::Logs => 0,
        Signal::Metrics => 1,
    }
}

fn get_signal(reader: &mut Reader<'_>) -> Result<Signal, Error> {
    let number = reader.u8()?;
    let found = Signal::ALL.into_iter().find(|signal| signal_number(*signal) == number);
    found.ok_or_else(|| reader.malformed("the signal of a record is unknown: a newer program wrote it"))
}

fn stored_form(arena: &Arena) -> (u8, Bytes) {
    if let Some((ArenaCodec::Snappy, compressed)) = &arena.compressed {
        return (SNAPPY, compressed.clone());
    }
    if arena.bytes.len() >= COMPRESS_MIN {
        let compressed = compress::lz4(&arena.bytes);
        if compressed.len() < arena.bytes.len() - arena.bytes.len() / 8 {
            return (LZ4, Bytes::from(compressed));
        }
    }
    (STORED, arena.bytes.clone())
}

/// A record of a frame that was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord {
    pub(crate) tenant: TenantId,
    pub(crate) signal: Signal,
    codec: u8,
    plain_len: usize,
    arena: Bytes,
    columns: Bytes,
    /// Offset of the columns in the file or object, for errors.
    offset: u64,
}

impl StoredRecord {
    /// Reads the heads of `count` records and finds their arenas in the rest of `body`, which is at
    /// `base` of its file.
    pub(crate) fn get_all(version: u8, body: &Bytes, base: u64, count: u32) -> Result<Vec<Self>, Error> {
        let mut reader = Reader::new(PART, base, body);
        let tenants = get_tenants(&mut reader)?;
        // A head takes at least five bytes.
        let most = reader.remaining() / 5;
        if count as usize > most {
            return Err(reader.malformed("there are fewer records than the header states"));
        }
        let (mut records, mut lengths) = (Vec::with_capacity(count as usize), Vec::new());
        for _ in 0..count {
            let tenant = tenants.get(reader.varint()? as usize);
            let tenant = tenant.ok_or_else(|| reader.malformed("a record has an unknown tenant"))?.clone();
            let signal = if version >= SIGNALS_SINCE { get_signal(&mut reader)? } else { Signal::Logs };
            let codec = reader.u8()?;
            let plain_len = reader.count("the text of a batch", ARENA_BYTES_MAX)?;
            lengths.push(reader.count("the stored text of a batch", body.len())?);
            let length = reader.count("the columns of a batch", reader.remaining())?;
            let (at, offset) = (reader.position(), reader.offset());
            reader.bytes(length)?;
            let columns = body.slice(at..at + length);
            records.push(Self { tenant, signal, codec, plain_len, arena: Bytes::new(), columns, offset });
        }
        for (record, length) in records.iter_mut().zip(lengths) {
            let at = reader.position();
            reader.bytes(length)?;
            record.arena = body.slice(at..at + length);
        }
        reader.finish()?;
        Ok(records)
    }

    /// Decodes the batch. Its arena has only the plain form.
    pub(crate) fn batch(&self) -> Result<Batch, Error> {
        let (stored, length, offset) = (&self.arena, self.plain_len, self.offset);
        let bytes = match self.codec {
            STORED if stored.len() == length => stored.clone(),
            STORED => {
                let what = "the length of a batch's text differs from the stored one";
                return Err(Error::Malformed { part: PART, offset, what });
            }
            LZ4 => Bytes::from(compress::get_lz4(stored, length, PART, offset)?),
            SNAPPY => Bytes::from(compress::get_snappy(stored, length, PART, offset)?),
            codec => return Err(Error::UnknownCodec { part: PART, offset, codec }),
        };
        let mut reader = Reader::new(PART, offset, &self.columns);
        let tenant = self.tenant.clone();
        let batch = match self.signal {
            Signal::Logs => {
                let (metadata, streams) = columns::get_columns(&mut reader, length)?;
                let arena = Arena { bytes, compressed: None };
                Batch::Logs(LogBatch { tenant, arena, metadata, streams })
            }
            Signal::Metrics => Batch::Metrics(samples::get_batch(&mut reader, tenant, &bytes)?),
        };
        reader.finish()?;
        Ok(batch)
    }

    /// Returns the bytes of the decoded batch: its text, and a bound for its columns.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match self.signal {
            Signal::Logs => (self.plain_len + self.columns.len() * 8) as u64,
            Signal::Metrics => samples::memory_bytes(&self.columns, self.plain_len),
        }
    }
}

fn get_tenants(reader: &mut Reader<'_>) -> Result<Vec<TenantId>, Error> {
    let count = reader.count("tenants of a frame", reader.remaining())?;
    let mut tenants = Vec::new();
    for _ in 0..count {
        let tenant = TenantId::new(reader.text()?);
        tenants.push(tenant.map_err(|_| reader.malformed("a tenant id is not valid"))?);
    }
    Ok(tenants)
}
