//! Makes a backup of a store that may be in use.
//!
//! A round copies the WAL, reads the catalog, and copies the blocks that the catalog names and the place
//! lacks. Blocks are immutable and their names are never used again, so a copy that was made in any round is
//! right in all later ones. If a block was merged and deleted before it was copied, the next round reads the
//! catalog again and copies what replaced it. The last round found every block. So the backup depends
//! neither on the time that the source keeps removed blocks nor on any clock, and the source is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogCopy, CatalogOptions, PositionCheck, Snapshot};
use sandur_format::catalog_entry::{BackupManifest, BackupMark, BlockMeta};
use sandur_runtime::{Env, Pace};
use sandur_store::{Intent, Store};

use crate::copy::{Copier, Need};
use crate::error::Error;
use crate::mark::Renewed;
use crate::place::{self, Backups, Place};
use crate::rules;
use crate::step::{Progress, Step};
use crate::wal::{self, Copies, WalPlaces};

/// Most rounds of a backup. Each round only copies what was merged during the one before, so a few suffice
/// unless copying is slower than merging.
const ROUNDS_MAX: u32 = 16;
/// Most times that the WAL is copied again because new processes have registered meanwhile.
const NEW_WRITERS_MAX: u32 = 16;

/// A backup to make.
pub struct Backup {
    /// The environment.
    pub env: Env,
    /// The store, which is only read.
    pub source: Store,
    /// The place that gets the backup.
    pub place: Place,
    /// Most bytes per second that are read from the source.
    pub max_rate: Option<u64>,
    /// Receives the steps.
    pub progress: Progress,
}

/// A complete backup.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its description.
    pub manifest: BackupManifest,
    /// Blocks that were copied or verified; the others were in an earlier backup.
    pub new_blocks: u64,
    /// Bytes of these blocks.
    pub new_bytes: u64,
    /// Rounds that it took.
    pub rounds: u32,
}

impl Backup {
    /// Makes the backup. When this returns without an error, it is complete and verified.
    pub async fn run(&self) -> Result<Created, Error> {
        let began_ms = self.now_ms();
        let catalog = self.open_source().await?;
        let id = self.env.new_id();
        let running = self.begin(id, began_ms).await?;
        let made = self.make(&catalog, (id, began_ms), &running).await;
        if made.is_err() {
            // Blocks stay for the next backup. If this fails too, a removal deletes the rest.
            let _ = self.place.delete(id).await;
        }
        let ended = running.end().await;
        let created = made?;
        ended?;
        Ok(created)
    }

    /// Marks the backup as in progress; fails while backups are removed.
    async fn begin(&self, id: Id, began_ms: i64) -> Result<Renewed, Error> {
        let mark = BackupMark { id, began_ms, counter: 0 };
        let running = Renewed::begin(&self.place, &self.env, place::running_of(id), mark).await?;
        if self.place.read_mark(place::REMOVING).await?.is_some() {
            running.end().await?;
            return Err(Error::Removing { url: self.place.url() });
        }
        Ok(running)
    }

    fn now_ms(&self) -> i64 {
        self.env.now_ns() / 1_000_000
    }

    async fn open_source(&self) -> Result<Catalog, Error> {
        let catalog = Catalog::open(self.source.clone(), self.env.clone(), CatalogOptions::default()).await?;
        if catalog.snapshot().number() == 0 {
            return Err(Error::NoStore { url: self.source.url().to_owned() });
        }
        Ok(catalog)
    }

    /// Fails if the place has backups of another store.
    fn expect_own(&self, catalog: &Catalog, backups: &[BackupManifest]) -> Result<(), Error> {
        let Some(newest) = backups.last() else { return Ok(()) };
        match catalog.snapshot().compare(newest.at) {
            PositionCheck::Beyond | PositionCheck::Differs => {
                let (url, number) = (self.place.url(), newest.at.number);
                Err(Error::OtherStore { url, backup: newest.id, number })
            }
            PositionCheck::Contained | PositionCheck::Unknown => Ok(()),
        }
    }

