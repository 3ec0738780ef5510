//! The place of backups: its marks, its manifests and its blocks.
//!
//! | object | what |
//! |---|---|
//! | `place` | mark: here are backups |
//! | `blocks/…` | blocks, under their names in the source |
//! | `backups/<id>/manifest` | the backup is complete |
//! | `backups/<id>/catalog/…` | the catalog of a backup |
//! | `backups/<id>/<attempt>/wal/…` | its WAL |
//! | `backups/<id>/rules/…` | its stored rules |
//! | `running/<id>` | mark: the backup is in progress |
//! | `removing` | mark: backups are being removed |
//!
//! **A backup and a removal at the same time.** Each writes its mark before it looks for the mark of the
//! other, so at least one of them finds the other. A backup that finds a removal fails. A removal that finds
//! a backup waits for its mark to change, and removes the mark if it does not. A backup looks for its own
//! mark after it has written the manifest; if the mark is gone, it deletes the manifest and fails.

use std::collections::BTreeMap;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::catalog_entry::{BackupManifest, BackupMark};
use sandur_runtime::Env;
use sandur_store::{Created, Intent, PROBES, Store};

use crate::error::Error;

const MARK: &str = "place";
const BACKUPS: &str = "backups";
const RUNNING: &str = "running";
pub(crate) const REMOVING: &str = "removing";
/// The mark of a restore in progress, in the store that it restores.
pub(crate) const RESTORING: &str = "restoring";
/// Prefix of blocks, in a place as in a store.
pub(crate) const BLOCKS: &str = "blocks";

/// The backups of a place.
#[derive(Clone, Debug, Default)]
pub struct Backups {
    /// The manifests of the complete ones, oldest first.
    pub complete: Vec<BackupManifest>,
    /// Those whose manifest cannot be decoded, and why.
    pub unreadable: Vec<(Id, Error)>,
    /// Those without a manifest: in progress, or interrupted.
    pub(crate) unfinished: Vec<Id>,
}

impl Backups {
    /// Fails if the contents of a backup are unknown, unless it is one of these.
    pub(crate) fn expect_readable(&self, place: &Place, except: &[Id]) -> Result<(), Error> {
        match self.unreadable.iter().find(|(id, _)| !except.contains(id)) {
            Some((backup, error)) => {
                Err(Error::Unknown { url: place.url(), backup: *backup, problem: error.to_string() })
            }
            None => Ok(()),
        }
    }
}

/// A directory or prefix with backups.
#[derive(Clone)]
pub struct Place {
    pub(crate) store: Store,
}

impl Place {
    /// Opens the place for backups. An empty one is marked.
    pub async fn open_or_create(store: Store, env: &Env) -> Result<Self, Error> {
        let place = Self { store };
        if place.is_marked().await? {
            return Ok(place);
        }
        if let Some(object) = some_object(&place.store).await? {
            return Err(Error::NotAPlace { url: place.url(), object });
        }
        let mark = BackupMark { id: env.new_id(), began_ms: env.now_ns() / 1_000_000, counter: 0 };
        // If another backup marked it at the same time, its mark serves as well.
        place.store.create(MARK, mark.encode().into(), Intent::catalog()).await?;
        Ok(place)
    }

    /// Opens a place that has backups.
    pub async fn open(store: Store) -> Result<Self, Error> {
        let place = Self { store };
        match place.is_marked().await? {
            true => Ok(place),
            false => Err(Error::NoBackups { url: place.url() }),
        }
    }

    pub(crate) fn url(&self) -> String {
        self.store.url().to_owned()
    }

    async fn is_marked(&self) -> Result<bool, Error> {
        Ok(self.read_mark(MARK).await?.is_some())
    }

    /// Reads a mark; `None` if there is none.
    pub(crate) async fn read_mark(&self, path: &str) -> Result<Option<BackupMark>, Error> {
        let found = self.store.find(path, Intent::catalog()).await?;
        found.map(|bytes| decode(path, &bytes, BackupMark::decode)).transpose()
    }

