//! `sandur repair`: rebuilds a damaged or lost catalog from what is left of it and from blocks and WAL.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::Env;
use sandur_base::units::ByteSize;
use sandur_catalog::{Repair, Severity, growing_members};
use sandur_store::{Store, StoreKind};

use super::target;
use crate::failed_command::Failed;

/// Objects of each kind that are named one by one.
const NAMED_MAX: usize = 50;
/// How long heartbeats of a bucket are watched: longer than the pause between two of them.
const WATCH: Duration = Duration::from_secs(25);

/// The command.
pub fn command() -> Command {
    let dry_run = Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue);
    let force = Arg::new("force").long("force").action(ArgAction::SetTrue);
    let command = Command::new("repair")
        .about("Rebuild a damaged or lost catalog from blocks and WAL")
        .arg(dry_run.help("Only say what would be done"))
        .arg(force.help("Do not look for processes that use the bucket"))
        .after_help(
            "The sound part of the log is kept; blocks and WAL that the rest of it named are added again. \
             Nothing is deleted: what is replaced is moved to replaced/, blocks and WAL stay as they are. \
             Stop all processes of the store before: a directory that another process holds is refused, a \
             bucket is watched for heartbeats first. An interrupted repair is repeated. Restore lost objects \
             from a backup instead if there is one: open delete requests, for example, are nowhere else.\n\n\
             Exit codes: 0 repaired or nothing to do, 1 failed (with --dry-run: there is something to do), \
             2 wrong usage.",
        );
    target::store_argument(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let url = matches.get_one::<String>("store").cloned().unwrap_or_default();
    let dry_run = matches.get_flag("dry-run");
    let store = match dry_run {
        true => target::open_store(&url, &env).await?,
        false => target::open_store_alone(&url, &env).await?,
    };
    let failed = |e: sandur_catalog::Error| Failed::new(format!("cannot repair {}: {e}", store.url()));
    if !dry_run && !matches.get_flag("force") {
        expect_nobody(&store, &env).await?;
    }
    let repair = Repair::plan(&store, &env).await.map_err(failed)?;
    describe(&repair);
    if !repair.is_needed() {
        println!("the catalog needs no repair");
        return Ok(ExitCode::SUCCESS);
    }
    if dry_run {
        println!("nothing was changed; without --dry-run this is done");
        return Ok(ExitCode::FAILURE);
    }
    repair.execute(&store, &env).await.map_err(failed)?;
    println!(
        "repaired: the catalog has {} blocks and goes on after entry {}; what was replaced is in {}/",
        repair.snapshot().block_count(),
        repair.number,
        repair.replaced()
    );
    Ok(ExitCode::SUCCESS)
}

/// Fails when a process of the bucket is alive.
async fn expect_nobody(store: &Store, env: &Env) -> Result<(), Failed> {
    if matches!(store.kind(), StoreKind::Local { .. }) {
        // Its lock is ours.
        return Ok(());
    }
    eprintln!("watching for heartbeats of other processes for {} s", WATCH.as_secs());
    let growing = growing_members(store, env, WATCH).await;
    let growing = growing.map_err(|e| Failed::new(format!("cannot look for other processes: {e}")))?;
    match growing.first() {
        None => Ok(()),
        Some(member) => Err(Failed::new(format!(
            "{} processes use the bucket, '{member}' among them: stop them all, then repeat this; --force \
             goes on although what they write meanwhile may be lost",
            growing.len()
        ))),
    }
}

fn describe(repair: &Repair) {
    for finding in repair.findings.iter().filter(|finding| finding.severity == Severity::Damage) {
        println!("damage  {}: {}", finding.object, finding.problem);
    }
    if !repair.is_needed() {
        return;
    }
    println!("the log is sound through entry {}", repair.sound_through);
    if repair.entries_are_lost {
        println!(
            "entries after it are lost or damaged; {} beyond can be read and are applied",
            repair.applied.len()
        );
    } else {
        println!("no entry is lost");
    }
    let blocks = |metas: &[sandur_format::catalog_entry::BlockMeta]| -> Vec<String> {
        let line = |meta: &sandur_format::catalog_entry::BlockMeta| {
            format!("{}: {} rows, {}", meta.path(), meta.rows, ByteSize(meta.size))
        };
        metas.iter().map(line).collect()
    };
    list("blocks are added", &blocks(&repair.added));
    list("blocks are in the catalog but missing, and leave it; their rows are lost", &blocks(&repair.gone));
    let superseded: Vec<String> = repair.superseded.iter().map(ToString::to_string).collect();
    list("blocks are left out, because others were merged from them", &superseded);
    let unreadable: Vec<String> =
        repair.unreadable.iter().map(|(path, problem)| format!("{path}: {problem}")).collect();
    list("blocks cannot be read; they are left where they are and not added", &unreadable);
    let writers: Vec<String> =
        repair.writers.iter().map(|w| format!("wal/{}: from frame {} on", w.incarnation, w.floor)).collect();
    list("writers' WAL is read again by the next start", &writers);
    list(&format!("objects of the catalog are moved to {}/", repair.replaced()), &repair.moved);
    println!("the catalog goes on from a new checkpoint {}", repair.number);
}

fn list(what: &str, objects: &[String]) {
    if objects.is_empty() {
        return;
    }
    println!("{} {what}", objects.len());
    for object in objects.iter().take(NAMED_MAX) {
        println!("  {object}");
    }
    if objects.len() > NAMED_MAX {
        println!("  and {} more", objects.len() - NAMED_MAX);
    }
}