    async fn make(
        &self,
        catalog: &Catalog,
        (id, began_ms): (Id, i64),
        running: &Renewed,
    ) -> Result<Created, Error> {
        let below = place::below(id);
        let Backups { complete, unreadable, .. } = self.place.backups().await?;
        for (backup, error) in unreadable {
            tracing::warn!(%backup, %error, "an earlier backup cannot be read; not used");
        }
        self.expect_own(catalog, &complete)?;
        let verified = Verified::of(&self.place, &complete, &self.env).await?;
        let copied = self.copy(catalog, (id, verified)).await?;
        let pace = Pace::new(self.env.clone(), self.max_rate);
        let rules = rules::copy_rules((&self.source, &self.place.store), id, &pace).await?;
        let catalog_copy = CatalogCopy::of(copied.snapshot.for_copy(), &self.env).await?;
        let root = crc32c::crc32c(&catalog_copy.root.1);
        let mut objects = catalog_copy.objects.clone();
        objects.push(catalog_copy.root.clone());
        for (path, bytes) in objects {
            self.place.store.put(&format!("{below}/{path}"), bytes, Intent::catalog()).await?;
        }
        let snapshot = &catalog_copy.snapshot;
        let manifest = BackupManifest {
            id,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            source: self.source.url().chars().take(256).collect(),
            began_ms,
            read_ms: copied.read_ms,
            ended_ms: self.now_ms(),
            at: snapshot.position(),
            blocks: snapshot.block_count() as u64,
            block_bytes: snapshot.all_blocks().map(|block| block.size).sum(),
            rows: snapshot.all_blocks().map(|block| block.rows).sum(),
            root,
            attempt: copied.wal.attempt,
            wal: copied.wal.copies.into_values().collect(),
            rules,
        };
        self.place.expect_whole(&manifest, &self.env).await?;
        if !running.is_there().await? {
            return Err(Error::TakenForDead { backup: id });
        }
        self.place.complete(&manifest).await?;
        // A removal that took this backup for dead removed the mark before it listed the manifests.
        if !running.is_there().await? {
            return Err(Error::TakenForDead { backup: id });
        }
        self.delete_earlier(id, manifest.attempt).await;
        let Totals { blocks: new_blocks, bytes: new_bytes, rounds } = copied.totals;
        Ok(Created { manifest, new_blocks, new_bytes, rounds })
    }

    /// Deletes the copies of the WAL of earlier attempts. What fails stays until the backup is removed.
    async fn delete_earlier(&self, id: Id, attempt: u32) {
        for earlier in 1..attempt {
            if let Err(error) = self.place.delete_below(&wal::below(id, earlier)).await {
                tracing::debug!(earlier, %error, "copies of an earlier attempt stay");
            }
        }
    }

    /// Copies WAL and blocks until no block is missing.
    async fn copy(&self, catalog: &Catalog, (id, mut verified): (Id, Verified)) -> Result<Copied, Error> {
        let pace = Pace::new(self.env.clone(), self.max_rate);
        let wal_pace = Pace::new(self.env.clone(), self.max_rate);
        let (from, to, progress) = (self.source.clone(), self.place.store.clone(), self.progress.clone());
        let copier = Copier { env: self.env.clone(), from, to, pace, progress };
        let mut totals = Totals::default();
        let mut wal = Wal { backup: id, attempt: 0, copies: Copies::new() };
        let mut gone: Vec<String> = Vec::new();
        for round in 1..=ROUNDS_MAX {
            totals.rounds = round;
            let (snapshot, read_ms) = self.copy_wal(catalog, &mut wal, &wal_pace).await?;
            self.expect_removed(&snapshot, &gone)?;
            let needed = verified.needed(&snapshot);
            gone = copier.blocks(needed.clone()).await?;
            let missing: BTreeSet<&String> = gone.iter().collect();
            for (block, _) in needed.iter().filter(|(block, _)| !missing.contains(&block.path())) {
                totals.blocks += 1;
                totals.bytes += block.size;
                verified.ids.insert(block.id);
            }
            if gone.is_empty() {
                wal::keep_needed(&mut wal.copies, &snapshot);
                return Ok(Copied { snapshot, wal, read_ms, totals });
            }
            (self.progress)(Step::Again { gone: gone.len() });
        }
        let path = gone.pop().unwrap_or_default();
        Err(Error::Overtaken { rounds: ROUNDS_MAX, path })
    }

