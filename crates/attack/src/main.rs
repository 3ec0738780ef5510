//! `sandur-attack`: the command line. `cargo xtask attack` builds the release server and runs it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_attack::attacks::{ATTACKS, Attack};
use sandur_attack::cgroup::MemoryCgroup;
use sandur_attack::course::{Course, Verdict, run};
use sandur_attack::ground::Size;
use sandur_attack::victim::{ARGUMENTS, Setup};
use sandur_base::units::parse_duration;
use sandur_runtime::Env;

fn main() -> Result<ExitCode> {
    let matches = command().get_matches();
    if matches.get_flag("list") {
        for attack in ATTACKS {
            println!("{:<20} {}", attack.name, attack.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    let mut course = course(&matches, directory.path().to_owned())?;
    let limit = course.setup.memory_limit;
    let cgroup = matches.get_flag("cgroup").then(|| MemoryCgroup::new(limit + limit / 10)).transpose()?;
    course.setup.cgroup = cgroup.as_ref().map(MemoryCgroup::entrance);
    let env = Env::system(1);
    println!("seed {}, {} attacks", course.seed, course.attacks.len());
    let clean = run(&env, &course, print)?;
    println!("{}", if clean { "the servers withstood every attack" } else { "there are findings" });
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("N").help(help).default_value(default);
        arg.value_parser(value_parser!(u64))
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let program = Arg::new("sandur").long("sandur").value_name("PROGRAM").help("Path of the server program");
    let within = Arg::new("answer-within").long("answer-within").value_name("TIME").default_value("1s");
    Command::new("sandur-attack")
        .about("Send hostile input to a running server and check that it withstands it")
        .arg(program.default_value("target/release/sandur"))
        .arg(number("seed", "1", "Seed of everything random"))
        .arg(number("memory-limit", "256", "Memory limit of the server in MiB"))
        .arg(within.help("Longest time that the bystander may wait for an answer"))
        .arg(flag("cgroup", "Run the database in a memory cgroup of 1.1 times its limit; requires root"))
        .arg(flag("short", "Use each kind of input once"))
        .arg(flag("list", "List the attacks and exit"))
        .arg(Arg::new("attack").value_name("NAME").num_args(0..).help("Run only these attacks"))
}

fn course(matches: &ArgMatches, directory: PathBuf) -> Result<Course<'static>> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let names: Vec<String> = matches.get_many("attack").into_iter().flatten().cloned().collect();
    let within: Duration = parse_duration(&text("answer-within")).context("--answer-within")?;
    let program = std::path::absolute(text("sandur"))?;
    if !program.is_file() {
        bail!("{} is not there: build it with `cargo build --release`", program.display());
    }
    Ok(Course {
        setup: Setup {
            program,
            directory,
            memory_limit: number("memory-limit") << 20,
            arguments: ARGUMENTS.map(str::to_owned).to_vec(),
            open_files: None,
            cgroup: None,
        },
        attacks: chosen(&names)?,
        size: if matches.get_flag("short") { Size::Short } else { Size::Full },
        seed: number("seed"),
        answer_within: within,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Attack>> {
    let find = |name: &String| {
        let found = ATTACKS.iter().copied().find(|attack| attack.name == name);
        found.with_context(|| format!("there is no attack '{name}'; --list lists them"))
    };
    if names.is_empty() { Ok(ATTACKS.to_vec()) } else { names.iter().map(find).collect() }
}

fn print(verdict: &Verdict) {
    let outcome = if verdict.findings.is_empty() { "ok" } else { "FINDING" };
    println!(
        "{outcome:<8}{:<20}{:>6.1} s, answers {:?}, bystander {} (slowest {:?}), peak {} MiB",
        verdict.name,
        verdict.took.as_secs_f64(),
        verdict.answers,
        verdict.watched.answered,
        verdict.watched.slowest,
        verdict.peak_bytes >> 20
    );
    for finding in &verdict.findings {
        println!("    {finding}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        assert!(chosen(&["no such attack".to_owned()]).is_err());
        assert_eq!(chosen(&[]).unwrap().len(), ATTACKS.len());
    }
}
