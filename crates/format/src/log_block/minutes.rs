//! Counts per (stream, level, minute): volume and rate queries use them instead of pages.
//!
//! Minute `m` counts the rows with `(m - 1) * 60 s < timestamp <= m * 60 s`, the windows of LogQL.
//!
//! Layout: base minute (zigzag LEB128), number of runs, of counts and of chunks (LEB128). A run is the
//! counts of one stream and level, by ascending minute; runs are sorted by stream, then level. Per run,
//! bit packed: gap of the stream's ordinal, level, number of counts, first minute minus the base. Per
//! chunk: number of runs, length in bytes (LEB128). Then the chunks, each of complete runs: bit-packed
//! differences of minutes (0 for the first of a run), lines, bytes. Chunks can be decoded separately.

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Level, MINUTE_NS};

use crate::block::PART_FOOTER;
use crate::block::SeriesStats;
use crate::codec::bitpack::{BLOCK, each_packed, get_packed_u32, put_packed};
use crate::codec::reader::Reader;
use crate::codec::varint::{put_signed, put_varint};
use crate::error::Error;

/// A chunk is closed after the run in which it reaches this many counts.
const CHUNK_COUNTS: usize = 4096;

/// Most counts that are decoded at once: 16 bytes each, so 1 GiB.
const COUNTS_MAX: usize = 64 << 20;

/// Counts of one stream and level: a range of the decoded counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRun {
    /// The stream's ordinal.
    pub stream: u32,
    /// The level of the counted rows.
    pub level: Level,
    /// The range of this run in the decoded counts.
    pub counts: Range<usize>,
}

/// Decoded counts.
#[derive(Clone, Debug)]
pub struct DecodedCounts<T> {
    /// The counts of all runs, concatenated.
    pub counts: Vec<T>,
    /// Runs by stream, then level.
    pub runs: Vec<CountRun>,
}

/// The counts of a block, still encoded.
#[derive(Clone, Debug)]
pub struct MinuteCounts {
    bytes: Bytes,
    base: i64,
    runs: Vec<RunEntry>,
    chunks: Vec<Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct RunEntry {
    stream: u32,
    level: Level,
    counts: u32,
    first_minute: u32,
}

#[derive(Clone, Debug)]
struct Chunk {
    runs: Range<usize>,
    bytes: Range<usize>,
    counts: usize,
}

/// Returns the minute that counts a timestamp.
#[inline]
pub fn minute_of(timestamp: i64) -> i64 {
    // Rounds up: a timestamp at the end of a minute belongs to that minute.
    timestamp.div_euclid(MINUTE_NS) + i64::from(timestamp.rem_euclid(MINUTE_NS) > 0)
}

impl MinuteCounts {
    /// Returns the number of counts.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.counts).sum()
    }

    /// Whether there are no counts.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let runs = self.runs.len() * size_of::<RunEntry>();
        (self.bytes.len() + runs + self.chunks.len() * size_of::<Chunk>()) as u64
    }

    /// Returns how many counts [`MinuteCounts::decode`] would return for these streams.
    pub fn counts_of(&self, streams: &RoaringBitmap) -> usize {
        let wanted = self.runs.iter().filter(|run| streams.contains(run.stream));
        wanted.map(|run| run.counts as usize).sum()
    }

    /// Decodes the counts of the given streams (all when `None`). `make` converts minute, lines and bytes
    /// to the caller's type.
    pub fn decode<T>(
        &self,
        streams: Option<&RoaringBitmap>,
        make: impl Fn(i32, u32, u64) -> T,
    ) -> Result<DecodedCounts<T>, Error> {
        let all = self.streams();
        let everything = streams.is_none_or(|s| s.range_cardinality(0..all) == u64::from(all));
        let streams = streams.filter(|_| !everything);
        let room = streams.map_or(self.len(), |s| self.counts_of(s));
        let mut decoded = DecodedCounts { counts: Vec::with_capacity(room), runs: Vec::new() };
        let mut scratch = Scratch::default();
        for chunk in &self.chunks {
            let runs = &self.runs[chunk.runs.clone()];
            if streams.is_some_and(|s| !runs.iter().any(|run| s.contains(run.stream))) {
                continue;
            }
            scratch.read(&self.bytes[chunk.bytes.clone()], chunk)?;
            let mut at = 0;
            for run in runs {
                let end = at + run.counts as usize;
                if streams.is_none_or(|s| s.contains(run.stream)) {
                    self.append_run(run, &scratch, at..end, &make, &mut decoded);
                }
                at = end;
            }
        }
        Ok(decoded)
    }

    fn append_run<T>(
        &self,
        run: &RunEntry,
        scratch: &Scratch,
        range: Range<usize>,
        make: &impl Fn(i32, u32, u64) -> T,
        decoded: &mut DecodedCounts<T>,
    ) {
        let start = decoded.counts.len();
        let mut minute = self.base.wrapping_add(i64::from(run.first_minute)) as i32;
        let columns = scratch.distances[range.clone()].iter();
        let columns = columns.zip(&scratch.lines[range.clone()]).zip(&scratch.bytes[range]);
        decoded.counts.extend(columns.map(|((distance, lines), bytes)| {
            minute = minute.wrapping_add(*distance as i32);
            make(minute, *lines, *bytes)
        }));
        let counts = start..decoded.counts.len();
        decoded.runs.push(CountRun { stream: run.stream, level: run.level, counts });
    }

    fn streams(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.stream + 1)
    }

    pub(crate) fn get(bytes: Bytes, streams: u32) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, 0, &bytes);
        let base = reader.signed()?;
        let run_count = reader.count("runs of minute counts", reader.remaining() * 32)?;
        let counts = reader.count("minute counts of a block", COUNTS_MAX)?;
        let chunk_count = reader.count("chunks of minute counts", run_count)?;
        let runs = get_runs(&mut reader, run_count, streams)?;
        let mut lengths = Vec::new();
        for _ in 0..chunk_count {
            lengths.push((reader.count("runs of a chunk", run_count)?, reader.varint32()? as usize));
        }
        let (mut chunks, mut run, mut at) = (Vec::with_capacity(chunk_count), 0, reader.position());
        for (chunk_runs, length) in lengths {
            let own = run..run + chunk_runs;
            let entries =
                runs.get(own.clone()).ok_or_else(|| reader.malformed("a chunk has too many runs"))?;
            let counts: usize = entries.iter().map(|run| run.counts as usize).sum();
            reader.bytes(length)?;
            // A block of 128 counts takes at least two bytes in each of the three columns.
            if counts.div_ceil(BLOCK) * 6 > length {
                return Err(reader.malformed("a chunk is too short for its counts"));
            }
            chunks.push(Chunk { runs: own.clone(), bytes: at..at + length, counts });
            (run, at) = (own.end, at + length);
        }
        if run != runs.len() || chunks.iter().map(|c| c.counts).sum::<usize>() != counts {
            return Err(reader.malformed("the chunks of minute counts do not hold all runs"));
        }
        reader.finish()?;
        Ok(Self { bytes, base, runs, chunks })
    }
}

