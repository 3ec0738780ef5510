//! `sandur check`: verifies every checksum and every reference of a store, without changing it.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgMatches, Command};
use futures_util::StreamExt;
use futures_util::stream;
use indicatif::{ProgressBar, ProgressStyle};
use sandur_base::units::ByteSize;
use sandur_catalog::{CheckReport, Finding, Severity, Snapshot, check_block};
use sandur_cli::paint::{Ink, Paint};
use sandur_runtime::Env;
use sandur_store::Store;
use sandur_terminal::Failed;

use super::target;

/// Number of blocks that are read concurrently.
const BLOCKS_IN_FLIGHT: usize = 4;

/// The command.
pub fn command() -> Command {
    let command =
        Command::new("check").about("Verify every checksum and every reference of a store").after_help(
            "A running server may change the store meanwhile; findings that a second run does not repeat \
             come from that. The last line is `sound` only if everything could be verified; what cannot be \
             determined from the store, such as how far a crashed writer had come, is listed as unknown. \
             Exit codes: 0 no damage found, 1 damaged or unreadable, 2 wrong usage.",
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
    let snapshot = Arc::clone(&report.snapshot);
    check_blocks(&store, &snapshot, &mut report, &mut sums).await;
    Ok(conclude(&store, &report, &sums))
}

/// What was verified in addition to the catalog.
#[derive(Default)]
struct Sums {
    pieces: u64,
    rows: u64,
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

fn conclude(store: &Store, report: &CheckReport, sums: &Sums) -> ExitCode {
    let paint = Paint::for_stdout();
    for finding in &report.findings {
        let mark = match finding.severity {
            Severity::Damage => paint.ink(Ink::Bad, "damage"),
            Severity::Unknown => paint.ink(Ink::Bad, "unknown"),
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
        report.frames,
        report.wal_rows,
        report.unreferenced,
    );
    if report.is_sound() {
        println!("{}", paint.ink(Ink::Good, "sound"));
        return ExitCode::SUCCESS;
    }
    let (damaged, unknown) = (report.count(Severity::Damage), report.count(Severity::Unknown));
    if damaged == 0 {
        println!("no damage found; {unknown} facts are unknown, see above");
        return ExitCode::SUCCESS;
    }
    println!("{}", paint.ink(Ink::Bad, &format!("{damaged} problems; everything else is readable")));
    if report.catalog_is_damaged {
        println!(
            "The catalog is damaged: restore the named objects from a copy, or stop all processes of the \
             store and run `sandur repair --store {} --dry-run`.",
            store.url()
        );
    }
    println!(
        "Queries skip a damaged page or block and return a warning. Restore the named objects from a copy \
         if there is one."
    );
    ExitCode::FAILURE
}
