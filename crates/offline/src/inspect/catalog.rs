//! Prints the catalog: a summary and the latest entries.

use std::process::ExitCode;

use sandur_base::units::ByteSize;
use sandur_catalog::{Catalog, CatalogOptions};
use sandur_cli::moment;
use sandur_format::catalog_entry::{DeleteRequest, Edit, Entry};
use sandur_format::stamp::COUNTER_BITS;
use sandur_runtime::Env;
use sandur_store::Store;
use sandur_terminal::Failed;

/// Prints the state and the last `entries` entries.
pub async fn show(store: &Store, env: &Env, entries: usize) -> Result<ExitCode, Failed> {
    let failed =
        |e: sandur_catalog::Error| Failed::new(format!("cannot read the catalog of {}: {e}", store.url()));
    let catalog =
        Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await.map_err(failed)?;
    let description = catalog.describe();
    println!("catalog of {}\n{description}", store.url());
    let first = description.number.saturating_sub(entries as u64).max(description.boundary) + 1;
    if first <= description.number {
        println!("latest entries:");
    }
    for number in first..=description.number {
        match catalog.entry(number).await.map_err(failed)? {
            Some(entry) => show_entry(&entry),
            None => println!("entry {number} is gone; checkpoints contain its effect"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints an entry, one edit per line.
pub fn show_entry(entry: &Entry) {
    println!("entry {}", entry.number);
    for transaction in &entry.transactions {
        println!("  by {}, {} preconditions", transaction.author, transaction.preconditions.len());
        for edit in &transaction.edits {
            println!("    {}", edit_text(edit));
        }
    }
}

fn edit_text(edit: &Edit) -> String {
    match edit {
        Edit::Register { incarnation, address, host, started_ms, wal, reads, .. } => {
            let started = moment::show(started_ms.saturating_mul(1_000_000));
            let reads = reads.map_or_else(String::new, |reads| format!(", reads {reads}"));
            format!("register {incarnation}: {host} {address}, {wal:?} WAL, started {started}{reads}")
        }
        Edit::DescribeNode { incarnation, node } => {
            let (phase, zone) = (node.phase.name(), &node.zone);
            format!("{incarnation} runs node '{}', zone '{zone}', roles {}, {phase}", node.id, node.roles)
        }
        Edit::StampsAfter { incarnation, time } => {
            let at = moment::show(((*time >> COUNTER_BITS) as i64).saturating_mul(1_000_000));
            format!("later samples of {incarnation} have stamps after {at}")
        }
        Edit::OwnRules { incarnation, shards } => {
            format!("{incarnation} evaluates the rules of {shards} shards")
        }
        Edit::ActivateForms(forms) => format!("from now on may be written: {forms}"),
        Edit::AddBlock(block) => format!(
            "add block {}: {}, level {}, {} to {}, {} rows, {}",
            block.id,
            block.dataset,
            block.level,
            moment::show(block.min_ts),
            moment::show(block.max_ts),
            block.rows,
            ByteSize(block.size)
        ),
        Edit::RemoveBlock { id, .. } => format!("remove block {id}"),
        Edit::Floor { incarnation, from, to } => {
            format!("rows of {incarnation} from {from} to {to} are in blocks")
        }
        Edit::Seal { incarnation, fence } => format!("seal {incarnation} at {fence}"),
        Edit::Forget { incarnation } => format!("forget {incarnation}"),
        Edit::OrphanFloor { incarnation, id } => format!("no more blocks of {incarnation} up to {id}"),
        Edit::Deleted { ids } => format!("{} removed blocks are deleted", ids.len()),
        Edit::CreateDelete(request) => {
            let [first, last] = [request.start_ms, request.end_ms].map(|ms| ms.saturating_mul(1_000_000));
            let (first, last) = (moment::show(first), moment::show(last));
            let DeleteRequest { id, dataset, query, .. } = request;
            format!("delete request {id}: {dataset}, rows that {query} selects from {first} to {last}")
        }
        Edit::StartDelete { dataset, id } => format!("start delete request {id} of {dataset}"),
        Edit::CancelDelete { dataset, id, .. } => format!("cancel delete request {id} of {dataset}"),
        Edit::FinishDelete { dataset, id, .. } => {
            format!("delete request {id} of {dataset} is processed")
        }
        Edit::BlocksClean { ids, through } => {
            format!("{} blocks contain no rows of deletes started up to entry {through}", ids.len())
        }
    }
}
