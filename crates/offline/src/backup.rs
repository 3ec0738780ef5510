//! `sandur backup`: makes, lists, verifies and removes backups of a store.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use sandur_backup::{Backup, Created, Error, Place, Progress, Step, remove};
use sandur_base::Id;
use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_format::catalog_entry::BackupManifest;
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};
use sandur_terminal::Failed;

use super::target;

/// Nanoseconds in a millisecond.
const MS_NS: i64 = 1_000_000;

/// The command.
pub fn command() -> Command {
    let from = Arg::new("from").long("from").value_name("URL").required(true);
    let from = from.help("The store: a directory, or s3://, gs:// or az:// as for serve");
    let list = Command::new("list").about("List the backups of a place").arg(to());
    let verify = Command::new("verify")
        .about("Read backups completely and verify every checksum")
        .arg(to())
        .arg(ids().help("The backups [default: all]"));
    let remove = Command::new("remove")
        .about("Remove backups, and the blocks that no other backup has")
        .arg(to())
        .arg(ids().help("The backups"))
        .arg(
            Arg::new("keep")
                .long("keep")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .conflicts_with("id")
                .help("Remove all backups except the newest N"),
        );
    Command::new("backup")
        .about("Back up a store, also while servers use it")
        .args([from, to(), max_rate()])
        .subcommand(list)
        .subcommand(verify)
        .subcommand(remove)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .after_help(
            "Examples:\n  sandur backup --from s3://logs/prod --to s3://backups/prod\n  \
             sandur backup list --to s3://backups/prod\n  \
             sandur backup remove --to s3://backups/prod --keep 30\n\n\
             Everything that was acknowledged before the backup began is in it. Blocks that the place has \
             from earlier backups are not copied again. An interrupted backup leaves the blocks that it \
             copied, and the next one continues with them. The source is only read.\n\
             Exit codes: 0 success, and a new backup is complete and verified; 1 failure, or `list` or \
             `verify` found a damaged backup; 2 wrong usage.",
        )
}

fn to() -> Arg {
    let to = Arg::new("to").long("to").value_name("URL").required(true);
    to.help("The place of the backups: a directory, or s3://, gs:// or az://")
}

fn ids() -> Arg {
    Arg::new("id").value_name("BACKUP").action(ArgAction::Append).value_parser(parse_id)
}

/// `--max-rate`.
pub fn max_rate() -> Arg {
    let rate =
        Arg::new("max-rate").long("max-rate").value_name("BYTES").value_parser(value_parser!(ByteSize));
    rate.help("Maximum number of bytes per second that are copied, for example 50MiB [default: no limit]")
}

/// Parses the id of a backup.
pub fn parse_id(text: &str) -> Result<Id, String> {
    text.parse().map_err(|_| "is not the id of a backup: `sandur backup list` shows them".to_owned())
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("list", m)) => list(&env, m).await,
        Some(("verify", m)) => verify(&env, m).await,
        Some(("remove", m)) => remove_some(&env, m).await,
        _ => create(env, matches).await,
    }
}

/// The text of an option.
pub fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

/// The error as that of a command.
pub fn failed(error: Error) -> Failed {
    Failed::new(error.to_string())
}

/// Opens a store for writing; a directory is created.
pub async fn open_for_writing(url: &str, env: &Env) -> Result<Store, Failed> {
    Store::open(url, env.clone(), StoreOptions::default()).await.map_err(|e| Failed::new(e.to_string()))
}

/// Shows the steps on a terminal.
pub fn progress(verb: &'static str) -> Progress {
    let bar = ProgressBar::new(0);
    let template =
        format!("{{bar:30}} {{binary_bytes}}/{{binary_total_bytes}} of blocks {verb}, {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    Arc::new(move |step| match step {
        Step::Blocks { bytes, .. } => {
            bar.reset();
            bar.set_length(bytes);
            if bytes == 0 {
                bar.finish_and_clear();
            }
        }
        Step::Done(bytes) => {
            bar.inc(bytes);
            if Some(bar.position()) >= bar.length() {
                bar.finish_and_clear();
            }
        }
        Step::Again { gone } => {
            eprintln!("{gone} blocks were merged or removed meanwhile; what replaced them is copied now");
        }
    })
}

