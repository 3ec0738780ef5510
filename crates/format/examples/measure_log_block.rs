//! Measures the writer, the readers and the filters on packs of Loki push requests, as made by the
//! project's load generator (`gen-logs`): speed per thread and bytes per part.
//!
//! `cargo run --release -p sandur-format --example measure_log_block -- DATA-FOLDER`, then optionally
//! `--zstd LEVEL` and `--hours N` (one block per N hours).
//!
//! A pack is a sequence of frames: payload length (u32), items (u32), raw bytes (u64), newest timestamp
//! (i64), payload.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use sandur_base::Id;
use sandur_format::block::{BlockIndex, BlockSummary};
use sandur_format::log_block::{BlockOptions, BlockWriter, Footer, Row, Wanted, sort_streams};
use sandur_format::needle::{FilterBuilder, PageFilter, needle_keys, text_keys};
use sandur_format::wal_segment::{Frame, FrameId, Record, encode_frame};
use sandur_model::{
    Arena, ArenaCodec, AutomatonParts, AutomatonState, Batch, Entry, Labels, Level, LineAutomaton, LogBatch,
    MatchOp, Matcher, Span, StreamEntries, TenantId, TimeRange,
};
use sandur_protobuf::Reader;
use sandur_runtime::Env;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("give the folder of a data set")?;
    let (mut zstd_level, mut hours) = (1, 24);
    while let Some(option) = arguments.next() {
        let value = arguments.next().context("an option needs a value")?;
        match option.as_str() {
            "--zstd" => zstd_level = value.parse()?,
            "--hours" => hours = value.parse()?,
            _ => bail!("unknown option {option}"),
        }
    }
    let clock = Clock(Env::system(1));
    let batches = clock.time("read and decode requests", 0, || read_packs(Path::new(&folder)))?;
    measure_wal(&clock, &batches)?;
    let rows = Rows::of(&batches);
    println!(
        "{} rows, {} streams, {:.1} MB of lines",
        rows.order.len(),
        rows.streams.len(),
        rows.raw as f64 / 1e6
    );
    let windows = rows.windows(hours);
    let mut blocks = Vec::new();
    for window in &windows {
        blocks.push(measure_writer(&clock, &rows, window, zstd_level)?);
    }
    let stored: u64 = blocks.iter().map(|(summary, _)| summary.size).sum();
    println!(
        "stored: {:.1} MB = {:.4} of raw in {} blocks",
        stored as f64 / 1e6,
        stored as f64 / rows.raw as f64,
        blocks.len()
    );
    let footers = measure_readers(&clock, &blocks)?;
    measure_parts(&clock, &rows, zstd_level);
    measure_pruning(&clock, &blocks, &footers)
}

/// Processor time of this thread where the kernel reports it, else wall-clock time: other work on the
/// machine must not count.
struct Clock(Env);

impl Clock {
    fn now(&self) -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
        nanoseconds.map_or_else(|| self.0.monotonic(), Duration::from_nanos)
    }

    fn time<T>(&self, what: &str, bytes: u64, work: impl FnOnce() -> T) -> T {
        let start = self.now();
        let result = work();
        report(what, bytes, self.now() - start);
        result
    }
}

fn report(what: &str, bytes: u64, took: Duration) {
    let speed = if bytes > 0 {
        format!("{:9.0} MB/s", bytes as f64 / 1e6 / took.as_secs_f64())
    } else {
        String::new()
    };
    println!("{what:44} {:10.3} ms {speed}", took.as_secs_f64() * 1e3);
}

fn read_packs(folder: &Path) -> Result<Vec<LogBatch>> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    names.retain(|path| path.extension().is_some_and(|e| e == "pack"));
    names.sort();
    let mut batches = Vec::new();
    for name in names {
        let bytes = Bytes::from(std::fs::read(&name)?);
        let mut at = 0;
        while at < bytes.len() {
            let length = u32::from_le_bytes(bytes[at..at + 4].try_into()?) as usize;
            batches.push(decode_push(bytes.slice(at + 24..at + 24 + length))?);
            at += 24 + length;
        }
    }
    Ok(batches)
}

