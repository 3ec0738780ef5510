//! Copies the WAL of writers whose rows are not all in blocks.
//!
//! The WAL is copied before the catalog is read. A row that was acknowledged before is in an object that is
//! copied, or in one that was deleted because the row is in a block, and the catalog, read later, names this
//! block.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sandur_base::{BoxFuture, Id};
use sandur_catalog::{CatalogCopy, Snapshot};
use sandur_format::catalog_entry::{BACKUP_WAL_MAX, WalCopy, WalKind, Writer};
use sandur_format::wal_segment::FrameReader;
use sandur_store::{Intent, Store};

use crate::error::Error;
use crate::place;
use sandur_runtime::Pace;

/// Objects that are copied at a time; each may take as much memory as a WAL object has bytes.
const OBJECTS_IN_FLIGHT: usize = 4;

/// The copies of the WAL, by writer and number.
pub type Copies = BTreeMap<(Id, u64), WalCopy>;

/// The places of a copy of the WAL.
pub struct WalPlaces<'a> {
    /// The store.
    pub from: &'a Store,
    /// The store of the copies.
    pub to: &'a Store,
    /// The prefix of the copies.
    pub below: String,
    /// Limits the bytes per second.
    pub pace: &'a Pace,
}

/// Returns the prefix of the copies of an attempt. A write of an earlier attempt that arrives late cannot
/// change them.
pub fn below(backup: Id, attempt: u32) -> String {
    format!("{}/{attempt}", place::below(backup))
}

/// An object that may exist.
#[derive(Clone, Copy)]
struct Wanted {
    incarnation: Id,
    sequence: u64,
    kind: WalKind,
}

/// Copies the objects of the WAL that `snapshot` needs.
pub async fn copy_wal(places: WalPlaces<'_>, snapshot: &Snapshot) -> Result<Copies, Error> {
    let mut wanted = Vec::new();
    for writer in snapshot.writers().values().filter(|writer| !writer.is_drained()) {
        wanted.extend(wanted_of(places.from, writer).await?);
        expect_few(wanted.len() as u64)?;
    }
    let mut made = Copies::new();
    let copies = wanted.into_iter().map(|wanted| places.copy(wanted));
    let mut running = stream::iter(copies).buffer_unordered(OBJECTS_IN_FLIGHT);
    while let Some(copy) = running.next().await {
        made.extend(copy?.map(|copy| ((copy.incarnation, copy.sequence), copy)));
    }
    Ok(made)
}

/// Returns the objects of a writer that may have rows that are not in blocks, in the order of their numbers.
async fn wanted_of(store: &Store, writer: &Writer) -> Result<Vec<Wanted>, Error> {
    let Writer { incarnation, floor, wal: kind, .. } = *writer;
    let listed = store.list(&format!("wal/{incarnation}"), Intent::wal()).await?;
    let mut numbers: Vec<u64> =
        listed.iter().filter_map(|object| CatalogCopy::wal_sequence(&object.path)).collect();
    numbers.sort_unstable();
    let needed: Vec<u64> = match kind {
        // A segment that the listing lacks may exist all the same.
        WalKind::Bucket => {
            let listed_end = numbers.last().map_or(floor, |last| floor.max(last + 1));
            expect_few(listed_end - floor)?;
            let end = end_of(store, writer, listed_end).await?;
            (floor..end).collect()
        }
        // A file has the frames up to the number of the next file.
        WalKind::Local => {
            let ends_after = |n: usize| numbers.get(n + 1).is_none_or(|next| *next > floor);
            (0..numbers.len()).filter(|n| ends_after(*n)).map(|n| numbers[n]).collect()
        }
    };
    Ok(needed.into_iter().map(|sequence| Wanted { incarnation, sequence, kind }).collect())
}

/// Returns the number after the last segment of a writer. Segments that are newer than the listing are looked
/// for, until the first that does not exist: the writer acknowledges in the order of the numbers.
///
/// The end is known before the first segment is copied. Otherwise a copy that is slower than the writer would
/// never reach it.
async fn end_of(store: &Store, writer: &Writer, listed_end: u64) -> Result<u64, Error> {
    let mut end = listed_end;
    while store.head(&CatalogCopy::wal_path(writer.incarnation, end), Intent::wal()).await?.is_some() {
        end += 1;
        expect_few(end - writer.floor)?;
    }
    Ok(end)
}

/// Fails if a backup would have too many objects of the WAL.
fn expect_few(count: u64) -> Result<(), Error> {
    if count <= BACKUP_WAL_MAX as u64 {
        return Ok(());
    }
    Err(Error::TooManyWalObjects {
        count: usize::try_from(count).unwrap_or(usize::MAX),
        limit: BACKUP_WAL_MAX,
    })
}

impl WalPlaces<'_> {
    /// Copies an object; `None` if it does not exist.
    fn copy(&self, wanted: Wanted) -> BoxFuture<'_, Result<Option<WalCopy>, Error>> {
        Box::pin(self.copy_now(wanted))
    }

    async fn copy_now(&self, wanted: Wanted) -> Result<Option<WalCopy>, Error> {
        let Wanted { incarnation, sequence, kind } = wanted;
        let path = CatalogCopy::wal_path(incarnation, sequence);
        // It may be deleted because its rows are in blocks, or was never written.
        let Some(bytes) = self.from.find(&path, Intent::wal()).await? else { return Ok(None) };
        self.pace.take(bytes.len() as u64).await;
        expect_frames(self.from, &path, bytes.clone(), kind)?;
        let to = format!("{}/{path}", self.below);
        let (size, checksum) = place::write_copy(self.to, &to, bytes, Intent::wal()).await?;
        Ok(Some(WalCopy { incarnation, sequence, size, checksum }))
    }
}

/// Fails if a frame is damaged. A file may end in a frame that is being written.
fn expect_frames(store: &Store, path: &str, bytes: Bytes, kind: WalKind) -> Result<(), Error> {
    let mut reader = FrameReader::new(bytes);
    loop {
        match reader.next_frame() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(sandur_format::Error::Torn { .. }) if kind == WalKind::Local => return Ok(()),
            Err(error) => {
                let problem = format!("{error}; `sandur check` shows all damage");
                return Err(Error::Damaged { url: store.url().to_owned(), path: path.to_owned(), problem });
            }
        }
    }
}

/// Removes the copies that the state does not need: all their rows are in its blocks.
pub fn keep_needed(copies: &mut Copies, snapshot: &Snapshot) {
    copies.retain(|(incarnation, sequence), _| {
        snapshot.writer(*incarnation).is_some_and(|writer| {
            !writer.is_drained() && (writer.wal == WalKind::Local || *sequence >= writer.floor)
        })
    });
}

/// Reads a copy of the WAL and verifies it.
pub async fn read_copy(store: &Store, below: &str, copy: &WalCopy) -> Result<Bytes, Error> {
    let path = format!("{below}/{}", CatalogCopy::wal_path(copy.incarnation, copy.sequence));
    place::read_copy(store, path, (copy.size, copy.checksum), Intent::wal()).await
}
