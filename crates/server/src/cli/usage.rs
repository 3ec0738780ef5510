//! Errors of the command line: clap's messages, with hints for names of other programs.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use sandur_terminal::USAGE;
use sandur_terminal::logging;

use sandur_config::foreign::{self, Answer};

/// Commands of other programs, and ours.
const COMMANDS: &[(&str, &str)] = &[
    ("start", "serve"),
    ("server", "serve"),
    ("run", "serve"),
    ("up", "serve"),
    ("loki", "serve"),
    ("ingest", "push"),
    ("import", "push"),
    ("send", "push"),
    ("write", "push"),
    ("search", "query"),
    ("grep", "query"),
    ("logs", "query"),
    ("instant-query", "query --instant"),
    ("follow", "tail"),
    ("label", "labels"),
    ("streams", "series"),
    ("fsck", "check"),
    ("verify", "check"),
    ("version", "--version"),
];

/// Options of logcli, and options that users guess, for commands that query a server; and ours.
const OPTIONS: &[(&str, &str)] = &[
    ("url", "--addr URL"),
    ("server", "--addr URL"),
    ("host", "--addr URL"),
    ("address", "--addr URL"),
    ("username", "--addr https://USER:PASSWORD@HOST"),
    ("password", "--addr https://USER:PASSWORD@HOST"),
    ("user", "--addr https://USER:PASSWORD@HOST"),
    ("bearer-token", "--token-file FILE"),
    ("bearer-token-file", "--token-file FILE"),
    ("token", "--token-file FILE"),
    ("tls-skip-verify", "--insecure"),
    ("ca-cert", "--ca-file FILE"),
    ("cacert", "--ca-file FILE"),
    ("cert", "--cert-file FILE"),
    ("key", "--key-file FILE"),
    ("start", "--from TIME"),
    ("end", "--to TIME"),
    ("last", "--since 1h"),
    ("until", "--to TIME"),
    ("lines", "--limit N"),
    ("n", "--limit N"),
    ("max", "--limit N"),
    ("follow", "the command `sandur tail`"),
    ("f", "the command `sandur tail`"),
    ("reverse", "--forward"),
    ("order", "--forward for oldest first"),
    ("json", "--output jsonl"),
    ("include-label", "| keep NAME in the query"),
    ("exclude-label", "| drop NAME in the query"),
    ("no-labels", "--output raw"),
    ("quiet", "2>/dev/null: notes go to stderr"),
    ("labels", "--label NAME=VALUE for push, `sandur labels` to list them"),
    ("delay", "--delay-for SECONDS"),
];

/// Prints what is wrong with the arguments. Returns the exit code.
pub fn report(error: &clap::Error, arguments: &[String]) -> ExitCode {
    match explanation(error, arguments) {
        Some(text) => {
            logging::say_failure(&text);
            ExitCode::from(USAGE)
        }
        None => {
            if error.use_stderr() && logging::is_json() {
                logging::say_failure(error.to_string().trim_end());
            } else {
                // Help and version go to stdout; a closed pipe is no failure.
                let _ = error.print();
            }
            ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
        }
    }
}

/// A message with our name for a foreign name that clap refused.
fn explanation(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let (wrong, tip) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
                return None;
            };
            let (_, ours) = COMMANDS.iter().find(|(theirs, _)| theirs == wrong)?;
            (wrong.clone(), format!("it is sandur {ours}"))
        }
        ErrorKind::UnknownArgument => foreign_option(error, arguments)?,
        _ => return None,
    };
    let command = arguments.first().filter(|word| !word.starts_with('-') && **word != wrong);
    let help = command.map_or("sandur --help".to_owned(), |word| format!("sandur {word} --help"));
    Some(format!("error: there is no '{wrong}'\n\n  tip: {tip}\n\nFor more information, try '{help}'."))
}

/// The refused option and a hint, if another program has it. Clap reads `-config.file` as `-c`, so the
/// option is looked up among the arguments.
fn foreign_option(error: &clap::Error, arguments: &[String]) -> Option<(String, String)> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else { return None };
    let serves = arguments.first().is_none_or(|word| word == "serve" || word.starts_with('-'));
    arguments.iter().find_map(|argument| {
        let name = argument.split('=').next()?;
        if !name.starts_with(refused.as_str()) || !name.starts_with('-') {
            return None;
        }
        let bare = name.trim_start_matches('-');
        if !serves {
            let (_, ours) = OPTIONS.iter().find(|(theirs, _)| *theirs == bare)?;
            return Some((name.to_owned(), format!("it is {ours}")));
        }
        let Answer { is_named, text } = foreign::flag(name)?;
        let tip = match (is_named, arguments.first().is_some_and(|word| word.starts_with('-'))) {
            (true, true) => format!("it is an option of `sandur serve`: {text}"),
            (true, false) => format!("it is {text}"),
            (false, _) => text,
        };
        Some((name.to_owned(), tip))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> String {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = std::iter::once("sandur".to_owned()).chain(arguments.iter().cloned());
        let error = super::super::command().try_get_matches_from(all).unwrap_err();
        explanation(&error, &arguments).unwrap_or_else(|| error.to_string())
    }

    #[test]
    fn foreign_names_get_a_hint() {
        for (line, wrong, ours) in [
            (
                "serve --retention 7d",
                "--retention",
                "it is --limits-retention-period: how long lines are kept",
            ),
            ("serve -config.file=loki.yaml", "-config.file", "it is --config: a TOML file"),
            ("-config.file=loki.yaml", "-config.file", "`sandur serve`: --config"),
            ("-target=all", "-target", "tip: not needed: each process"),
            (
                "serve --storage.tsdb.retention.size=1GB",
                "--storage.tsdb.retention.size",
                "tip: there is none: r",
            ),
            ("serve -log.level=debug", "-log.level", "tip: it is --log-level"),
            ("-verify-config", "-verify-config", "tip: there is none: the server refuses"),
            ("serve --enable-feature=x", "--enable-feature", "tip: not needed: experimental PromQL"),
            ("serve -print-config-stderr", "-print-config-stderr", "tip: there is none: /config"),
            ("serve --storage.tsdb.path /x", "--storage.tsdb.path", "it is --store"),
            ("serve --web.listen-address :9", "--web.listen-address", "it is --listen"),
            ("--store x", "--store", "`sandur serve`: --store"),
            ("start", "start", "it is sandur serve"),
            ("instant-query x", "instant-query", "it is sandur query --instant"),
            ("query --bearer-token x {}", "--bearer-token", "it is --token-file FILE"),
            ("tail --last 1h {}", "--last", "it is --since 1h"),
        ] {
            let text = said(line);
            assert!(text.starts_with(&format!("error: there is no '{wrong}'")), "{line}: {text}");
            assert!(text.contains(ours), "{line}: {text}");
        }
    }

    #[test]
    fn misspelled_and_unknown_names_get_claps_message() {
        assert!(said("serve --flush-max-ag 1m").contains("--flush-max-age"));
        assert!(said("qeury x").contains("'query'"));
        assert!(said("query --nonsense x").contains("unexpected argument '--nonsense'"));
    }

    #[test]
    fn no_option_of_ours_is_listed_as_foreign() {
        let command = super::super::command();
        for name in ["query", "tail", "labels", "series", "stats"] {
            let known = command.find_subcommand(name).unwrap();
            for (theirs, _) in OPTIONS.iter().filter(|(theirs, _)| !matches!(*theirs, "json" | "delay")) {
                let is_ours = known.get_arguments().any(|a| a.get_long() == Some(theirs));
                assert!(!is_ours, "{name} --{theirs}");
            }
        }
    }
}