fn get_runs(reader: &mut Reader<'_>, count: usize, streams: u32) -> Result<Vec<RunEntry>, Error> {
    let gaps = get_packed_u32(reader, count)?;
    let levels = get_packed_u32(reader, count)?;
    let counts = get_packed_u32(reader, count)?;
    let first_minutes = get_packed_u32(reader, count)?;
    let (mut runs, mut stream) = (Vec::with_capacity(count), 0u32);
    for at in 0..count {
        stream = stream.checked_add(gaps[at]).filter(|&stream| stream < streams).unwrap_or(u32::MAX);
        let level = u8::try_from(levels[at]).ok().and_then(Level::from_number);
        let (true, Some(level)) = (stream != u32::MAX, level) else {
            return Err(reader.malformed("a run of minute counts names no stream or level of the block"));
        };
        runs.push(RunEntry { stream, level, counts: counts[at], first_minute: first_minutes[at] });
    }
    Ok(runs)
}

#[derive(Default)]
struct Scratch {
    distances: Vec<u32>,
    lines: Vec<u32>,
    bytes: Vec<u64>,
}

impl Scratch {
    fn read(&mut self, bytes: &[u8], chunk: &Chunk) -> Result<(), Error> {
        let mut reader = Reader::new(PART_FOOTER, chunk.bytes.start as u64, bytes);
        self.distances.clear();
        self.lines.clear();
        self.bytes.clear();
        each_packed(&mut reader, chunk.counts, |v| self.distances.push(v as u32))?;
        each_packed(&mut reader, chunk.counts, |v| self.lines.push(v as u32))?;
        each_packed(&mut reader, chunk.counts, |v| self.bytes.push(v))?;
        reader.finish()
    }
}

/// Rows of one stream and level in one minute, as gathered by the writer. Small, because a block may have
/// millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    stream: u32,
    minute: i32,
    lines: u32,
    level: Level,
    /// Bytes of the lines; a further entry counts bytes beyond 40 bits.
    bytes: [u8; 5],
}

/// Most bytes that one entry counts.
const COUNT_BYTES_MAX: u64 = (1 << 40) - 1;

impl Count {
    fn bytes(&self) -> u64 {
        let mut wide = [0; 8];
        wide[..5].copy_from_slice(&self.bytes);
        u64::from_le_bytes(wide)
    }

    fn run(&self) -> (u32, Level) {
        (self.stream, self.level)
    }
}

/// Gathers counts while rows are written. Fast when rows are ordered by stream and time.
pub(crate) struct MinuteCounter {
    stream: u32,
    minute: i64,
    /// The current minute is `after < timestamp <= until`.
    after: i64,
    until: i64,
    open: [(u32, u64); Level::EVERY.len()],
    counts: Vec<Count>,
}

impl Default for MinuteCounter {
    fn default() -> Self {
        let open = [(0, 0); Level::EVERY.len()];
        Self { stream: u32::MAX, minute: 0, after: i64::MAX, until: i64::MIN, open, counts: Vec::new() }
    }
}

