//! `sandur rules`: checks rule files, runs their unit tests, replays them, and lists the rules of a server.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_cli::client::{self, Client};
use sandur_cli::outcome::written;
use sandur_rules::file::ReadOptions;
use sandur_rules::{GroupSpec, Source, list_files, read_file, unit_tests};
use sandur_runtime::Env;
use sandur_terminal::{Failed, counted};
use serde::{Deserialize, Serialize};

use crate::replay;

const RULE_FILES: &str =
    "Files, or folders with files that end with .yml, .yaml or .rules; logql:PATH for LogQL";

/// The command.
pub fn command() -> Command {
    let files =
        |help: &'static str| Arg::new("files").value_name("FILE").num_args(1..).required(true).help(help);
    let only = Arg::new("run").long("run").value_name("TEXT").action(ArgAction::Append);
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    let list = Command::new("list").about("List the rules that a server evaluates, with their states");
    Command::new("rules")
        .about("Check, test and replay files of recording and alerting rules, or list the rules of a server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("check")
                .about("Check rule files, as a server reads them")
                .arg(files(RULE_FILES))
                .after_help("Exit codes: 0 all files are valid, 1 a file has an error, 2 wrong usage."),
        )
        .subcommand(
            Command::new("test")
                .about("Run unit tests of rules: files in the format of `promtool test rules`")
                .arg(files("Files of tests"))
                .arg(only.help("Run only tests whose names contain this text; may be repeated"))
                .after_help(
                    "A test may also load lines (`input_streams`, with `stream` and a list of `lines`) and \
                     compare results of LogQL (`logql_expr_test`). Exit codes: 0 all tests passed, 1 a test \
                     failed, 2 wrong usage.",
                ),
        )
        .subcommand(replay::command(files(RULE_FILES)))
        .subcommand(client::arguments(list.arg(json)))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some(("test", matches)) => test(&env, matches).await,
        Some(("replay", matches)) => replay::run(&env, matches).await,
        Some(("list", matches)) => list(matches).await,
        _ => Err(Failed::new("name a command: check, test, replay or list")),
    }
}

fn files(matches: &ArgMatches) -> Vec<String> {
    matches.get_many::<String>("files").unwrap_or_default().cloned().collect()
}

fn check(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let mut is_valid = true;
    for text in files(matches) {
        let source = Source::parse(&text);
        let paths = list_files(&source.path)
            .map_err(|error| Failed::new(format!("cannot read {}: {error}", source.path.display())))?;
        if paths.is_empty() {
            return Err(Failed::new(format!("{} has no rule files", source.path.display())));
        }
        let options = ReadOptions { language: source.language, ..ReadOptions::default() };
        for path in paths {
            is_valid &= check_file(&path, options);
        }
    }
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks a file and prints the result. Returns whether it is valid.
fn check_file(path: &Path, options: ReadOptions) -> bool {
    let name = path.display();
    match read_file(path, options) {
        Ok(groups) => {
            let rules = groups.iter().map(|group| group.rules.len() as u64).sum::<u64>();
            let (rules, groups_found) =
                (counted(rules, "rule", "rules"), counted(groups.len() as u64, "group", "groups"));
            println!("{name}: valid, {rules} in {groups_found}");
            repeated(&groups).iter().for_each(|line| println!("{name}: {line}"));
            true
        }
        Err(errors) => {
            errors.iter().for_each(|error| println!("{error}"));
            false
        }
    }
}

/// Warnings about rules that write the same series.
fn repeated(groups: &[GroupSpec]) -> Vec<String> {
    let mut seen = HashMap::new();
    let mut found = Vec::new();
    for rule in groups.iter().flat_map(|group| &group.rules) {
        if let Some(first) = seen.insert((&rule.name, &rule.labels, rule.is_alerting()), rule.line) {
            found.push(format!(
                "warning: the rule '{}' in line {} has the name and labels of the one in line {first}, so \
                 that both may write the same series",
                rule.name, rule.line
            ));
        }
    }
    found
}

async fn test(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let only: Vec<String> = matches.get_many::<String>("run").unwrap_or_default().cloned().collect();
    let mut has_passed = true;
    for file in files(matches) {
        match unit_tests::run(env, file.as_ref(), &only).await {
            Ok(()) => println!("{file}: passed"),
            Err(failures) => {
                has_passed = false;
                println!("{file}: failed");
                for failure in failures {
                    println!("  {}", failure.replace('\n', "\n  "));
                }
            }
        }
    }
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Deserialize)]
struct Answer {
    data: Groups,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize, Serialize)]
struct Group {
    name: String,
    file: String,
    interval: f64,
    rules: Vec<Rule>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    query: String,
    #[serde(default)]
    language: String,
    #[serde(default)]
    state: Option<String>,
    health: String,
    #[serde(default)]
    last_error: Option<String>,
    last_evaluation: String,
    evaluation_time: f64,
    #[serde(rename = "type")]
    kind: String,
}

async fn list(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let none = [("exclude_alerts", "true".to_owned())];
    let body = client.get("/api/v1/rules", &none).await.map_err(Failed::from)?;
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|error| Failed::new(format!("the server's answer cannot be read: {error}")))?;
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        return written(writeln!(out, "{}", serde_json::json!(answer.data)));
    }
    for warning in &answer.warnings {
        eprintln!("sandur: {warning}");
    }
    if answer.data.groups.is_empty() {
        eprintln!(
            "sandur: the server evaluates no rules of this tenant; start it with --rules FILE_OR_FOLDER"
        );
    }
    written(answer.data.groups.iter().try_for_each(|group| print_group(&mut out, group)))
}

fn print_group(out: &mut impl Write, group: &Group) -> std::io::Result<()> {
    writeln!(out, "{}  ({}, every {} s)", group.name, group.file, group.interval)?;
    for rule in &group.rules {
        let state = rule.state.as_deref().unwrap_or("record");
        let state = if rule.health == "err" { "failed" } else { state };
        writeln!(out, "  {state:<9} {:<40} {}", rule.name, rule.query.replace('\n', " "))?;
        if let Some(error) = &rule.last_error {
            writeln!(out, "            {error}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sandur_rules::file::read;

    use super::*;

    #[test]
    fn rules_with_the_same_series_are_reported() {
        let text = "groups:\n- name: a\n  rules:\n  - {record: x, expr: up}\n- name: b\n  rules:\n  \
                    - {record: x, expr: down}\n  - {alert: x, expr: down}\n";
        let groups = read(text, &"f".into(), ReadOptions::default()).unwrap();
        let found = repeated(&groups);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("line 7") && found[0].contains("line 4"));
    }
}
