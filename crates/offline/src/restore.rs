//! `sandur restore`: makes a store of a backup.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_backup::{Restore, Restored};
use sandur_base::Id;
use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::backup::{failed, max_rate, open_for_writing, open_place, parse_id, progress, text};

/// The command.
pub fn command() -> Command {
    let from = Arg::new("from").long("from").value_name("URL").required(true);
    let from = from.help("The place of the backups: the URL that `sandur backup --to` had");
    let to = Arg::new("to").long("to").value_name("URL").required(true);
    let to = to.help("The new store: an empty directory, or an empty prefix of a bucket");
    let backup = Arg::new("backup").long("backup").value_name("BACKUP").value_parser(parse_id);
    let backup = backup.help("The backup [default: the newest]").conflicts_with("at");
    let at = Arg::new("at").long("at").value_name("TIME");
    let at = at.help("The newest backup that has the state of this time or an earlier one");
    let command = Command::new("restore")
        .about("Make a store of a backup")
        .args([from, to, backup, at, max_rate()])
        .after_help(
            "Example: sandur restore --from s3://backups/prod --to s3://logs/restored\n\n\
             The source may have been a bucket and the new store a directory, or the reverse. A restore that \
             was interrupted can be repeated: it continues. A server does not start on a store that is not \
             completely restored. Its first start writes the rows of the WAL to blocks.\n\
             Exit codes: 0 the store is complete and verified, 1 it is not, 2 wrong usage.",
        );
    moment::zone_argument(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let place = open_place(&text(matches, "from"), &env).await?;
    let zone = moment::zone(matches);
    let at =
        matches.get_one::<String>("at").map(|at| moment::instant(at, env.now_ns(), &zone)).transpose()?;
    let at_ms = at.map(|ns| ns.div_euclid(1_000_000));
    let manifest = place.choose(matches.get_one::<Id>("backup").copied(), at_ms).await.map_err(failed)?;
    let id = manifest.id;
    let target = open_for_writing(&text(matches, "to"), &env).await?;
    let max_rate = matches.get_one::<ByteSize>("max-rate").map(|rate| rate.0);
    let restore = Restore { env, place, manifest, target, max_rate, progress: progress("copied") };
    let Restored { blocks, block_bytes, rows, wal_rows } = restore.run().await.map_err(failed)?;
    println!(
        "backup {id} is restored and verified: {blocks} blocks with {} and {rows} rows, {wal_rows} rows in \
         the WAL, which the first start writes to blocks",
        ByteSize(block_bytes)
    );
    Ok(ExitCode::SUCCESS)
}
