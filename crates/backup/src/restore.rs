//! Restores a backup into an empty store.
//!
//! The mark `restoring` comes first, then the catalog without its root, then blocks, WAL and stored rules,
//! each verified, and the root last. Boundary and witness contradict a store without the root, so a server
//! does not start before the root exists. A restore that was interrupted can be repeated: it continues with
//! the objects that are missing. The mark is removed when the store, read again, is undamaged.
//!
//! **What it never overwrites.** The catalog is written by conditional creates, and only while it has no
//! object of others. So a store that a server has used since is refused, even if the mark is still there.
//!
//! **Two stores of one origin.** No writer of the source is alive in the copy: addresses are left out and
//! each WAL is read like files, so the first start adopts it. Heartbeats and node ids of the source are not
//! copied. Incarnations and names of blocks are random, so objects that the two stores write later never
//! have the same name with different contents.

use bytes::Bytes;
use sandur_base::Id;
use sandur_catalog::{CatalogCopy, Severity, check};
use sandur_format::catalog_entry::{BackupManifest, BackupMark};
use sandur_runtime::{Env, Pace};
use sandur_store::{Created, Intent, Store};

use crate::copy::{Copier, Need};
use crate::error::Error;
use crate::place::{self, Place, RESTORING};
use crate::rules;
use crate::step::Progress;
use crate::wal;

/// A backup to restore.
pub struct Restore {
    /// The environment.
    pub env: Env,
    /// The place of the backup.
    pub place: Place,
    /// The backup.
    pub manifest: BackupManifest,
    /// The store: an empty directory or prefix.
    pub target: Store,
    /// Most bytes per second that are read from the place.
    pub max_rate: Option<u64>,
    /// Receives the steps.
    pub progress: Progress,
}

/// A restored store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its blocks.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Their rows.
    pub rows: u64,
    /// Rows of its WAL, which the first start writes to blocks.
    pub wal_rows: u64,
}

impl Place {
    /// Returns the backup with this id, or the newest one whose catalog was read at or before `at_ms`, or the
    /// newest. Without an id it fails if the manifest of a backup is unreadable: that may be the newest.
    pub async fn choose(&self, id: Option<Id>, at_ms: Option<i64>) -> Result<BackupManifest, Error> {
        if let Some(backup) = id {
            let found = self.backup(backup).await?;
            return found.ok_or(Error::NoSuchBackup { url: self.url(), backup });
        }
        let backups = self.backups().await?;
        backups.expect_readable(self, &[])?;
        let mut backups = backups.complete;
        if backups.is_empty() {
            return Err(Error::NoBackups { url: self.url() });
        }
        backups.retain(|backup| at_ms.is_none_or(|at_ms| backup.read_ms <= at_ms));
        backups.pop().ok_or(Error::NoneBefore { url: self.url() })
    }
}

impl Restore {
    /// Restores the backup. When this returns without an error, the store is complete and verified.
    pub async fn run(&self) -> Result<Restored, Error> {
        let copy = self.place.expect_whole(&self.manifest, &self.env).await?;
        self.begin().await?;
        if self.target.head(&copy.root.0, Intent::catalog()).await?.is_none() {
            self.expect_unused(&copy).await?;
            for (path, bytes) in &copy.objects {
                self.create(path, bytes).await?;
            }
            self.copy_data(&copy).await?;
            // A server that was started meanwhile, before the boundary was there, would lose its catalog.
            self.expect_unused(&copy).await?;
            let (path, bytes) = &copy.root;
            self.create(path, bytes).await?;
        }
        let restored = self.expect_undamaged().await?;
        self.target.delete(RESTORING, Intent::catalog()).await?;
        Ok(restored)
    }

