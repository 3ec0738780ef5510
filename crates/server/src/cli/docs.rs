//! `sandur docs`: prints a reference page, generated from the tables of the program.
//!
//! The generated pages of `docs/reference` say so; a test fails for each page that is stale.

use std::process::ExitCode;

use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, Command};
use sandur_terminal::Failed;

use super::reference;
use sandur_agent::push::log_lines_page;
use sandur_config as config;
use sandur_http as http;

/// A page: name, description, and the function that generates it from the complete command line.
struct Page {
    name: &'static str,
    about: &'static str,
    text: fn(Command) -> String,
}

/// All generated pages.
static PAGES: &[Page] = &[
    Page { name: "options", about: "Options of the server", text: |_| config::options_page() },
    Page { name: "commands", about: "Commands and their options", text: reference::commands_page },
    Page { name: "log-lines", about: "Times and entries of pushed lines", text: |_| log_lines_page() },
    Page { name: "http-api", about: "Endpoints of the server", text: |_| http::http_api_page() },
    Page { name: "logql", about: "The query language of logs", text: |_| sandur_logql::reference() },
    Page { name: "promql", about: "The query language of metrics", text: |_| sandur_promql::reference() },
    Page { name: "graphite", about: "Graphite's functions", text: |_| sandur_graphite::reference() },
    Page {
        name: "memcached",
        about: "Commands and options of the cache",
        text: |_| sandur_memcached::reference(),
    },
];

/// The command.
pub fn command() -> Command {
    let page = |page: &Page| PossibleValue::new(page.name).help(page.about);
    let pages: Vec<PossibleValue> = PAGES.iter().map(page).collect();
    let page = Arg::new("page").value_name("PAGE").required(true).value_parser(pages);
    Command::new("docs").about("Print a page of the reference, in Markdown").arg(page)
}

/// Runs the command; `sandur` is the complete command line.
pub fn run(matches: &ArgMatches, sandur: Command) -> Result<ExitCode, Failed> {
    let name = matches.get_one::<String>("page");
    let Some(page) = PAGES.iter().find(|page| name.is_some_and(|name| name == page.name)) else {
        return Err(Failed::usage("name a page"));
    };
    print!("{}", (page.text)(sandur));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_the_committed_one() {
        for Page { name, text, .. } in PAGES {
            let path = format!("{}/../../docs/reference/{name}.md", env!("CARGO_MANIFEST_DIR"));
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            let remedy = "stale: run `cargo run -p sandur-server -- docs";
            assert!(committed == text(crate::cli::command()), "{remedy} {name} > docs/reference/{name}.md`");
        }
    }
}
