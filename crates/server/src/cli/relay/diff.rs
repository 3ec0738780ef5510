//! `sandur relay diff`: lists the names that another configuration sends elsewhere.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_relay::comparison::{Comparison, GENERATED, Reach};
use sandur_terminal::Failed;

use super::{configuration, lookup::text};

/// The command.
pub fn command() -> Command {
    let file =
        |id: &'static str| Arg::new(id).value_name(id).required(true).help("A configuration of a relay");
    let names = Arg::new("names").long("names").value_name("FILE");
    let names = names.help(format!(
        "Names to compare, one per line; - for stdin; by default about {GENERATED} generated ones, which \
         match the routes where this is possible"
    ));
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
    let mut comparison = Comparison::new(&one, &other);
    let mut moved = BTreeMap::<(String, String), u64>::new();
    let look = |name: &str| {
        let [before, after] = comparison.name(name).map(|found| text(name, &found));
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
        None => Comparison::new(&one, &other).generated(look),
        Some("-") => configuration::each_name(None, look)?,
        Some(path) => configuration::each_name_in(path, look)?,
    }
    let total: u64 = moved.values().sum();
    if only_counts {
        for ((before, after), count) in &moved {
            println!("{count}\t{before}\t{after}");
        }
    }
    eprintln!("{total} of {} names have other targets", comparison.names());
    print_reach(&comparison);
    Ok(if total == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints how many names reached each cluster, and warns about changed clusters that the names say
/// little about.
fn print_reach(comparison: &Comparison<'_>) {
    let all = comparison.names();
    for Reach { cluster, names: [before, after], is_changed, .. } in comparison.reach() {
        let changed = if is_changed { ", which differs" } else { "" };
        eprintln!("cluster {cluster}{changed}: {before} names in A, {after} in B");
    }
    for Reach { cluster, names, .. } in comparison.reach().into_iter().filter(|one| one.is_doubtful) {
        let most = names[0].max(names[1]);
        eprintln!(
            "sandur: only {most} of {all} names reach cluster {cluster}, which differs: give --names FILE \
             with names that it receives"
        );
    }
}