impl MinuteCounter {
    #[inline]
    pub(crate) fn add(&mut self, stream: u32, timestamp: i64, level: Level, line_bytes: usize) {
        if stream != self.stream || timestamp <= self.after || timestamp > self.until {
            self.close();
            self.stream = stream;
            self.minute = minute_of(timestamp);
            self.until = self.minute.saturating_mul(MINUTE_NS);
            self.after = (self.minute - 1).saturating_mul(MINUTE_NS);
        }
        let (lines, bytes) = &mut self.open[level as usize];
        *lines += 1;
        *bytes += line_bytes as u64;
        if *lines == u32::MAX || *bytes > COUNT_BYTES_MAX / 2 {
            self.close();
        }
    }

    fn close(&mut self) {
        for (level, (lines, bytes)) in Level::EVERY.into_iter().zip(&mut self.open) {
            let (lines, total) = (std::mem::take(lines), std::mem::take(bytes));
            if lines > 0 {
                let mut bytes = [0; 5];
                bytes.copy_from_slice(&total.to_le_bytes()[..5]);
                // A 64-bit number of nanoseconds has fewer minutes than an i32 holds.
                let (stream, minute) = (self.stream, self.minute as i32);
                self.counts.push(Count { stream, minute, lines, level, bytes });
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.counts.capacity() * size_of::<Count>()) as u64
    }

    /// Returns all counts by stream, level and minute.
    pub(crate) fn finish(&mut self) -> FinishedCounts {
        self.close();
        let mut counts = std::mem::take(&mut self.counts);
        counts.sort_unstable_by_key(|c| (c.stream, c.level, c.minute));
        FinishedCounts(counts)
    }
}

/// All counts of a block, sorted by stream, level and minute; a minute may occur several times.
pub(crate) struct FinishedCounts(Vec<Count>);

impl FinishedCounts {
    /// Adds rows, bytes and levels to the streams' totals.
    pub(crate) fn add_to(&self, stats: &mut [SeriesStats]) {
        for count in &self.0 {
            let stats = &mut stats[count.stream as usize];
            stats.rows += u64::from(count.lines);
            stats.bytes += count.bytes();
            stats.levels |= 1 << count.level as u16;
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let base = self.0.iter().map(|c| c.minute).min().unwrap_or(0);
        let (mut runs, mut chunks, mut chunk) = (Vec::new(), Vec::new(), ChunkColumns::default());
        let (mut total, mut in_chunk) = (0u64, 0u64);
        for run in self.0.chunk_by(|a, b| a.run() == b.run()) {
            let counts = chunk.add(run);
            total += counts;
            in_chunk += 1;
            runs.push((run[0].stream, run[0].level, counts, i64::from(run[0].minute) - i64::from(base)));
            if chunk.minutes.len() >= CHUNK_COUNTS {
                chunks.push((std::mem::take(&mut in_chunk), std::mem::take(&mut chunk).put()));
            }
        }
        if in_chunk > 0 {
            chunks.push((in_chunk, chunk.put()));
        }
        put_signed(out, base.into());
        put_varint(out, runs.len() as u64);
        put_varint(out, total);
        put_varint(out, chunks.len() as u64);
        let mut stream = 0;
        let gap = |run: &(u32, Level, u64, i64)| u64::from(run.0 - std::mem::replace(&mut stream, run.0));
        put_packed(out, &runs.iter().map(gap).collect::<Vec<_>>());
        put_packed(out, &runs.iter().map(|run| run.1 as u64).collect::<Vec<_>>());
        put_packed(out, &runs.iter().map(|run| run.2).collect::<Vec<_>>());
        put_packed(out, &runs.iter().map(|run| run.3 as u64).collect::<Vec<_>>());
        for (runs, bytes) in &chunks {
            put_varint(out, *runs);
            put_varint(out, bytes.len() as u64);
        }
        chunks.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
    }
}

/// The columns of a chunk.
#[derive(Default)]
struct ChunkColumns {
    minutes: Vec<u64>,
    lines: Vec<u64>,
    bytes: Vec<u64>,
}

impl ChunkColumns {
    /// Adds a run, in which equal minutes are merged, and returns its number of counts.
    fn add(&mut self, run: &[Count]) -> u64 {
        let start = self.minutes.len();
        let mut before = run[0].minute;
        for minute in run.chunk_by(|a, b| a.minute == b.minute) {
            self.minutes.push((i64::from(minute[0].minute) - i64::from(before)) as u64);
            before = minute[0].minute;
            let lines: u64 = minute.iter().map(|c| u64::from(c.lines)).sum();
            self.lines.push(lines.min(u32::MAX.into()));
            self.bytes.push(minute.iter().map(Count::bytes).sum());
        }
        (self.minutes.len() - start) as u64
    }

    fn put(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_packed(&mut out, &self.minutes);
        put_packed(&mut out, &self.lines);
        put_packed(&mut out, &self.bytes);
        out
    }
}