    /// Returns all backups.
    pub async fn backups(&self) -> Result<Backups, Error> {
        let mut backups = Backups::default();
        let names = self.store.list_prefixes(BACKUPS, Intent::catalog()).await?;
        for id in names.iter().filter_map(|name| name.parse().ok()) {
            match self.backup(id).await {
                Ok(Some(manifest)) => backups.complete.push(manifest),
                Ok(None) => backups.unfinished.push(id),
                Err(error @ Error::Unreadable { .. }) => backups.unreadable.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        backups.complete.sort_by_key(|manifest| (manifest.at.number, manifest.read_ms, manifest.id));
        Ok(backups)
    }

    /// Whether a backup has a manifest.
    pub(crate) async fn has(&self, id: Id) -> Result<bool, Error> {
        Ok(self.store.head(&manifest_of(id), Intent::catalog()).await?.is_some())
    }

    /// Returns the manifest of a backup; `None` if it is not complete or does not exist.
    pub async fn backup(&self, id: Id) -> Result<Option<BackupManifest>, Error> {
        let path = manifest_of(id);
        let found = self.store.find(&path, Intent::catalog()).await?;
        found.map(|bytes| decode(&path, &bytes, BackupManifest::decode)).transpose()
    }

    /// Returns the paths of the marks of backups in progress.
    pub(crate) async fn running(&self) -> Result<Vec<String>, Error> {
        let listed = self.store.list(RUNNING, Intent::catalog()).await?;
        Ok(listed.into_iter().map(|object| object.path).collect())
    }

    /// Writes a manifest under a new name. From then on the backup exists.
    pub(crate) async fn complete(&self, manifest: &BackupManifest) -> Result<(), Error> {
        let (path, bytes) = (manifest_of(manifest.id), Bytes::from(manifest.encode()?));
        match self.store.create(&path, bytes, Intent::catalog()).await? {
            Created::New => Ok(()),
            Created::Exists(_) => {
                let problem = "exists already, with other contents".to_owned();
                Err(Error::Damaged { url: self.url(), path, problem })
            }
        }
    }

    /// Deletes everything that only this backup has, the manifest first.
    pub(crate) async fn delete(&self, id: Id) -> Result<(), Error> {
        self.store.delete(&manifest_of(id), Intent::gc()).await?;
        self.delete_below(&below(id)).await
    }

    /// Deletes all objects below a prefix.
    pub(crate) async fn delete_below(&self, prefix: &str) -> Result<(), Error> {
        for object in self.store.list(prefix, Intent::gc()).await? {
            self.store.delete(&object.path, Intent::gc()).await?;
        }
        Ok(())
    }

    /// Returns the sizes of all blocks by path.
    pub(crate) async fn blocks(&self) -> Result<BTreeMap<String, u64>, Error> {
        blocks(&self.store).await
    }
}

/// Returns the sizes of all blocks of a store or place by path.
pub(crate) async fn blocks(store: &Store) -> Result<BTreeMap<String, u64>, Error> {
    let mut sizes = BTreeMap::new();
    for tenant in store.list_prefixes(BLOCKS, Intent::gc()).await? {
        let listed = store.list(&format!("{BLOCKS}/{tenant}"), Intent::gc()).await?;
        sizes.extend(listed.into_iter().map(|object| (object.path, object.size)));
    }
    Ok(sizes)
}

/// Returns some object of a store; `None` if it is empty. Objects of the probe at the start of a process that
/// was killed do not count.
pub(crate) async fn some_object(store: &Store) -> Result<Option<String>, Error> {
    match store.list("", Intent::catalog()).await {
        Ok(objects) => {
            let is_probe = |path: &str| path.split_once('/').is_some_and(|(first, _)| first == PROBES);
            Ok(objects.into_iter().map(|object| object.path).find(|path| !is_probe(path)))
        }
        // It has more objects than a listing may have.
        Err(sandur_store::Error::TooMany { .. }) => Ok(Some("many objects".to_owned())),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn decode<T>(
    path: &str,
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, sandur_format::Error>,
) -> Result<T, Error> {
    decode(bytes).map_err(|reason| Error::Unreadable { path: path.to_owned(), reason })
}

/// Writes a copy. Returns what the manifest says of it: its size and its checksum.
pub(crate) async fn write_copy(
    store: &Store,
    path: &str,
    bytes: Bytes,
    intent: Intent,
) -> Result<(u64, u32), Error> {
    let (size, checksum) = (bytes.len() as u64, crc32c::crc32c(&bytes));
    store.put(path, bytes, intent).await?;
    Ok((size, checksum))
}

/// Reads a copy and verifies it: the manifest has its size and its checksum.
pub(crate) async fn read_copy(
    store: &Store,
    path: String,
    (size, checksum): (u64, u32),
    intent: Intent,
) -> Result<Bytes, Error> {
    let (found, url) = (store.get(&path, intent).await, store.url().to_owned());
    let problem = match found {
        Ok(bytes) if bytes.len() as u64 != size => {
            format!("it has {} bytes, the manifest says {size}", bytes.len())
        }
        Ok(bytes) if crc32c::crc32c(&bytes) != checksum => {
            "its checksum is not that of the manifest".to_owned()
        }
        Ok(bytes) => return Ok(bytes),
        Err(error) if error.is_not_found() => "it is missing".to_owned(),
        Err(error) => return Err(error.into()),
    };
    Err(Error::Damaged { url, path, problem })
}

/// The prefix of what only this backup has.
pub(crate) fn below(id: Id) -> String {
    format!("{BACKUPS}/{id}")
}

pub(crate) fn manifest_of(id: Id) -> String {
    format!("{BACKUPS}/{id}/manifest")
}

pub(crate) fn running_of(id: Id) -> String {
    format!("{RUNNING}/{id}")
}
