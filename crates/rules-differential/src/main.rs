//! `sandur-rules-differential`: the command line. `cargo xtask differential rules` builds everything and runs
//! it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, ArgAction, Command, value_parser};
use sandur_rules_differential::run::{Options, print_case, run};
use sandur_rules_differential::{draw, explained};

fn main() -> Result<ExitCode> {
    let matches = command().get_matches();
    if matches.get_flag("rules") {
        print!("{}", explained::table());
        return Ok(ExitCode::SUCCESS);
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let only = matches.get_one::<u64>("case").copied();
    let (seed, steps) = (number("seed"), number("steps") as usize);
    let first = only.unwrap_or_else(|| number("first"));
    let numbers = first..only.map_or(first + number("groups"), |only| only + 1);
    if let Some(only) = only
        && matches.get_flag("print")
    {
        print_case(&draw::case(seed, only, steps));
        return Ok(ExitCode::SUCCESS);
    }
    let program = matches.get_one::<String>("harness").map(String::as_str).unwrap_or_default();
    let options = Options { seed, numbers, steps, reduces: !matches.get_flag("whole") };
    let report = run(Path::new(program), &options)?;
    report.print();
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("N").help(help).value_parser(value_parser!(u64));
        if default.is_empty() { arg } else { arg.default_value(default) }
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("sandur-rules-differential")
        .about("Evaluate random groups of rules here and with the code of Prometheus, and compare")
        .arg(
            Arg::new("harness")
                .long("harness")
                .value_name("PROGRAM")
                .default_value(".tools/bin/rulesharness")
                .help("Path of the program with the code of Prometheus"),
        )
        .arg(number("seed", "1", "Seed of the groups and their series"))
        .arg(number("groups", "200", "Number of groups"))
        .arg(number("first", "0", "Number of the first group"))
        .arg(number("steps", "50", "Evaluations of a group, on average"))
        .arg(number("case", "", "Run only the group with this number"))
        .arg(flag("print", "Print the group of --case and exit"))
        .arg(flag("whole", "Do not reduce a group that differs"))
        .arg(flag("rules", "Print the table of explained differences and exit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
