//! `sandur import whisper`: sends the points of whisper's and go-carbon's files, and can compare them
//! afterwards.
//!
//! [`tree`] finds files, [`load`] reads groups of them and encodes requests, [`shipper`] sends these and
//! counts the results, `import::state` remembers files that are stored, [`verify`] compares files with the
//! server. Sending a file again stores no duplicates: its points have the same timestamps and values.

mod file;
mod labels;
mod load;
mod report;
mod rolled;
mod shipper;
mod tree;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use file::Reader;
use report::Report;
use sandur_base::units::ByteSize;
use sandur_cli::client::{self, Client};
use sandur_runtime::{Env, Pace};
use sandur_terminal::Failed;
use sandur_whisper::{Checks, Damage};
use shipper::Shipper;
use verify::Verification;

use super::state::State;
use super::stored::Stored;

/// Default number of loads in flight.
const PARALLEL_DEFAULT: u64 = 4;
/// Default memory for files in flight, bytes.
const MEMORY_DEFAULT: u64 = 1 << 30;
/// Retries of a request before the import fails.
const RETRIES_DEFAULT: u32 = 10;
/// Default number of points that are compared per archive.
const WINDOW_DEFAULT: u64 = 2_000;
/// Maximum number of points that are compared per archive.
const WINDOW_MAX: u64 = 100_000;

/// The command.
pub fn command() -> Command {
    let folder = Arg::new("folder").value_name("DIR").required(true).value_parser(value_parser!(PathBuf));
    let folder = folder.help("The root folder of paths: carbon's LOCAL_DATA_DIR");
    let resume = Arg::new("resume").long("resume").value_name("STATE-FILE");
    let resume = resume
        .value_parser(value_parser!(PathBuf))
        .help("Store in this file which files are stored, and skip them unless they change");
    let rate = number("rate", "POINTS/S", "Maximum number of points per second [default: no limit]");
    let parallel =
        number("parallel", "N", format!("Files in flight at a time [default: {PARALLEL_DEFAULT}]"));
    let memory = Arg::new("memory").long("memory").value_name("BYTES").value_parser(value_parser!(ByteSize));
    let memory = memory.help(format!(
        "Memory for files in flight, shared among them [default: {}]",
        ByteSize(MEMORY_DEFAULT)
    ));
    let retries = Arg::new("retries").long("retries").value_name("N").value_parser(value_parser!(u32));
    let retries =
        retries.help(format!("Retries of a request that may succeed later [default: {RETRIES_DEFAULT}]"));
    let dry_run = flag("dry-run", "Read all files and send nothing");
    let unchecked = flag("ignore-checksums", "Read compressed files even if checksums do not match");
    let salvage = flag(
        "salvage",
        "Import the intact parts of damaged files; damaged archives, and blocks of compressed ones, are \
        listed",
    );
    let verify = flag("verify", "Send nothing; compare random windows of every archive with the server");
    let seed = number("seed", "N", "Compare the windows of an earlier --verify").requires("verify");
    let window = number("window", "POINTS", format!("Points of a window [default: {WINDOW_DEFAULT}]"));
    let window = window.requires("verify").value_parser(value_parser!(u64).range(1..=WINDOW_MAX));
    let command = Command::new("whisper")
        .about("Import files of whisper and go-carbon, including compressed ones")
        .after_help(
            "Example: sandur import whisper --resume moved.state /var/lib/graphite/whisper\n\
             Every archive is imported: the finest unchanged, coarser ones for times that no finer one \
             covers, as series with the label __archive__. Run it again for files that changed; duplicates \
             are not stored.\n\
             Exit codes: 0 all files are stored, or equal; 1 some are not; 2 wrong usage.",
        );
    let arguments =
        [folder, resume, rate, parallel, memory, retries, dry_run, unchecked, salvage, verify, seed, window];
    client::arguments(command.args(arguments))
}

fn number(name: &'static str, value: &'static str, help: impl Into<String>) -> Arg {
    let parser = value_parser!(u64).range(1..);
    Arg::new(name).long(name).value_name(value).value_parser(parser).help(help.into())
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let folder = matches.get_one::<PathBuf>("folder").cloned().unwrap_or_default();
    if !folder.is_dir() {
        return Err(Failed::new(format!("'{}' is not a folder", folder.display())));
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let parallel = number("parallel").unwrap_or(PARALLEL_DEFAULT).min(1_024);
    let memory = matches.get_one::<ByteSize>("memory").map_or(MEMORY_DEFAULT, |size| size.0);
    let checks = if matches.get_flag("ignore-checksums") { Checks::None } else { Checks::All };
    let damage = if matches.get_flag("salvage") { Damage::LeftOut } else { Damage::Refused };
    let now_s = env.now_ns() / sandur_model::SECOND_NS;
    let until = u32::try_from(now_s).unwrap_or(if now_s < 0 { 0 } else { u32::MAX });
    let reader = Reader { checks, damage, until, memory: memory / parallel, parallel };
    let client = Client::from_arguments(matches)?;
    let retries = matches.get_one::<u32>("retries").copied().unwrap_or(RETRIES_DEFAULT);
    if matches.get_flag("verify") {
        let seed = number("seed").unwrap_or_else(|| env.random_u64() >> 11);
        let window = number("window").unwrap_or(WINDOW_DEFAULT) as usize;
        let server = Stored { env, client, retries };
        let verification = Verification { server, reader, seed, window };
        return verification.run(&folder, parallel as usize).await;
    }
    let is_dry = matches.get_flag("dry-run");
    let state = match matches.get_one::<PathBuf>("resume").filter(|_| !is_dry) {
        Some(path) => State::load(path, "whisper", client.base())?,
        None => State::none(),
    };
    let pace = Pace::new(env.clone(), number("rate"));
    let report = Report::new(&env);
    let client = (!is_dry).then_some(client);
    Shipper { env, client, retries, reader, pace, state, report, parallel: parallel as usize }
        .run(&folder)
        .await
}
