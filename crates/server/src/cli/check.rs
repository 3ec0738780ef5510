//! `sandur check`: verifies every checksum and every reference of a store, changing nothing.

use std::collections::BTreeSet;
use std::process::ExitCode;

use bytes::Bytes;
use clap::{ArgMatches, Command};
use futures_util::StreamExt;
use futures_util::stream;
use indicatif::{ProgressBar, ProgressStyle};
use sandur_base::units::ByteSize;
use sandur_base::{Env, Id};
use sandur_catalog::{CheckReport, Finding, Severity, Snapshot};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::codec::Piece;
use sandur_format::log_block::{Footer, HEADER_LEN, Wanted, check_header};
use sandur_format::needle::SLICES;
use sandur_format::wal_segment::{FrameReader, HEADER_LEN as FRAME_HEADER_LEN};
use sandur_store::{Intent, Store};

use super::failed::Failed;
use super::paint::{Ink, Paint};
use super::target::{self, Object};

/// Blocks that are read at the same time.
const BLOCKS_IN_FLIGHT: usize = 4;
/// Bytes that are read at once.
const READ_BYTES: u64 = 8 << 20;

/// The command.
pub fn command() -> Command {
    let command =
        Command::new("check").about("Verify every checksum and every reference of a store").after_help(
            "A running server may change things meanwhile; findings that a second run does not repeat are \
             of that kind. Exit codes: 0 sound, 1 damaged or unreadable, 2 wrong usage.",
        );
    target::store_argument(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let url = matches.get_one::<String>("store").cloned().unwrap_or_default();
    let store = target::open_store(&url, &env).await?;
    let failed = |e: sandur_catalog::Error| Failed::new(format!("cannot read {}: {e}", store.url()));
    let mut report = sandur_catalog::check(&store, &env).await.map_err(failed)?;
    let mut sums = Sums::default();
    if let Some(snapshot) = report.snapshot.clone() {
        check_blocks(&store, &snapshot, &mut report, &mut sums).await;
        check_wal(&store, &snapshot, &mut report, &mut sums).await.map_err(Failed::new)?;
    }
    Ok(conclude(&store, &report, &sums))
}

/// What was verified beyond the catalog.
#[derive(Default)]
struct Sums {
    pieces: u64,
    rows: u64,
    frames: u64,
    wal_rows: u64,
}

fn add(report: &mut CheckReport, severity: Severity, object: &str, problem: impl Into<String>) {
    report.findings.push(Finding { severity, object: object.to_owned(), problem: problem.into() });
}

async fn check_blocks(store: &Store, snapshot: &Snapshot, report: &mut CheckReport, sums: &mut Sums) {
    let known_bad: BTreeSet<String> = report.findings.iter().map(|f| f.object.clone()).collect();
    let blocks: Vec<_> = snapshot.all_blocks().filter(|b| !known_bad.contains(&b.path())).cloned().collect();
    let bar = ProgressBar::new(blocks.iter().map(|b| b.size).sum());
    let style =
        ProgressStyle::with_template("{bar:30} {binary_bytes}/{binary_total_bytes} of blocks verified");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut checked = stream::iter(blocks)
        .map(|block| {
            let (store, bar) = (store.clone(), bar.clone());
            async move {
                let outcome = check_block(&store, &block).await;
                bar.inc(block.size);
                (block, outcome)
            }
        })
        .buffer_unordered(BLOCKS_IN_FLIGHT);
    while let Some((block, outcome)) = checked.next().await {
        match outcome {
            Ok(pieces) => {
                sums.pieces += pieces;
                sums.rows += block.rows;
            }
            Err(problem) => add(report, Severity::Damage, &block.path(), problem),
        }
    }
    bar.finish_and_clear();
}

/// Verifies header, footer, every piece and every page of a block; the number of pieces.
async fn check_block(store: &Store, meta: &BlockMeta) -> Result<u64, String> {
    let object = Object::known(store, &meta.path(), meta.size);
    let header = object.read(0..HEADER_LEN).await?;
    check_header(&header).map_err(|e| e.to_string())?;
    let footer = object.read(meta.footer_offset..meta.size).await?;
    let footer = Footer::open(footer).map_err(|e| e.to_string())?;
    compare(meta, &footer)?;
    let (mut wide, mut narrow) = (Window::of(&object), Window::of(&object));
    let mut count = 0;
    // Lines and narrow columns lie in two rows beside each other: each is read through a window of its own.
    for page in footer.pages() {
        let bytes = narrow.read(page.narrow).await?;
        let columns = page.decode_narrow(&bytes, Wanted { metadata: true }).map_err(|e| e.to_string())?;
        let bytes = wide.read(page.lines).await?;
        page.decode_lines(&bytes, &columns.timestamps).map_err(|e| e.to_string())?;
        count += 2;
    }
    for segment in footer.filter_segments() {
        for slice in 0..SLICES {
            let piece = segment.slice(slice);
            piece.check("filter slice", &wide.read(piece).await?).map_err(|e| e.to_string())?;
            count += 1;
        }
    }
    Ok(count)
}

/// The footer must say what the catalog says.
fn compare(meta: &BlockMeta, footer: &Footer) -> Result<(), String> {
    let info = footer.info();
    let differing = [
        ("tenant", info.tenant == meta.tenant),
        ("window", info.window == meta.window),
        ("level", info.level == meta.level),
        ("rows", info.rows == meta.rows),
        ("first timestamp", info.min_ts == meta.min_ts),
        ("last timestamp", info.max_ts == meta.max_ts),
        ("number of streams", footer.streams().len() as u64 == u64::from(meta.streams)),
        ("number of pages", footer.pages().len() as u64 == u64::from(meta.pages)),
    ];
    match differing.iter().find(|(_, equal)| !equal) {
        Some((what, _)) => Err(format!("its {what} is not what the catalog says")),
        None => Ok(()),
    }
}

/// Reads an object in large steps while pieces are asked for in rising order.
struct Window<'a> {
    object: &'a Object,
    start: u64,
    bytes: Bytes,
}

