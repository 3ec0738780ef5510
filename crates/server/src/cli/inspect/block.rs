//! A block for people: what it is, its sections, streams or series, pages and some rows.

use std::process::ExitCode;

use sandur_base::units::ByteSize;
use sandur_format::block::{BlockIndex, TRAILER_LEN};
use sandur_format::log_block::{self, Wanted};
use sandur_format::{BlockFooter, sample_block};
use sandur_model::{MILLISECOND_NS, Signal};

use crate::cli::moment;
use crate::cli::target::Object;
use crate::failed_command::Failed;

/// Whether an object begins as a block of one of the signals does.
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

/// Shows the block.
pub async fn show(object: &Object, rows: usize) -> Result<ExitCode, Failed> {
    let failed = |e: String| Failed::new(format!("'{}': {e}", object.path));
    let footer = read_footer(object).await.map_err(failed)?;
    show_index(object, footer.index(), rows);
    match &footer {
        BlockFooter::Logs(footer) => show_logs(object, footer, rows).await.map_err(failed)?,
        BlockFooter::Metrics(footer) => show_samples(object, footer, rows).await.map_err(failed)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What blocks of both signals have: facts, sections, series.
fn show_index(object: &Object, footer: &dyn BlockIndex, most: usize) {
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
    let table = footer.series();
    println!("{series}: {}", table.len());
    for ordinal in 0..table.len().min(most) {
        let stats = table.stats(ordinal as u32);
        println!("  {} {} rows, {}", table.labels(ordinal as u32), stats.rows, ByteSize(stats.bytes));
    }
    println!("pages: {}", footer.page_count());
}

async fn show_logs(object: &Object, footer: &log_block::Footer, rows: usize) -> Result<(), String> {
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
    for (number, page) in footer.pages().iter().enumerate().take(rows) {
        println!(
            "  {number:>5}  {} to {}  {} samples of series {} to {}, {} in {}",
            moment::show(page.min_ts),
            moment::show(page.max_ts),
            page.rows,
            page.first_series,
            page.last_series,
            ByteSize(page.plain_len.into()),
            ByteSize(page.piece.len.into()),
        );
    }
    let Some(first) = footer.pages().first() else { return Ok(()) };
    println!("first samples:");
    let bytes = object.read(first.piece.range()).await?;
    let page = first.decode(&bytes).map_err(|e| e.to_string())?;
    let samples = page.runs.iter().flat_map(|run| (run.start..run.end).map(move |row| (run, row as usize)));
    for (run, row) in samples.take(rows) {
        let at = moment::show(page.timestamps[row].saturating_mul(MILLISECOND_NS));
        println!("  {at} {} {}", footer.series().labels(run.series), page.values[row]);
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
