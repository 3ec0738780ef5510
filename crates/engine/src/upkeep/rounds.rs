//! Upkeep in the background: deletes, merges, retention, rollups, the catalog's own housekeeping,
//! garbage collection.
//!
//! One task does one thing at a time, so that its memory is that of one merge. Failures are logged and
//! retried in the next round. No answer depends on upkeep to be correct.

use std::sync::Arc;

use sandur_catalog::Collector;

use crate::blocks::reader::BlockReader;
use crate::error::Error;
use crate::upkeep::compaction::compactor::Compactor;
use crate::upkeep::deletes::DeleteProcessor;
use crate::upkeep::retention::blocks::remove_expired;
use crate::upkeep::retention::due::DueRetention;
use crate::upkeep::retention::series::SeriesRetention;
use crate::upkeep::rollups::days::RollupDays;
use crate::writing::shared::Shared;

/// Runs upkeep until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>, reader: BlockReader) {
    let options = shared.options.maintenance.clone();
    let compactor = Compactor::new(&shared, reader, &options);
    let mut deletes = DeleteProcessor::new(&shared);
    let (mut retention, mut series) = (DueRetention::new(), SeriesRetention::new(&shared));
    let mut rollups = RollupDays::new(&shared);
    let mut collector = Collector::new(shared.catalog.clone(), options.gc.clone());
    let (mut gc_due, mut orphans_due) = (options.gc_interval, options.orphan_interval);
    while shared.pause(options.interval).await {
        if shared.local {
            // In a bucket the follower checks the catalog every second.
            warn("checking the catalog", catalog_is_there(&shared).await);
        }
        if shared.catalog.lost().is_some() {
            // Nothing can be committed now, so whatever is written is garbage that must not be deleted.
            return;
        }
        if !shared.is_registered() {
            // Every commit needs a registered writer as its author.
            continue;
        }
        compact_all(&shared, &compactor, &mut deletes, &mut retention).await;
        let incarnation = shared.incarnation();
        let (env, catalog, views) = (&shared.env, &shared.catalog, &shared.views);
        let due = retention.look(env, &catalog.snapshot(), &options);
        let removed = remove_expired(env, catalog, views, &shared.metrics, (&due, incarnation)).await;
        warn("removing old blocks", removed.map(drop));
        series.round(&compactor, &due).await;
        rollups.round(&compactor).await;
        warn("housekeeping of the catalog", catalog.keep_house().await.map(drop).map_err(Error::from));
        let now = env.monotonic();
        if now >= gc_due {
            gc_due = now + options.gc_interval;
            warn("garbage collection", collector.collect(incarnation).await.map(drop).map_err(Error::from));
        }
        if now >= orphans_due {
            orphans_due = now + options.orphan_interval;
            let collected = collector.collect_orphans(incarnation, None).await;
            warn("the search for unneeded objects", collected.map(drop).map_err(Error::from));
        }
    }
}

/// Detects that the catalog was emptied or replaced while this process runs.
async fn catalog_is_there(shared: &Shared) -> Result<(), Error> {
    shared.publish(shared.catalog.refresh().await?);
    Ok(())
}

/// Merges and cuts blocks until nothing is due, with due deletes before each. A merge that fails ends
/// the round; the next round works on a newer state.
async fn compact_all(
    shared: &Shared,
    compactor: &Compactor,
    deletes: &mut DeleteProcessor,
    retention: &mut DueRetention,
) {
    let signal = shared.shutdown.signal();
    while !signal.is_triggered() {
        deletes.round(compactor).await;
        // A merge may take long, and the configuration may change meanwhile.
        let options = &shared.options.maintenance;
        let kept = retention.look(&shared.env, &shared.catalog.snapshot(), options);
        let merged = compactor.compact_once(shared.incarnation(), &kept).await;
        let done = match merged {
            Ok(false) => compactor.cut_once(shared.incarnation(), &kept).await,
            merged => merged,
        };
        match done {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return warn("merging blocks", Err(error)),
        }
    }
}

fn warn(what: &str, outcome: Result<(), Error>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "{what} failed; it is tried again");
    }
}
