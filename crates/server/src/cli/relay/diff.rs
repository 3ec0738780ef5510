//! `sandur relay diff`: lists the names that another configuration sends elsewhere.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_relay::lookup::lookup;
use sandur_relay::router::Scratch;
use sandur_terminal::Failed;

use super::{configuration, lookup::text};

/// Number of generated names if none are given.
const MADE_UP: usize = 65_536;

/// The command.
pub fn command() -> Command {
    let file =
        |id: &'static str| Arg::new(id).value_name(id).required(true).help("A configuration of a relay");
    let names = Arg::new("names").long("names").value_name("FILE");
    let names = names.help("Names to compare, one per line; - for stdin; by default 65,536 generated ones");
    let summary = Arg::new("summary").long("summary").action(ArgAction::SetTrue);
    let summary = summary.help("Print only counts, by old and new targets");
    Command::new("diff")
        .about("List the names that configuration B sends to other targets than A")
        .after_help("The exit code is 1 if there are any.")
        .args([file("A"), file("B"), names, summary])
        .args(configuration::arguments())
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let file = |id: &str| matches.get_one::<String>(id).map_or("", String::as_str);
    let (one, other) =
        (configuration::router(file("A"), matches)?, configuration::router(file("B"), matches)?);
    let only_counts = matches.get_flag("summary");
    let mut scratch = Scratch::default();
    let (mut all, mut moved) = (0_u64, BTreeMap::<(String, String), u64>::new());
    let mut look = |name: &str| {
        all += 1;
        let before = text(name, &lookup(&one, name.as_bytes(), &mut scratch));
        let after = text(name, &lookup(&other, name.as_bytes(), &mut scratch));
        if before != after {
            if !only_counts {
                println!("{name}\t{before}\t{after}");
            }
            // Per-name connections would print as many lines as there are names.
            if only_counts && before.len() + after.len() < 512 {
                *moved.entry((before, after)).or_default() += 1;
            } else {
                *moved.entry(("elsewhere".to_owned(), "elsewhere".to_owned())).or_default() += 1;
            }
        }
    };
    match matches.get_one::<String>("names").map(String::as_str) {
        None => (0..MADE_UP).for_each(|index| look(&format!("made.up.name{index}"))),
        Some("-") => configuration::each_name(None, look)?,
        Some(path) => configuration::each_name_in(path, look)?,
    }
    let total: u64 = moved.values().sum();
    if only_counts {
        for ((before, after), count) in &moved {
            println!("{count}\t{before}\t{after}");
        }
    }
    eprintln!("{total} of {all} names have other targets");
    Ok(if total == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
