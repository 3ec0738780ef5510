//! Marks that are renewed while their owner lives.
//!
//! Others consider an owner dead when its mark does not change for [`INTERVALS`] intervals, by their own
//! clocks, and then delete the mark. A mark that was deleted is never written again: it is renewed by a
//! conditional update.

use std::time::Duration;

use sandur_format::catalog_entry::BackupMark;
use sandur_runtime::{Env, Task};
use sandur_store::{Created, Intent, Updated};

use crate::error::Error;
use crate::place::{self, Place};

/// How often a mark is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(5);
/// Intervals of renewal after which the owner of an unchanged mark is dead.
const INTERVALS: u32 = 6;

/// A mark of this process. Dropping it ends the renewal, and the mark stays.
pub struct Renewed {
    place: Place,
    path: String,
    mark: BackupMark,
    renewal: Task<()>,
}

impl Renewed {
    /// Writes a new mark.
    pub async fn begin(place: &Place, env: &Env, path: String, mark: BackupMark) -> Result<Self, Error> {
        let (bytes, intent) = (mark.encode().into(), Intent::catalog());
        if let Created::Exists(_) = place.store.create(&path, bytes, intent).await? {
            return Err(Error::Removing { url: place.url() });
        }
        let renewal = renew(place.clone(), env.clone(), path.clone(), mark);
        let renewal = env.spawn("backup-mark", renewal);
        Ok(Self { place: place.clone(), path, mark, renewal })
    }

    /// Whether the mark still exists.
    pub async fn is_there(&self) -> Result<bool, Error> {
        Ok(self.place.read_mark(&self.path).await?.is_some_and(|mark| mark.id == self.mark.id))
    }

    /// Deletes the mark.
    pub async fn end(self) -> Result<(), Error> {
        let Self { place, path, renewal, .. } = self;
        // An update that is in progress has ended before the mark is deleted.
        renewal.abort();
        let _ = renewal.join().await;
        Ok(place.store.delete(&path, Intent::catalog()).await?)
    }
}

async fn renew(place: Place, env: Env, path: String, mut mark: BackupMark) {
    loop {
        env.sleep(RENEWED_EVERY).await;
        let renewed = match place.store.get_versioned(&path, Intent::catalog()).await {
            Ok((bytes, version)) => {
                if !place::decode(&path, &bytes, BackupMark::decode).is_ok_and(|now| now.id == mark.id) {
                    return;
                }
                mark.counter += 1;
                place.store.update(&path, mark.encode().into(), &version, Intent::catalog()).await
            }
            Err(error) if error.is_not_found() => return,
            Err(error) => Err(error),
        };
        match renewed {
            Ok(Updated::Done) => {}
            Ok(Updated::Changed(_)) => return,
            Err(error) => tracing::warn!(path, %error, "the mark could not be renewed"),
        }
    }
}

/// Waits until the owners of these marks have ended, or are dead: then their marks are deleted. Returns the
/// first one that lives.
pub async fn end_dead(place: &Place, env: &Env, paths: Vec<String>) -> Result<Option<String>, Error> {
    let mut before = Vec::new();
    for path in paths {
        before.push((place.read_mark(&path).await?, path));
    }
    for _ in 0..INTERVALS {
        if before.is_empty() {
            return Ok(None);
        }
        env.sleep(RENEWED_EVERY).await;
        let mut same = Vec::new();
        for (mark, path) in before {
            match place.read_mark(&path).await? {
                None => {}
                now if now == mark => same.push((mark, path)),
                Some(_) => return Ok(Some(path)),
            }
        }
        before = same;
    }
    for (_, path) in before {
        place.store.delete(&path, Intent::catalog()).await?;
    }
    Ok(None)
}
