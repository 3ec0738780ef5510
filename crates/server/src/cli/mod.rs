//! The command line. Clients speak HTTP only; `inspect` and `check` read a store directly.
//!
//! Exit codes: 0 done, 1 failed (the message on stderr says what to do), 2 wrong usage. `check` exits
//! with 1 also when it found damage.

mod cache;
mod check;
mod client;
mod demo;
mod failed;
mod inspect;
mod moment;
mod paint;
mod push;
mod query;
mod results;
mod tail;
mod target;

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_base::nesting::STACK_BYTES;
use sandur_base::{Env, machine};

use crate::config;
use crate::http;
use crate::roles;
pub use failed::Failed;

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let matches = command().get_matches();
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
        Err(error) => return failed::report(&Failed::new(format!("cannot start threads: {error}"))),
    };
    let outcome = runtime.block_on(dispatch(&matches));
    // A command that ended does not wait for reads that nobody needs any more.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(failure) => failed::report(&failure),
    }
}

/// Huge pages are for the memcached server alone: it touches memory at random, and what it holds it keeps,
/// so a hit costs a fifth less. A database would hold whole huge pages for the little that is left in them.
fn choose_pages(matches: &ArgMatches) {
    let serves_cache = matches.subcommand_matches("cache").and_then(|m| m.subcommand_matches("serve"));
    if serves_cache.is_none() {
        // A kernel without huge pages has none to switch off.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

fn command() -> Command {
    Command::new("sandur")
        .about("A database for logs whose only durable store is a directory or an object-storage bucket")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(config::serve_command())
        .subcommand(push::command())
        .subcommand(query::command())
        .subcommand(tail::command())
        .subcommand(inspect::command())
        .subcommand(check::command())
        .subcommand(cache::command())
        .subcommand(demo::command())
        .subcommand(docs_command())
}

fn docs_command() -> Command {
    let page = Arg::new("page").value_parser(["options", "http-api", "logql", "memcached"]).required(true);
    Command::new("docs").about("Print a generated page of the documentation").hide(true).arg(page)
}

async fn dispatch(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let env = || Env::system(1);
    match matches.subcommand() {
        Some(("serve", m)) => roles::serve(config::load(m)?).await,
        Some(("push", m)) => push::run(env(), m).await,
        Some(("query", m)) => query::run(env(), m).await,
        Some(("tail", m)) => tail::run(env(), m).await,
        Some(("inspect", m)) => inspect::run(env(), m).await,
        Some(("check", m)) => check::run(env(), m).await,
        Some(("cache", m)) => cache::run(env(), m).await,
        Some(("demo", m)) => demo::run(m).await,
        Some(("docs", m)) => {
            let page = match m.get_one::<String>("page").map(String::as_str) {
                Some("logql") => sandur_logql::reference(),
                Some("memcached") => sandur_cache::memcached::reference(),
                Some("http-api") => http::http_api_page(),
                _ => config::options_page(),
            };
            print!("{page}");
            Ok(ExitCode::SUCCESS)
        }
        _ => unreachable!("clap requires a subcommand"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