impl<'a> Window<'a> {
    fn of(object: &'a Object) -> Self {
        Self { object, start: 0, bytes: Bytes::new() }
    }

    async fn read(&mut self, piece: Piece) -> Result<Bytes, String> {
        let (offset, len) = (piece.offset, u64::from(piece.len));
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || piece.end() > end {
            let to = (offset + len.max(READ_BYTES)).min(self.object.size);
            if piece.end() > to {
                return Err(format!("a piece of {len} bytes at {offset} lies beyond the object's end"));
            }
            self.bytes = self.object.read(offset..to).await?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.slice(from..from + len as usize))
    }
}

/// Every frame of writers whose rows are not all in blocks.
async fn check_wal(
    store: &Store,
    snapshot: &Snapshot,
    report: &mut CheckReport,
    sums: &mut Sums,
) -> Result<(), String> {
    let failed = |e: sandur_store::Error| e.to_string();
    for name in store.list_prefixes("wal", Intent::wal()).await.map_err(failed)? {
        let writer = name.parse::<Id>().ok().and_then(|id| snapshot.writer(id));
        let Some(writer) = writer.filter(|w| !w.is_drained()) else { continue };
        let objects = store.list(&format!("wal/{name}"), Intent::wal()).await.map_err(failed)?;
        let last = objects.last().map(|o| o.path.clone());
        for info in &objects {
            let bytes = Object::known(store, &info.path, info.size).read_all().await;
            let is_last = last.as_ref() == Some(&info.path);
            match bytes.and_then(|bytes| frames(bytes, is_last)) {
                Ok((frames, rows, note)) => {
                    sums.frames += frames;
                    sums.wal_rows += rows;
                    if let Some(note) = note {
                        add(report, Severity::Note, &info.path, note);
                    }
                }
                Err(problem) => {
                    let live = if writer.is_sealed() { "" } else { "; its writer lives, check again" };
                    add(report, Severity::Damage, &info.path, format!("{problem}{live}"));
                }
            }
        }
    }
    Ok(())
}

/// Frames and rows of one file; a torn end is normal in the file that was being written.
fn frames(bytes: Bytes, is_last: bool) -> Result<(u64, u64, Option<String>), String> {
    let (size, mut reader) = (bytes.len(), FrameReader::new(bytes));
    let (mut frames, mut rows) = (0, 0);
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                frames += 1;
                let batches = frame.batches().map_err(|e| e.to_string())?;
                rows += batches.iter().map(|b| b.rows() as u64).sum::<u64>();
            }
            Ok(None) => return Ok((frames, rows, None)),
            Err(sandur_format::Error::Torn { valid_len }) if is_last || size < FRAME_HEADER_LEN => {
                let note = format!(
                    "ends in the middle of a frame at byte {valid_len}; that frame was never acknowledged"
                );
                return Ok((frames, rows, Some(note)));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn conclude(store: &Store, report: &CheckReport, sums: &Sums) -> ExitCode {
    let paint = Paint::for_stdout();
    for finding in &report.findings {
        let mark = match finding.severity {
            Severity::Damage => paint.ink(Ink::Bad, "damage"),
            Severity::Note => paint.ink(Ink::Dim, "note"),
        };
        println!("{mark}  {}: {}", finding.object, finding.problem);
    }
    println!(
        "{}: {} catalog entries, {} checkpoints; {} blocks with {} and {} rows, {} pieces verified; \
         {} WAL frames with {} rows; {} unreferenced blocks",
        store.url(),
        report.entries,
        report.checkpoints,
        report.blocks,
        ByteSize(report.block_bytes),
        sums.rows,
        sums.pieces,
        sums.frames,
        sums.wal_rows,
        report.unreferenced,
    );
    let damaged = report.findings.iter().filter(|f| f.severity == Severity::Damage).count();
    match damaged {
        0 => {
            println!("{}", paint.ink(Ink::Good, "sound"));
            ExitCode::SUCCESS
        }
        n => {
            println!("{}", paint.ink(Ink::Bad, &format!("{n} problems; everything else is readable")));
            println!(
                "Queries leave a damaged page or block out and say so in a warning. \
                 Restore the named objects from a copy if there is one."
            );
            ExitCode::FAILURE
        }
    }
}