fn decode_push(compressed: Bytes) -> Result<LogBatch> {
    let bytes = Bytes::from(snappy(&compressed)?);
    let (mut streams, mut request) = (Vec::new(), Reader::new(&bytes));
    while request.key()?.is_some() {
        streams.push(decode_stream(request.message()?)?);
    }
    let arena = Arena { bytes, compressed: Some((ArenaCodec::Snappy, compressed)) };
    Ok(LogBatch { tenant: TenantId::default_tenant(), arena, metadata: Vec::new(), streams })
}

fn snappy(block: &[u8]) -> Result<Vec<u8>> {
    let length = Reader::new(block).varint()? as usize;
    Ok(sandur_format::codec::compress::get_snappy(block, length, "request", 0)?)
}

fn decode_stream(mut stream: Reader<'_>) -> Result<StreamEntries> {
    let (mut labels, mut entries) = (Labels::default(), Vec::new());
    while let Some((number, _)) = stream.key()? {
        if number == 1 {
            labels = Labels::parse(std::str::from_utf8(stream.bytes()?)?)?;
            continue;
        }
        let mut entry = Entry {
            timestamp: 0,
            line: Span::default(),
            metadata_start: 0,
            metadata_len: 0,
            level: Level::None,
        };
        let mut fields = stream.message()?;
        while let Some(key) = fields.key()? {
            match key {
                (1, _) => {
                    let mut timestamp = fields.message()?;
                    while let Some((number, _)) = timestamp.key()? {
                        let unit = if number == 1 { 1_000_000_000 } else { 1 };
                        entry.timestamp += timestamp.varint()? as i64 * unit;
                    }
                }
                (2, _) => entry.line = fields.span()?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        entries.push(entry);
    }
    let level = labels.get("level").and_then(Level::from_name).unwrap_or(Level::Unknown);
    entries.iter_mut().for_each(|entry| entry.level = level);
    Ok(StreamEntries { id: labels.stream_id(), labels: Arc::new(labels), entries })
}

fn measure_wal(clock: &Clock, batches: &[LogBatch]) -> Result<()> {
    let raw: u64 = batches.iter().map(LogBatch::line_bytes).sum();
    let mut files: Vec<Vec<Bytes>> = Vec::new();
    clock.time("WAL encode", raw, || {
        for (sequence, group) in batches.chunks(8).enumerate() {
            let records = group.iter().map(Record::of_logs).collect::<Result<Vec<_>, _>>()?;
            let mut pieces = Vec::new();
            let id = FrameId { incarnation: Id::from_parts(1, 2), sequence: sequence as u64 };
            encode_frame(id, &records, &mut pieces)?;
            files.push(pieces);
        }
        Ok::<_, sandur_format::Error>(())
    })?;
    let stored: usize = files.iter().flatten().map(Bytes::len).sum();
    let arenas: usize =
        batches.iter().filter_map(|b| b.arena.compressed.as_ref()).map(|(_, b)| b.len()).sum();
    println!("WAL: {:.1} MB stored, of which {:.1} MB text", stored as f64 / 1e6, arenas as f64 / 1e6);
    let files: Vec<Bytes> = files.iter().map(|pieces| pieces.concat().into()).collect();
    let rows = clock.time("WAL decode", raw, || {
        files.iter().try_fold(0, |rows, file| {
            let batches = Frame::from_object(file.clone())?.batches()?;
            Ok::<_, sandur_format::Error>(rows + batches.iter().map(Batch::rows).sum::<usize>())
        })
    })?;
    println!("WAL: {rows} rows read");
    Ok(())
}

/// All rows in block order.
struct Rows<'a> {
    batches: &'a [LogBatch],
    streams: Vec<Arc<Labels>>,
    /// Stream ordinal, timestamp, batch, stream in the batch, entry.
    order: Vec<(u32, i64, u32, u32, u32)>,
    raw: u64,
}

impl<'a> Rows<'a> {
    fn of(batches: &'a [LogBatch]) -> Self {
        let mut streams: Vec<Arc<Labels>> =
            batches.iter().flat_map(|b| &b.streams).map(|s| s.labels.clone()).collect();
        sort_streams(&mut streams);
        let ordinals: std::collections::HashMap<_, u32> =
            streams.iter().enumerate().map(|(n, s)| (s.stream_id(), n as u32)).collect();
        let mut order = Vec::new();
        for (batch_at, batch) in batches.iter().enumerate() {
            for (stream_at, stream) in batch.streams.iter().enumerate() {
                let ordinal = ordinals[&stream.id];
                order.extend(stream.entries.iter().enumerate().map(|(at, entry)| {
                    (ordinal, entry.timestamp, batch_at as u32, stream_at as u32, at as u32)
                }));
            }
        }
        order.sort_unstable();
        Self { batches, streams, order, raw: batches.iter().map(LogBatch::line_bytes).sum() }
    }

    fn line(&self, row: &(u32, i64, u32, u32, u32)) -> (&'a Entry, &'a [u8]) {
        let batch = &self.batches[row.2 as usize];
        let entry = &batch.streams[row.3 as usize].entries[row.4 as usize];
        (entry, entry.line.of(&batch.arena.bytes))
    }

    fn windows(&self, hours: i64) -> Vec<TimeRange> {
        let length = hours * 3_600_000_000_000;
        let mut windows: Vec<i64> = self.order.iter().map(|row| row.1 / length).collect();
        windows.sort_unstable();
        windows.dedup();
        windows.into_iter().map(|w| TimeRange::new(w * length, (w + 1) * length)).collect()
    }
}

fn measure_writer(
    clock: &Clock,
    rows: &Rows<'_>,
    window: &TimeRange,
    zstd_level: i32,
) -> Result<(BlockSummary, Bytes)> {
    let mut options = BlockOptions::new(TenantId::default_tenant(), *window, 1);
    options.zstd_level = zstd_level;
    let mine: Vec<_> = rows.order.iter().filter(|row| window.contains(row.1)).collect();
    let raw = mine.iter().map(|row| rows.line(row).1.len() as u64).sum();
    let mut writer = BlockWriter::new(options, rows.streams.clone())?;
    let (mut out, mut held) = (Vec::new(), 0);
    let summary = clock.time("write a block", raw, || {
        for row in mine {
            let (entry, line) = rows.line(row);
            let row = Row { stream: row.0, timestamp: row.1, level: entry.level, line };
            writer.push_row(row, std::iter::empty())?;
            if row.timestamp % 16 == 0 {
                held = held.max(writer.memory_bytes());
                writer.take_output(&mut out);
            }
        }
        writer.finish(&mut out)
    })?;
    println!("at most {:.1} MB held while writing", held as f64 / 1e6);
    Ok((summary, Bytes::from(out.concat())))
}

fn measure_readers(clock: &Clock, blocks: &[(BlockSummary, Bytes)]) -> Result<Vec<Footer>> {
    let mut footers = Vec::new();
    for (summary, block) in blocks {
        let bytes = block.slice(summary.footer_offset as usize..);
        let footer = clock.time("open a footer", 0, || Footer::open(bytes.clone()))?;
        let raw = summary.raw_bytes as f64 / 100.0;
        let sizes = |name: &str, bytes: u64| {
            println!("  {name:24} {bytes:12} bytes {:8.4} % of raw", bytes as f64 / raw)
        };
        sizes("lines", footer.pages().iter().map(|p| u64::from(p.lines.len)).sum());
        sizes("narrow columns", footer.pages().iter().map(|p| u64::from(p.narrow.len)).sum());
        sizes("filters", footer.filter_segments().iter().map(|s| s.range().end - s.range().start).sum());
        for section in footer.sections() {
            sizes(section.name, section.stored_bytes.into());
        }
        println!(
            "  {} pages, footer holds {:.1} MB in memory",
            footer.pages().len(),
            footer.memory_bytes() as f64 / 1e6
        );
        let counts = clock.time("decode all minute counts", 0, || {
            footer.minute_counts().decode(None, |minute, lines, bytes| (minute, lines, bytes))
        })?;
        println!("  {} counts in {} runs", counts.counts.len(), counts.runs.len());
        let matchers = [
            Matcher::new("app", MatchOp::Equal, "checkout")?,
            Matcher::new("host", MatchOp::Regex, ".*[13]")?,
        ];
        let selected = clock.time("select streams", 0, || footer.select(&matchers))?;
        println!("  {} streams", selected.len());
        let raw = summary.raw_bytes;
        let cut = |range: std::ops::Range<u64>| block.slice(range.start as usize..range.end as usize);
        clock.time("decode narrow columns", raw, || {
            footer.pages().iter().try_for_each(|p| {
                p.decode_narrow(&cut(p.narrow.range()), Wanted { metadata: true }).map(drop)
            })
        })?;
        clock.time("decode lines", raw, || {
            footer.pages().iter().try_for_each(|p| {
                let narrow = p.decode_narrow(&cut(p.narrow.range()), Wanted { metadata: false })?;
                p.decode_lines(&cut(p.lines.range()), &narrow.timestamps).map(drop)
            })
        })?;
        for needle in ["timeout", "\" 404 ", "error", "zzz-nowhere"] {
            measure_search(clock, summary.raw_bytes, &footer, block, needle)?;
        }
        footers.push(footer);
    }
    Ok(footers)
}

/// Searches all lines twice: in their pieces, and in assembled lines.
fn measure_search(clock: &Clock, raw: u64, footer: &Footer, block: &Bytes, needle: &str) -> Result<()> {
    let cut = |range: std::ops::Range<u64>| block.slice(range.start as usize..range.end as usize);
    let test = contains(needle.as_bytes())?;
    let (mut found, mut expected, mut without_parts) = (0, 0, 0);
    clock.time(&format!("search '{needle}' over pieces"), raw, || {
        footer.pages().iter().try_for_each(|p| -> Result<()> {
            let narrow = p.decode_narrow(&cut(p.narrow.range()), Wanted { metadata: false })?;
            let Some(mut lines) = p.open_lines(&cut(p.lines.range()))? else {
                without_parts += 1;
                return Ok(());
            };
            let mut alive = vec![true; narrow.timestamps.len()];
            lines.retain(&test, false, &narrow.timestamps, &mut alive)?;
            found += alive.iter().filter(|alive| **alive).count();
            Ok(())
        })
    })?;
    let finder = memchr::memmem::Finder::new(needle);
    clock.time(&format!("search '{needle}' in lines"), raw, || {
        footer.pages().iter().try_for_each(|p| -> Result<()> {
            let narrow = p.decode_narrow(&cut(p.narrow.range()), Wanted { metadata: false })?;
            let lines = p.decode_lines(&cut(p.lines.range()), &narrow.timestamps)?;
            let mut next = 0;
            for row in finder.find_iter(&lines.bytes).map(|hit| lines.row_at(hit)) {
                expected += usize::from(row >= next);
                next = row + 1;
            }
            Ok(())
        })
    })?;
    println!("  {found} of {expected} rows, {without_parts} pages without parts");
    Ok(())
}

/// Returns the automaton that searches for a needle; its state is the number of needle bytes that were
/// matched last.
fn contains(needle: &[u8]) -> Result<LineAutomaton> {
    let next = |count: usize, byte: u8| -> AutomatonState {
        let seen = [&needle[..count], &[byte]].concat();
        let from = (0..=seen.len()).find(|&from| needle.starts_with(&seen[from..])).unwrap_or(seen.len());
        if seen.len() - from == needle.len() { LineAutomaton::PASSES } else { (seen.len() - from) as u16 + 2 }
    };
    let mut table = vec![Vec::new(); 2];
    table.extend((0..needle.len()).map(|count| (0..=255).map(|byte| next(count, byte)).collect::<Vec<_>>()));
    let passes_at_end = vec![false; needle.len() + 2];
    let classes = std::array::from_fn(|byte| byte as u8);
    Ok(LineAutomaton::new(AutomatonParts { classes, next: table, passes_at_end, start: 2 })?)
}

/// Measures the expensive parts of the writer separately, on pages of 2 MiB.
fn measure_parts(clock: &Clock, rows: &Rows<'_>, zstd_level: i32) {
    let mut text = Vec::new();
    for row in &rows.order {
        text.extend_from_slice(rows.line(row).1);
        text.push(b'\n');
    }
    let total = text.len() as u64;
    let mut keys = Vec::new();
    clock.time("keys alone", total, || {
        for page in text.chunks(2 << 20) {
            keys.clear();
            text_keys(page, &mut keys);
        }
    });
    let mut builder = FilterBuilder::new();
    let mut filters: Vec<PageFilter> = Vec::new();
    clock.time("keys and filters", total, || {
        for page in text.chunks(2 << 20) {
            builder.add_text(page);
            filters.push(builder.finish());
        }
    });
    let bytes: usize = filters.iter().map(PageFilter::len).sum();
    println!("  filters: {:.4} % of raw", bytes as f64 * 100.0 / total as f64);
    for level in [zstd_level, 3] {
        let mut out = Vec::new();
        let mut stored = 0;
        clock.time(&format!("zstd -{level} alone"), total, || {
            for page in text.chunks(2 << 20) {
                out.clear();
                stored += sandur_format::codec::compress::put_zstd(&mut out, page, level);
            }
        });
        println!("  {:.4} of raw", stored as f64 / total as f64);
    }
}

fn measure_pruning(clock: &Clock, blocks: &[(BlockSummary, Bytes)], footers: &[Footer]) -> Result<()> {
    let mut views = Vec::new();
    for ((_, block), footer) in blocks.iter().zip(footers) {
        for segment in footer.filter_segments() {
            let range = segment.range();
            views
                .push((segment, segment.open_whole(&block.slice(range.start as usize..range.end as usize))?));
        }
    }
    let hex = |seed: u64, digits: usize| -> String {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xDEAD_BEEF;
        let mut text = String::new();
        while text.len() < digits {
            state = (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(seed);
            text.push_str(&format!("{:08x}", state >> 32));
        }
        text.truncate(digits);
        text
    };
    let uuid = |seed| {
        let h = hex(seed, 32);
        format!("{}-{}-4{}-a{}-{}", &h[..8], &h[8..12], &h[13..16], &h[17..20], &h[20..])
    };
    let kinds: [(&str, &dyn Fn(u64) -> String); 6] = [
        ("absent uuid", &uuid),
        ("absent 32 hex digits", &|n| hex(n, 32)),
        ("absent 16 hex digits", &|n| hex(n, 16)),
        ("span_id\":\"16 hex", &|n| format!("\"span_id\":\"{}\"", hex(n, 16))),
        ("user id in JSON", &|n| format!("\"user\":{{\"id\":\"nobody{}\"", n % 1000)),
        ("rare phrase", &|_| "quorum lost while committing ledger segment".to_owned()),
    ];
    let pages: usize = footers.iter().map(|f| f.pages().len()).sum();
    for (what, make) in kinds {
        let needles: Vec<_> = (1..=200u64).map(|n| needle_keys(make(n).as_bytes(), false)).collect();
        let keys: usize = needles.iter().map(Vec::len).sum();
        let mut passed = 0;
        let start = clock.now();
        for needle in &needles {
            for (segment, pieces) in &views {
                let pages = segment.pages_with_all(pieces, needle);
                passed += (0..segment.pages().len()).filter(|page| pages.contains(*page)).count();
            }
        }
        let took = (clock.now() - start) / needles.len() as u32;
        let average = passed as f64 / needles.len() as f64;
        println!(
            "{what:24} {:.1} keys: {average:7.2} of {pages} pages pass, {took:?} per needle",
            keys as f64 / 200.0
        );
    }
    Ok(())
}
