//! Removes backups, and deletes the blocks that no other backup has.
//!
//! The manifests go first, so a removal that was interrupted leaves objects that nothing refers to; the next
//! removal deletes them. Blocks are deleted only while no backup is in progress (`place.rs`).

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use sandur_base::{BoxFuture, Id};
use sandur_format::catalog_entry::BackupMark;
use sandur_runtime::Env;
use sandur_store::Intent;

use crate::error::Error;
use crate::mark::{Renewed, end_dead};
use crate::place::{self, Place};

/// Deletions at a time.
const DELETES_IN_FLIGHT: usize = 8;

/// What a removal freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Backups that were removed.
    pub backups: usize,
    /// Backups that had been interrupted, whose objects were deleted.
    pub interrupted: usize,
    /// Blocks that no backup has any more.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes backups. Also deletes what interrupted backups and removals left. While the manifest of another
/// backup is unreadable, nothing is removed: its blocks are unknown.
pub async fn remove(place: &Place, env: &Env, ids: &[Id]) -> Result<Removed, Error> {
    for id in ids {
        if !place.has(*id).await? {
            return Err(Error::NoSuchBackup { url: place.url(), backup: *id });
        }
    }
    if place.read_mark(place::REMOVING).await?.is_some()
        && end_dead(place, env, vec![place::REMOVING.to_owned()]).await?.is_some()
    {
        return Err(Error::Removing { url: place.url() });
    }
    let mark = BackupMark { id: env.new_id(), began_ms: env.now_ns() / 1_000_000, counter: 0 };
    let mark = Renewed::begin(place, env, place::REMOVING.to_owned(), mark).await?;
    let removed = remove_marked(place, env, ids, &mark).await;
    mark.end().await?;
    removed
}

async fn remove_marked(place: &Place, env: &Env, ids: &[Id], mark: &Renewed) -> Result<Removed, Error> {
    if let Some(path) = end_dead(place, env, place.running().await?).await? {
        return Err(Error::InProgress { url: place.url(), mark: path });
    }
    let backups = place.backups().await?;
    backups.expect_readable(place, ids)?;
    let mut removed = Removed::default();
    for id in ids {
        expect_there(place, mark).await?;
        place.delete(*id).await?;
        removed.backups += 1;
    }
    for id in backups.unfinished {
        expect_there(place, mark).await?;
        place.delete(id).await?;
        removed.interrupted += 1;
    }
    let mut used = BTreeSet::new();
    for backup in backups.complete.iter().filter(|backup| !ids.contains(&backup.id)) {
        let copy = place.read_catalog(backup, env).await?;
        used.extend(copy.snapshot.all_blocks().map(|block| block.path()));
    }
    let unused: Vec<(String, u64)> =
        place.blocks().await?.into_iter().filter(|(path, _)| !used.contains(path)).collect();
    let deletions = unused.into_iter().map(|(path, size)| delete(place, mark, path, size));
    let mut running = stream::iter(deletions).buffer_unordered(DELETES_IN_FLIGHT);
    while let Some(size) = running.next().await {
        removed.bytes += size?;
        removed.blocks += 1;
    }
    Ok(removed)
}

/// Deletes a block while the mark is there. Returns its size.
fn delete<'a>(
    place: &'a Place,
    mark: &'a Renewed,
    path: String,
    size: u64,
) -> BoxFuture<'a, Result<u64, Error>> {
    Box::pin(async move {
        expect_there(place, mark).await?;
        place.store.delete(&path, Intent::gc()).await?;
        Ok(size)
    })
}

/// Fails if the mark is gone: this process was suspended and taken for dead, and a new backup may rely on
/// what is deleted.
async fn expect_there(place: &Place, mark: &Renewed) -> Result<(), Error> {
    match mark.is_there().await? {
        true => Ok(()),
        false => Err(Error::Removing { url: place.url() }),
    }
}
