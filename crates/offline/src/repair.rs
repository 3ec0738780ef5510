//! `sandur repair`: rebuilds a damaged or lost catalog from its readable part and from blocks and WAL.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::ByteSize;
use sandur_catalog::{Repair, Severity, growing_members};
use sandur_runtime::Env;
use sandur_store::{Store, StoreKind};
use sandur_terminal::Failed;

use super::target;

/// Number of objects of each kind that are listed individually.
const NAMED_MAX: usize = 50;
/// How long a bucket is watched for heartbeats: longer than their interval.
const WATCH: Duration = Duration::from_secs(25);

/// The command.
pub fn command() -> Command {
    let dry_run = Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue);
    let force = Arg::new("force").long("force").action(ArgAction::SetTrue);
    let command = Command::new("repair")
        .about("Rebuild a damaged or lost catalog from blocks and WAL")
        .arg(dry_run.help("Only print what would be done"))
        .arg(force.help("Do not check whether other processes use the bucket"))
        .after_help(
            "The sound part of the log is kept; blocks and WAL that the rest of it named are added again. \
             Nothing is deleted: replaced objects are moved to replaced/, blocks and WAL are not changed. \
             Stop all processes of the store first: a directory that another process has locked is refused, \
             and a bucket is first watched for heartbeats. An interrupted repair can be repeated. If there \
             is a backup, restore lost objects from it instead: open delete requests, for example, are only \
             in the catalog.\n\n\
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
        expect_no_writer(&store, &env).await?;
    }
    let repair = Repair::plan(&store, &env).await.map_err(failed)?;
    describe(&repair);
    if !repair.is_needed() {
        println!("the catalog needs no repair");
        return Ok(ExitCode::SUCCESS);
    }
    if dry_run {
        println!("nothing was changed; without --dry-run the above is done");
        return Ok(ExitCode::FAILURE);
    }
    repair.execute(&store, &env).await.map_err(failed)?;
    println!(
        "repaired: the catalog has {} blocks and continues after entry {}; replaced objects are in {}/",
        repair.snapshot().block_count(),
        repair.number,
        repair.replaced()
    );
    Ok(ExitCode::SUCCESS)
}

/// Fails when another process uses the bucket.
async fn expect_no_writer(store: &Store, env: &Env) -> Result<(), Failed> {
    if matches!(store.kind(), StoreKind::Local { .. }) {
        // The directory is locked by this process.
        return Ok(());
    }
    eprintln!("watching for heartbeats of other processes for {} s", WATCH.as_secs());
    let growing = growing_members(store, env, WATCH).await;
    let growing = growing.map_err(|e| Failed::new(format!("cannot check for other processes: {e}")))?;
    match growing.first() {
        None => Ok(()),
        Some(member) => Err(Failed::new(format!(
            "{} processes use the bucket, for example '{member}': stop them all, then repeat the command; \
             --force continues, but what they write meanwhile may be lost",
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
            "entries after it are lost or damaged; {} later ones are readable and are applied",
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
    list(
        "blocks are in the catalog but missing in the store, and are removed from it; their rows are lost",
        &blocks(&repair.gone),
    );
    let superseded: Vec<String> = repair.superseded.iter().map(ToString::to_string).collect();
    list("blocks are not added, because other blocks were merged from them", &superseded);
    let unreadable: Vec<String> =
        repair.unreadable.iter().map(|(path, problem)| format!("{path}: {problem}")).collect();
    list("blocks cannot be read; they are not added and not changed", &unreadable);
    let writers: Vec<String> =
        repair.writers.iter().map(|w| format!("wal/{}: from frame {} on", w.incarnation, w.floor)).collect();
    list("writers' WAL is replayed at the next start", &writers);
    list(&format!("objects of the catalog are moved to {}/", repair.replaced()), &repair.moved);
    println!("the catalog continues from a new checkpoint {}", repair.number);
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
