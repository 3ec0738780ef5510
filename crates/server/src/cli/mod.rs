//! The command line. Commands that talk to a server use HTTP only; `inspect` and `check` read a store
//! directly, and `repair` changes one.
//!
//! Exit codes: 0 done, 1 failed (the message on stderr says what to do), 2 wrong usage. `check` also
//! exits with 1 when it found damage, and `repair --dry-run` when there is something to repair.
//!
//! To add a command: one file with `command` and `run`, and one line in [`COMMANDS`], from which the
//! help, the completions and the manual pages are made. Commands print with `println!` as usual;
//! [`crate::output`] handles a reader that closed its pipe.

mod cache;
mod completions;
mod demo;
mod docs;
mod man;
mod reference;
mod relay;
mod token;
mod usage;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use futures_util::future::LocalBoxFuture;
use sandur_agent::{import, push};
use sandur_base::nesting::STACK_BYTES;
use sandur_cli::{cluster, delete, labels, query, series, stats, tail, volume};
use sandur_offline::{backup, check, inspect, repair, restore, rules, silences};
use sandur_runtime::{Env, machine};
use sandur_terminal as failed_command;

use sandur_config as config;

use crate::roles;
pub use sandur_terminal::Failed;
use sandur_terminal::logging;
use sandur_terminal::output;

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let code = run();
    logging::stderr::finish();
    code
}

fn run() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let arguments: Vec<String> = arguments.collect();
    logging::choose_format(&arguments, sandur_runtime::environment::variable("SANDUR_LOG_FORMAT"));
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage::report(&error, &arguments),
    };
    choose_pages(&matches);
    let threads = machine::processors();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(2))
        .thread_name("io")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed_command::report(&Failed::new(format!("cannot start threads: {error}"))),
    };
    let outcome = runtime.block_on(dispatch(&matches));
    // Does not wait for blocking reads that are no longer needed when the command has ended.
    runtime.shutdown_background();
    let printed = output::finish().map_err(|e| Failed::new(format!("cannot write the output: {e}")));
    match outcome.and_then(|code| printed.map(|()| code)) {
        Ok(code) => code,
        Err(failure) => failed_command::report(&failure),
    }
}

/// Disables huge pages except for the memcached server. That server accesses memory at random and keeps
/// it, so huge pages make a hit a fifth cheaper. A database would keep whole huge pages resident for few
/// live bytes in them.
fn choose_pages(matches: &ArgMatches) {
    let serves_cache = matches.subcommand_matches("cache").and_then(|m| m.subcommand_matches("serve"));
    if serves_cache.is_none() {
        // A kernel without huge pages fails here, which does not matter.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

/// A command: its definition for clap, and the function that runs it.
struct Entry {
    command: fn() -> Command,
    run: for<'a> fn(&'a ArgMatches) -> LocalBoxFuture<'a, Result<ExitCode, Failed>>,
}

/// All commands, in the order of the help.
static COMMANDS: &[Entry] = &[
    Entry {
        command: config::serve_command,
        run: |m| {
            Box::pin(async move {
                let settings = config::load(m)?;
                match m.get_flag("check-config") {
                    true => roles::check_config(settings).await,
                    false => roles::serve(settings).await,
                }
            })
        },
    },
    Entry { command: push::command, run: |m| Box::pin(push::run(env(), m)) },
    Entry { command: import::command, run: |m| Box::pin(import::run(env(), m)) },
    Entry { command: query::command, run: |m| Box::pin(query::run(env(), m)) },
    Entry { command: tail::command, run: |m| Box::pin(tail::run(env(), m)) },
    Entry { command: labels::command, run: |m| Box::pin(labels::run(env(), m)) },
    Entry { command: series::command, run: |m| Box::pin(series::run(env(), m)) },
    Entry { command: stats::command, run: |m| Box::pin(stats::run(env(), m)) },
    Entry { command: volume::command, run: |m| Box::pin(volume::run(env(), m)) },
    Entry { command: delete::command, run: |m| Box::pin(delete::run(env(), m)) },
    Entry { command: cluster::command, run: |m| Box::pin(cluster::run(env(), m)) },
    Entry { command: inspect::command, run: |m| Box::pin(inspect::run(env(), m)) },
    Entry { command: check::command, run: |m| Box::pin(check::run(env(), m)) },
    Entry { command: repair::command, run: |m| Box::pin(repair::run(env(), m)) },
    Entry { command: backup::command, run: |m| Box::pin(backup::run(env(), m)) },
    Entry { command: restore::command, run: |m| Box::pin(restore::run(env(), m)) },
    Entry { command: rules::command, run: |m| Box::pin(rules::run(env(), m)) },
    Entry { command: silences::command, run: |m| Box::pin(silences::run(env(), m)) },
    Entry { command: cache::command, run: |m| Box::pin(cache::run(env(), m)) },
    Entry { command: relay::command, run: |m| Box::pin(relay::run(env(), m)) },
    Entry { command: demo::command, run: |m| Box::pin(demo::run(m)) },
    Entry { command: token::command, run: |m| Box::pin(async move { token::run(env(), m) }) },
    Entry { command: docs::command, run: |m| Box::pin(async move { docs::run(m, command()) }) },
    Entry { command: completions::command, run: |m| Box::pin(async move { completions::run(m, command()) }) },
    Entry { command: man::command, run: |m| Box::pin(async move { man::run(m, command()) }) },
];

/// The environment of commands other than `serve`.
fn env() -> Env {
    Env::system(1)
}

fn command() -> Command {
    Command::new("sandur")
        .about(
            "A database for logs, Prometheus metrics and Graphite metrics whose only durable store is a \
             directory or an object-storage bucket",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .after_help("Exit codes: 0 done, 1 failed (the message on stderr says what to do), 2 wrong usage.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(|entry| (entry.command)()))
}

async fn dispatch(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let (name, arguments) = matches.subcommand().expect("clap requires a subcommand");
    let entry = COMMANDS.iter().find(|entry| (entry.command)().get_name() == name);
    (entry.expect("clap has only the commands of the table").run)(arguments).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
