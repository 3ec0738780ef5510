//! `sandur inspect`: prints the catalog, a block or a WAL segment in readable form.

mod block;
mod catalog;
mod series;
mod wal;

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_format::catalog_entry::Entry;
use sandur_format::wal_segment;
use sandur_runtime::Env;
use sandur_store::Intent;
use sandur_terminal::Failed;

use super::target::{self, Object};

/// The command.
pub fn command() -> Command {
    let target = Arg::new("target").value_name("TARGET").required(true);
    let target = target.help(
        "catalog, or an object: its path in the store (blocks/.., wal/.., catalog/..) or a file; for a path \
         that ends in /, the objects below it are listed",
    );
    let rows = Arg::new("rows").long("rows").value_name("N").default_value("5");
    let rows = rows.value_parser(clap::value_parser!(usize)).help(
        "Maximum number of rows, pages and \
        streams to show",
    );
    let command = Command::new("inspect")
        .about("Show the catalog, a block or a WAL segment of a store")
        .after_help(
            "Examples:\n  sandur inspect catalog --store ./sandur-data\n  \
             sandur inspect blocks/ --store ./sandur-data\n  \
             sandur inspect blocks/fake/2026-11-21/01K..-01K.. --rows 20",
        )
        .arg(target)
        .arg(rows);
    target::store_argument(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let url = matches.get_one::<String>("store").cloned().unwrap_or_default();
    let target = matches.get_one::<String>("target").cloned().unwrap_or_default();
    let rows = matches.get_one::<usize>("rows").copied().unwrap_or(5);
    if target == "catalog" {
        let store = target::open_store(&url, &env).await?;
        return catalog::show(&store, &env, rows).await;
    }
    if std::path::Path::new(&target).is_file() {
        return show(&Object::file(&target)?, rows).await;
    }
    let store = target::open_store(&url, &env).await?;
    if target.ends_with('/') {
        let prefix = target.trim_end_matches('/');
        let objects = store.list(prefix, Intent::catalog()).await.map_err(|e| Failed::new(e.to_string()))?;
        for object in &objects {
            println!("{:>12}  {}", object.size, object.path);
        }
        eprintln!("{} objects", objects.len());
        return Ok(ExitCode::SUCCESS);
    }
    match Object::stored(&store, &target).await? {
        Some(object) => show(&object, rows).await,
        None => Err(Failed::new(format!(
            "'{target}' is neither a file nor an object of {}; list objects with `sandur inspect blocks/`",
            store.url()
        ))),
    }
}

/// Detects the type of an object by its first bytes and prints it.
async fn show(object: &Object, rows: usize) -> Result<ExitCode, Failed> {
    let start = object.read(0..object.size.min(256)).await.map_err(Failed::new)?;
    if block::begins(&start) {
        return block::show(object, rows).await;
    }
    if wal_segment::FrameHeader::get(&start, 0).is_ok() {
        return wal::show(object, rows).await;
    }
    let bytes = object.read_all().await.map_err(Failed::new)?;
    match Entry::decode(&bytes) {
        Ok(entry) => {
            catalog::show_entry(&entry);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if object.path.contains("catalog/") => {
            Err(Failed::new(format!("'{}' is not a readable catalog entry: {error}", object.path)))
        }
        Err(_) => Err(Failed::new(format!(
            "'{}' is neither a block nor a WAL segment nor a catalog entry, or its header is damaged: it \
             begins with {:02x?}",
            object.path,
            &start[..start.len().min(4)]
        ))),
    }
}