async fn create(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let (from, to) = (text(matches, "from"), text(matches, "to"));
    let source = target::open_store(&from, &env).await?;
    let place = open_for_writing(&to, &env).await?;
    let place = Place::open_or_create(place, &env).await.map_err(failed)?;
    let max_rate = matches.get_one::<ByteSize>("max-rate").map(|rate| rate.0);
    let backup = Backup { env, source, place, max_rate, progress: progress("copied") };
    let Created { manifest, new_blocks, new_bytes, rounds } = backup.run().await.map_err(failed)?;
    println!(
        "{new_blocks} blocks with {} were copied and verified in {rounds} rounds; {} blocks with {} are in \
         earlier backups",
        ByteSize(new_bytes),
        manifest.blocks.saturating_sub(new_blocks),
        ByteSize(manifest.block_bytes.saturating_sub(new_bytes)),
    );
    println!("backup {} is complete: {}", manifest.id, describe(&manifest));
    Ok(ExitCode::SUCCESS)
}

/// Describes a backup in one line.
fn describe(manifest: &BackupManifest) -> String {
    let wal: u64 = manifest.wal.iter().map(|copy| copy.size).sum();
    let rules: u64 = manifest.rules.iter().map(|copy| copy.size).sum();
    format!(
        "as of {}, {} blocks with {} and {} rows, WAL of {}, stored rules of {}, from {}",
        moment::show(manifest.read_ms.saturating_mul(MS_NS)),
        manifest.blocks,
        ByteSize(manifest.block_bytes),
        manifest.rows,
        ByteSize(wal),
        ByteSize(rules),
        manifest.source,
    )
}

/// Opens a place of backups for reading, even while a backup writes to it.
pub async fn open_place(url: &str, env: &Env) -> Result<Place, Failed> {
    Place::open(target::open_store(url, env).await?).await.map_err(failed)
}

async fn list(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let place = open_place(&text(matches, "to"), env).await?;
    let backups = place.backups().await.map_err(failed)?;
    for manifest in &backups.complete {
        println!("{}  {}", manifest.id, describe(manifest));
    }
    Ok(show_unreadable(&backups.unreadable))
}

/// Prints the backups that cannot be read. The exit code says whether there are any.
fn show_unreadable(unreadable: &[(Id, Error)]) -> ExitCode {
    for (id, error) in unreadable {
        println!("{id}  unreadable: {error}");
    }
    if unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn chosen(matches: &ArgMatches) -> Vec<Id> {
    matches.get_many::<Id>("id").into_iter().flatten().copied().collect()
}

async fn verify(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let place = open_place(&text(matches, "to"), env).await?;
    let (mut manifests, mut unreadable) = (Vec::new(), Vec::new());
    for id in chosen(matches) {
        manifests.push(place.choose(Some(id), None).await.map_err(failed)?);
    }
    if manifests.is_empty() {
        let backups = place.backups().await.map_err(failed)?;
        (manifests, unreadable) = (backups.complete, backups.unreadable);
    }
    let (mut is_sound, mut verified) = (true, BTreeSet::new());
    for manifest in manifests {
        match place.verify(&manifest, env, &progress("verified"), &mut verified).await {
            Ok(()) => println!("{}  sound: {}", manifest.id, describe(&manifest)),
            Err(error) => {
                println!("{}  damaged: {error}", manifest.id);
                is_sound = false;
            }
        }
    }
    let code = show_unreadable(&unreadable);
    Ok(if is_sound { code } else { ExitCode::FAILURE })
}

async fn remove_some(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let url = text(matches, "to");
    let place = Place::open(open_for_writing(&url, env).await?).await.map_err(failed)?;
    let mut ids = chosen(matches);
    if let Some(keep) = matches.get_one::<u64>("keep") {
        let backups = place.backups().await.map_err(failed)?.complete;
        let count = backups.len().saturating_sub(usize::try_from(*keep).unwrap_or(usize::MAX));
        ids = backups[..count].iter().map(|manifest| manifest.id).collect();
    } else if ids.is_empty() {
        return Err(Failed::usage("name the backups to remove, or how many to keep with --keep"));
    }
    ids.sort_unstable();
    ids.dedup();
    let removed = remove(&place, env, &ids).await.map_err(failed)?;
    println!(
        "{} backups and {} interrupted ones were removed; {} blocks with {} were deleted, which no backup \
         has any more",
        removed.backups,
        removed.interrupted,
        removed.blocks,
        ByteSize(removed.bytes)
    );
    Ok(ExitCode::SUCCESS)
}
