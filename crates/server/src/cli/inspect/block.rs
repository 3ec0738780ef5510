//! A block for people: what it is, its sections, streams, pages and some rows.

use std::process::ExitCode;

use sandur_base::units::ByteSize;
use sandur_format::block::TRAILER_LEN;
use sandur_format::log_block::{Footer, PageEntry, Wanted};

use crate::cli::failed::Failed;
use crate::cli::moment;
use crate::cli::target::Object;

/// Reads the footer of a block.
pub async fn read_footer(object: &Object) -> Result<Footer, String> {
    let tail_len = object.size.min(TRAILER_LEN as u64);
    let tail = object.read(object.size - tail_len..object.size).await?;
    let range = Footer::locate(&tail, object.size).map_err(|e| e.to_string())?;
    let bytes = object.read(range).await?;
    Footer::open(bytes).map_err(|e| e.to_string())
}

/// Shows the block.
pub async fn show(object: &Object, rows: usize) -> Result<ExitCode, Failed> {
    let failed = |e: String| Failed::new(format!("'{}': {e}", object.path));
    let footer = read_footer(object).await.map_err(failed)?;
    let info = footer.info();
    println!("block {}, format version {}", object.path, info.version);
    println!("  tenant   {}, level {}, zstd {}", info.tenant, info.level, info.zstd_level);
    println!("  window   {} to {}", moment::show(info.window.start), moment::show(info.window.end));
    println!("  rows     {} from {} to {}", info.rows, moment::show(info.min_ts), moment::show(info.max_ts));
    let ratio = object.size as f64 / info.raw_bytes.max(1) as f64;
    println!("  bytes    {} for {} of lines ({ratio:.3})", ByteSize(object.size), ByteSize(info.raw_bytes));
    println!("sections of the footer:");
    for section in footer.sections() {
        let (stored, plain) = (ByteSize(section.stored_bytes.into()), ByteSize(section.plain_bytes.into()));
        println!("  {:<10} {stored} stored, {plain} plain", section.name);
    }
    show_streams(&footer, rows);
    println!("pages: {}", footer.pages().len());
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
    if let Some(first) = footer.pages().first() {
        println!("first rows:");
        show_rows(object, &footer, first, rows).await.map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_streams(footer: &Footer, most: usize) {
    let streams = footer.streams();
    println!("streams: {}", streams.len());
    for ordinal in 0..streams.len().min(most) {
        let stats = streams.stats(ordinal as u32);
        println!("  {} {} rows, {}", streams.labels(ordinal as u32), stats.rows, ByteSize(stats.bytes));
    }
}

async fn show_rows(object: &Object, footer: &Footer, page: &PageEntry, most: usize) -> Result<(), String> {
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
