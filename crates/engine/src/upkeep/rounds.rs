//! Upkeep in the background: deletes, merges, retention, rollups, the catalog's own housekeeping,
//! garbage collection.
//!
//! One task does one thing at a time, so that its memory is that of one merge. Failures are logged and
//! retried in the next round. No answer depends on upkeep to be correct.

use std::sync::Arc;

use sandur_catalog::Collector;
use sandur_format::catalog_entry::{Edit, Precondition};
use sandur_format::stamp::COUNTER_BITS;

use crate::error::{Error, refused};
use crate::upkeep::compaction::compactor::Compactor;
use crate::upkeep::context::UpkeepContext;
use crate::upkeep::deletes::DeleteProcessor;
use crate::upkeep::retention::blocks::remove_expired;
use crate::upkeep::retention::due::DueRetention;
use crate::upkeep::retention::series::SeriesRetention;
use crate::upkeep::rollups::days::RollupDays;

/// An hour between stamps.
const STATED_APART: u64 = 3_600_000 << COUNTER_BITS;

/// Runs upkeep until the engine stops.
pub(crate) async fn run(context: UpkeepContext, local: bool) {
    let (context, options) = (Arc::new(context.clone()), context.options);
    let compactor = Compactor::new(&context);
    let mut deletes = DeleteProcessor::new(&context);
    let (mut retention, mut series) = (DueRetention::new(), SeriesRetention::new(&context));
    let mut rollups = RollupDays::new(&context);
    let mut collector = Collector::new(context.node.catalog.clone(), options.gc.clone());
    let (mut gc_due, mut orphans_due) = (options.gc_interval, options.orphan_interval);
    while context.node.pause(options.interval).await {
        if local {
            // In a bucket the follower checks the catalog every second.
            warn("checking the catalog", catalog_is_there(&context).await);
        }
        if context.node.catalog.lost().is_some() {
            // Nothing can be committed now, so whatever is written is garbage that must not be deleted.
            return;
        }
        if !context.author.is_registered() {
            // Every commit needs a registered writer as its author.
            continue;
        }
        context.author.observe_nodes();
        warn("activating versions of blocks", activate_forms(&context).await);
        warn("describing this node", describe_node(&context).await);
        warn("stating stamps", state_stamps(&context).await);
        compact_all(&context, &compactor, &mut deletes, &mut retention).await;
        let incarnation = context.incarnation();
        let (env, catalog) = (&context.node.env, &context.node.catalog);
        let due = retention.look(env, &catalog.snapshot(), &options);
        let removed = remove_expired(&context.node, (&due, incarnation)).await;
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

/// Allows newer versions of blocks once the last writer that does not read them has ended. Without such
/// versions it makes no request.
async fn activate_forms(context: &UpkeepContext) -> Result<(), Error> {
    let activated = context.node.catalog.activate_forms(context.incarnation()).await;
    activated.map(drop).map_err(|error| refused("versions of blocks", &error))
}

/// Describes this node once the last writer that does not read descriptions has ended. Otherwise it makes no
/// request.
async fn describe_node(context: &UpkeepContext) -> Result<(), Error> {
    let (node, own) = (&context.node, context.incarnation());
    let described = node.catalog.describe_node(own, &node.place.description()).await;
    described.map(drop).map_err(|error| refused("the description of this node", &error))
}

/// States that later samples of this process have later stamps than those that others have flushed, once an
/// hour. A flush states the same, so this concerns processes that store no samples.
async fn state_stamps(context: &UpkeepContext) -> Result<(), Error> {
    let (node, incarnation) = (&context.node, context.incarnation());
    let snapshot = node.catalog.snapshot();
    // Blocks that others have flushed must be known to the clock of the stamps before it is asked.
    context.author.publish(Arc::clone(&snapshot));
    let Some(writer) = snapshot.writer(incarnation).filter(|writer| !writer.is_sealed()) else {
        return Ok(());
    };
    let time = snapshot.stamps_before();
    let started = incarnation.timestamp_ms().saturating_mul(1 << COUNTER_BITS);
    let due = writer.stamps_after.max(started).saturating_add(STATED_APART);
    if time <= writer.stamps_after {
        return Ok(());
    }
    // The order matters: a frame that was under way before is in a head afterwards.
    let is_quiet = node.views.stamps().quiet_since().is_some_and(|now| now >= due.max(time));
    if !is_quiet || node.views.heads_of(incarnation).iter().any(|head| head.samples().totals().rows > 0) {
        return Ok(());
    }
    let edits = vec![Edit::StampsAfter { incarnation, time }];
    let committed = node.catalog.commit(incarnation, edits, vec![Precondition::Live { incarnation }]).await;
    committed.map(drop).map_err(|error| refused("the stamps of this process", &error))
}

/// Detects that the catalog was emptied or replaced while this process runs.
async fn catalog_is_there(context: &UpkeepContext) -> Result<(), Error> {
    context.author.publish(context.node.catalog.refresh().await?);
    Ok(())
}

/// Merges and cuts blocks until nothing is due, with due deletes before each. A merge that fails ends
/// the round; the next round works on a newer state.
async fn compact_all(
    context: &UpkeepContext,
    compactor: &Compactor,
    deletes: &mut DeleteProcessor,
    retention: &mut DueRetention,
) {
    let signal = context.node.shutdown.signal();
    while !signal.is_triggered() {
        deletes.round(compactor).await;
        // A merge may take long, and the configuration may change meanwhile.
        let options = &context.options;
        let kept = retention.look(&context.node.env, &context.node.catalog.snapshot(), options);
        let merged = compactor.compact_once(context.incarnation(), &kept).await;
        let done = match merged {
            Ok(false) => compactor.cut_once(context.incarnation(), &kept).await,
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
