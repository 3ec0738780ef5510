//! Prints a block: its properties, sections, streams or series, pages and some rows.

use std::process::ExitCode;
use std::sync::Arc;

use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_format::block::{BlockIndex, TRAILER_LEN};
use sandur_format::log_block::{self, Wanted};
use sandur_format::sample_block::{OpenGroup, SAMPLE_BYTES, TimeTable};
use sandur_format::{BlockFooter, sample_block};
use sandur_model::{MILLISECOND_NS, Signal};
use sandur_terminal::Failed;

use super::series::SeriesPages;
use crate::target::Object;

/// Whether an object begins like a block of one of the signals.
pub fn begins(start: &[u8]) -> bool {
    log_block::check_header(start).is_ok() || sample_block::check_header(start).is_ok()
}

async fn read_footer(object: &Object) -> Result<BlockFooter, String> {
    let tail_len = object.size.min(TRAILER_LEN as u64);
    let tail = object.read(object.size - tail_len..object.size).await?;
    let range = BlockFooter::locate(&tail, object.size).map_err(|e| e.to_string())?;
    let bytes = object.read(range).await?;
    BlockFooter::open(bytes).map_err(|e| e.to_string())
}

/// Prints the block.
pub async fn show(object: &Object, rows: usize) -> Result<ExitCode, Failed> {
    let failed = |e: String| Failed::new(format!("'{}': {e}", object.path));
    let footer = read_footer(object).await.map_err(failed)?;
    show_index(object, footer.index());
    match &footer {
        BlockFooter::Logs(footer) => show_logs(object, footer, rows).await.map_err(failed)?,
        BlockFooter::Metrics(footer) => show_samples(object, footer, rows).await.map_err(failed)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what blocks of both signals have: properties, sections, the number of series.
fn show_index(object: &Object, footer: &dyn BlockIndex) {
    let (info, signal) = (footer.info(), footer.signal());
    println!("block {}, {signal}, format version {}", object.path, info.version);
    println!("  tenant   {}, level {}, zstd {}", info.tenant, info.level, info.zstd_level);
    println!("  window   {} to {}", moment::show(info.window.start), moment::show(info.window.end));
    println!("  rows     {} from {} to {}", info.rows, moment::show(info.min_ts), moment::show(info.max_ts));
    let ratio = object.size as f64 / info.raw_bytes.max(1) as f64;
    let (what, series) = match signal {
        Signal::Logs => ("lines", "streams"),
        Signal::Metrics => ("times and values", "series"),
    };
    println!("  bytes    {} for {} of {what} ({ratio:.3})", ByteSize(object.size), ByteSize(info.raw_bytes));
    if let Some(origin) = footer.origin().filter(|origin| !origin.inputs.is_empty()) {
        println!("  made of  {} blocks", origin.inputs.len());
    }
    println!("sections of the footer:");
    for section in footer.sections() {
        let (stored, plain) = (ByteSize(section.stored_bytes.into()), ByteSize(section.plain_bytes.into()));
        println!("  {:<10} {stored} stored, {plain} plain", section.name);
    }
    println!("{series}: {}", footer.series_count());
}

async fn show_logs(object: &Object, footer: &log_block::Footer, rows: usize) -> Result<(), String> {
    let table = footer.streams();
    for ordinal in 0..table.len().min(rows) {
        let stats = table.stats(ordinal as u32);
        println!("  {} {} rows, {}", table.labels(ordinal as u32), stats.rows, ByteSize(stats.bytes));
    }
    println!("pages: {}", footer.page_count());
    for page in footer.pages().iter().take(rows) {
        println!(
            "  {:>5}  {} to {}  {} rows, {} lines in {}, {} other columns, codec {}",
            page.index,
            moment::show(page.min_ts),
            moment::show(page.max_ts),
            page.rows,
            ByteSize(page.raw_bytes),
            ByteSize(page.lines.len.into()),
            ByteSize(page.narrow.len.into()),
            page.line_codec,
        );
    }
    let Some(first) = footer.pages().first() else { return Ok(()) };
    println!("first rows:");
    show_rows(object, footer, first, rows).await
}

async fn show_samples(object: &Object, footer: &sample_block::Footer, rows: usize) -> Result<(), String> {
    let mut series = SeriesPages::new(object, footer);
    series.show(rows).await?;
    println!("pages: {}", footer.page_count());
    let moment_ms = |ms: i64| moment::show(ms.saturating_mul(MILLISECOND_NS));
    for (number, group) in footer.groups().iter().enumerate().take(rows) {
        println!(
            "  {number:>5}  {} to {}  {} samples of series {} to {} in {} pages, {} in {}",
            moment_ms(group.min_ms),
            moment_ms(group.max_ms),
            group.rows,
            group.first_series,
            group.last_series,
            group.pages,
            ByteSize(group.rows * SAMPLE_BYTES),
            ByteSize(group.piece.len.into()),
        );
    }
    let lists: u64 = footer.time_pages().iter().map(|page| u64::from(page.lists)).sum();
    let bytes: u64 = footer.time_pages().iter().map(|page| u64::from(page.piece.len)).sum();
    println!("  {lists} lists of times in {}", ByteSize(bytes));
    let Some(entry) = footer.groups().first() else { return Ok(()) };
    println!("first samples:");
    let mut times = TimeTable::default();
    for number in footer.time_pages_of(&[0]) {
        let page = &footer.time_pages()[number as usize];
        let lists = page.decode(&object.read(page.piece.range()).await?).map_err(|e| e.to_string())?;
        times.push(page.first_list, Arc::new(lists));
    }
    let group = OpenGroup::open(entry, object.read(entry.piece.range()).await?).map_err(|e| e.to_string())?;
    let Some(first) = group.head().pages().first() else { return Ok(()) };
    let page = group.head().decoder().decode(first, &group.page_bytes(first), &times);
    let page = page.map_err(|e| e.to_string())?;
    let samples = page.runs.iter().flat_map(|run| run.rows().zip(&**run.times).map(move |at| (run, at)));
    for (run, (row, time)) in samples.take(rows) {
        let labels = series.page_of(run.series).await?.labels(run.series);
        match page.histograms.get(row) {
            None => println!("  {} {labels} {}", moment_ms(*time), page.values[row]),
            Some(histogram) => println!("  {} {labels} {histogram}", moment_ms(*time)),
        }
    }
    Ok(())
}

async fn show_rows(
    object: &Object,
    footer: &log_block::Footer,
    page: &log_block::PageEntry,
    most: usize,
) -> Result<(), String> {
    let (lines, narrow) = (object.read(page.lines.range()).await?, object.read(page.narrow.range()).await?);
    let columns = page.decode_narrow(&narrow, Wanted { metadata: true }).map_err(|e| e.to_string())?;
    let lines = page.decode_lines(&lines, &columns.timestamps).map_err(|e| e.to_string())?;
    if let Some(run) = columns.runs.first() {
        for row in (run.start as usize..run.end as usize).take(most) {
            let metadata: Vec<String> = columns
                .metadata_of(row)
                .map(|(n, v)| format!("{}={}", String::from_utf8_lossy(n), String::from_utf8_lossy(v)))
                .collect();
            println!(
                "  {} {} [{}] {}",
                moment::show(columns.timestamps[row]),
                footer.streams().labels(run.stream),
                metadata.join(" "),
                String::from_utf8_lossy(lines.line(row))
            );
        }
    }
    Ok(())
}