    /// Marks an empty store, or finds the mark of an interrupted restore of the same backup.
    async fn begin(&self) -> Result<(), Error> {
        let (target, backup) = (Place { store: self.target.clone() }, self.manifest.id);
        let url = self.target.url().to_owned();
        match target.read_mark(RESTORING).await? {
            Some(mark) if mark.id == backup => return Ok(()),
            Some(mark) => return Err(Error::OtherRestore { url, backup: mark.id }),
            None => {}
        }
        if let Some(object) = place::some_object(&self.target).await? {
            return Err(self.not_empty(object));
        }
        let mark = BackupMark { id: backup, began_ms: self.env.now_ns() / 1_000_000, counter: 0 };
        match self.target.create(RESTORING, mark.encode().into(), Intent::catalog()).await? {
            Created::New => Ok(()),
            Created::Exists(bytes) => match place::decode(RESTORING, &bytes, BackupMark::decode)? {
                mark if mark.id == backup => Ok(()),
                mark => Err(Error::OtherRestore { url, backup: mark.id }),
            },
        }
    }

    async fn copy_data(&self, copy: &CatalogCopy) -> Result<(), Error> {
        let sizes = place::blocks(&self.target).await?;
        let needed = copy.snapshot.all_blocks().map(|block| {
            let is_there = sizes.get(&block.path()) == Some(&block.size);
            (block.clone(), if is_there { Need::Verify } else { Need::Copy })
        });
        let pace = Pace::new(self.env.clone(), self.max_rate);
        let (from, to, progress) = (self.place.store.clone(), self.target.clone(), self.progress.clone());
        let copier = Copier { env: self.env.clone(), from, to, pace, progress };
        let gone = copier.blocks(needed.collect()).await?;
        if let Some(path) = gone.into_iter().next() {
            return Err(Error::Damaged { url: self.place.url(), path, problem: "it is missing".to_owned() });
        }
        let below = wal::below(self.manifest.id, self.manifest.attempt);
        for object in &self.manifest.wal {
            let bytes = wal::read_copy(&self.place.store, &below, object).await?;
            copier.pace.take(object.size).await;
            let path = CatalogCopy::wal_path(object.incarnation, object.sequence);
            self.target.put(&path, bytes, Intent::wal()).await?;
        }
        // The index is the last of the copies: it names the others.
        for object in &self.manifest.rules {
            let bytes = rules::read_copy(&self.place.store, self.manifest.id, object).await?;
            copier.pace.take(object.size).await;
            self.target.put(&rules::path_of(&object.name), bytes, Intent::catalog()).await?;
        }
        Ok(())
    }

    /// Fails if the catalog has an object that is not of this backup, or a process has registered: the store
    /// is in use.
    async fn expect_unused(&self, copy: &CatalogCopy) -> Result<(), Error> {
        let own = |path: &str| copy.objects.iter().any(|(own, _)| own == path);
        for prefix in ["catalog", "members"] {
            let listed = self.target.list(prefix, Intent::catalog()).await?;
            if let Some(object) = listed.into_iter().find(|object| !own(&object.path)) {
                return Err(self.not_empty(object.path));
            }
        }
        Ok(())
    }

    /// Writes an object of the catalog; fails if it exists with other contents.
    async fn create(&self, path: &str, bytes: &Bytes) -> Result<(), Error> {
        match self.target.create(path, bytes.clone(), Intent::catalog()).await? {
            Created::New => Ok(()),
            Created::Exists(found) if found == *bytes => Ok(()),
            Created::Exists(_) => Err(self.not_empty(path.to_owned())),
        }
    }

    fn not_empty(&self, object: String) -> Error {
        Error::NotEmpty { url: self.target.url().to_owned(), object }
    }

    async fn expect_undamaged(&self) -> Result<Restored, Error> {
        let report = check(&self.target, &self.env).await?;
        if let Some(found) = report.findings.iter().find(|found| found.severity == Severity::Damage) {
            return Err(Error::Damaged {
                url: self.target.url().to_owned(),
                path: found.object.clone(),
                problem: found.problem.clone(),
            });
        }
        let rows = report.snapshot.all_blocks().map(|block| block.rows).sum();
        let (blocks, block_bytes, wal_rows) = (report.blocks, report.block_bytes, report.wal_rows);
        Ok(Restored { blocks, block_bytes, rows, wal_rows })
    }
}