    /// Copies the WAL, and then reads the catalog. Returns its state and when it was read.
    async fn copy_wal(
        &self,
        catalog: &Catalog,
        wal: &mut Wal,
        pace: &Pace,
    ) -> Result<(Arc<Snapshot>, i64), Error> {
        let mut before = catalog.refresh().await?;
        for _ in 0..NEW_WRITERS_MAX {
            wal.attempt += 1;
            let below = wal::below(wal.backup, wal.attempt);
            let places = WalPlaces { from: &self.source, to: &self.place.store, below, pace };
            wal.copies = wal::copy_wal(places, &before).await?;
            let read_ms = self.now_ms();
            let snapshot = catalog.refresh().await?;
            // A new writer may have taken rows of a dead one into its own WAL.
            if snapshot.writers().keys().all(|writer| before.writer(*writer).is_some()) {
                return Ok((snapshot, read_ms));
            }
            before = snapshot;
        }
        Err(Error::NewWriters { rounds: NEW_WRITERS_MAX })
    }

    /// Fails if the catalog still names a block that did not exist: it was deleted without the catalog.
    fn expect_removed(&self, snapshot: &Snapshot, gone: &[String]) -> Result<(), Error> {
        if gone.is_empty() {
            return Ok(());
        }
        let gone: BTreeSet<&str> = gone.iter().map(String::as_str).collect();
        match snapshot.all_blocks().map(|block| block.path()).find(|path| gone.contains(path.as_str())) {
            Some(path) => Err(Error::Missing { url: self.source.url().to_owned(), path }),
            None => Ok(()),
        }
    }
}

struct Copied {
    snapshot: Arc<Snapshot>,
    wal: Wal,
    read_ms: i64,
    totals: Totals,
}

/// The copies of the WAL of a backup.
struct Wal {
    backup: Id,
    attempt: u32,
    copies: Copies,
}

#[derive(Default)]
struct Totals {
    blocks: u64,
    bytes: u64,
    rounds: u32,
}

/// Which blocks the place has.
struct Verified {
    /// Verified ones: those of the newest backup, and those that this backup copied.
    ids: BTreeSet<Id>,
    /// Sizes of all objects below `blocks/` at the start.
    sizes: BTreeMap<String, u64>,
}

impl Verified {
    async fn of(place: &Place, backups: &[BackupManifest], env: &Env) -> Result<Self, Error> {
        let sizes = place.blocks().await?;
        let mut ids = BTreeSet::new();
        for backup in backups.iter().rev() {
            match place.read_catalog(backup, env).await {
                Ok(copy) => {
                    let there = copy.snapshot.all_blocks().filter(|b| sizes.get(&b.path()) == Some(&b.size));
                    ids.extend(there.map(|block| block.id));
                    break;
                }
                Err(error) => {
                    tracing::warn!(backup = %backup.id, %error, "an earlier backup is damaged; not used");
                }
            }
        }
        Ok(Self { ids, sizes })
    }

    fn needed(&self, snapshot: &Snapshot) -> Vec<(Arc<BlockMeta>, Need)> {
        let unverified = snapshot.all_blocks().filter(|block| !self.ids.contains(&block.id));
        unverified
            .map(|block| {
                let is_there = self.sizes.get(&block.path()) == Some(&block.size);
                (Arc::clone(block), if is_there { Need::Verify } else { Need::Copy })
            })
            .collect()
    }
}
