//! Backups in a run: they are made while nodes write, merge, delete and collect, and killed at random.
//! Afterwards each complete one is restored into a store of its own, and its rows are counted.
//!
//! **Invariants.** A backup that was reported as complete is sound, and so is the store that is restored from
//! it. The store has every row that was acknowledged before the backup began and not deleted before it
//! ended, exactly once, and no row that was deleted before it began. This also holds after another backup
//! was removed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sandur_backup::{Backup, Created, Error, Place, Restore, Step, remove};
use sandur_base::Id;
use sandur_format::catalog_entry::BackupManifest;
use sandur_model::Signal;
use sandur_runtime::{Env, Task};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use crate::node::{Node, Shape};
use crate::oracle::{Oracle, Settled};

/// How long a restored store is left alone before it is queried again: dead writers are adopted.
const SETTLE: Duration = Duration::from_secs(180);

/// A backup in progress.
struct Running {
    began: Settled,
    task: Task<Result<Created, Error>>,
    ended: Arc<Mutex<Option<Settled>>>,
}

/// A complete backup.
struct Complete {
    manifest: BackupManifest,
    began: Settled,
    ended: Settled,
}

/// The figures of the backups of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupCounts {
    /// Backups that were started.
    pub started: usize,
    /// Backups that were killed.
    pub killed: usize,
    /// Backups that failed with an error.
    pub failed: usize,
    /// Backups that were complete.
    pub complete: usize,
    /// Backups that needed several rounds, because blocks were deleted before they were copied.
    pub overtaken: usize,
    /// Blocks that were copied, of all blocks of complete backups.
    pub copied: u64,
    /// Blocks of complete backups.
    pub blocks: u64,
}

/// The backups of a run.
pub struct Backups {
    env: Env,
    world: FaultStore,
    vault: FaultStore,
    oracle: Arc<Mutex<Oracle>>,
    running: Option<Running>,
    complete: Vec<Complete>,
    /// The figures so far.
    pub counts: BackupCounts,
}

impl Backups {
    /// Begins without a backup.
    pub fn new(seed: u64, env: &Env, world: &FaultStore, oracle: &Arc<Mutex<Oracle>>) -> Self {
        let plan = match env.random_below(2) {
            0 => FaultPlan::latency_only(),
            // Stores list what they have.
            _ => FaultPlan { stale_list: 0.0, delayed_delete: 0.0, ..FaultPlan::some_faults() },
        };
        let vault = FaultStore::new(env.clone(), seed ^ 0xBAC0, plan);
        Self {
            env: env.clone(),
            world: world.clone(),
            vault,
            oracle: Arc::clone(oracle),
            running: None,
            complete: Vec::new(),
            counts: BackupCounts::default(),
        }
    }

    fn store(&self, world: &FaultStore, name: &str) -> Store {
        Store::from_fault_store(world.client(name), self.env.clone(), StoreOptions::default())
    }

    fn settled(&self) -> Settled {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner).settled()
    }

    /// Starts a backup, kills the one in progress, or leaves it alone.
    pub async fn act(&mut self) -> Result<()> {
        self.collect(false).await?;
        match (&self.running, self.env.random_below(4)) {
            (None, 0..=2) => self.start(),
            (Some(_), 0) => {
                self.running = None;
                self.counts.killed += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self) {
        self.counts.started += 1;
        let name = format!("backup-{}", self.counts.started);
        let (source, vault) = (self.store(&self.world, &name), self.store(&self.vault, &name));
        let env = self.env.clone();
        // Slow ones take minutes, so that blocks are merged and deleted meanwhile.
        let max_rate = [None, Some(2_000), Some(200)][self.env.random_below(3) as usize];
        let (oracle, ended) = (Arc::clone(&self.oracle), Arc::<Mutex<Option<Settled>>>::default());
        let at_end = Arc::clone(&ended);
        let task = self.env.spawn("backup", async move {
            let place = Place::open_or_create(vault, &env).await?;
            let progress = Arc::new(|_: Step| ());
            let made = Backup { env, source, place, max_rate, progress }.run().await;
            let settled = oracle.lock().unwrap_or_else(PoisonError::into_inner).settled();
            *at_end.lock().unwrap_or_else(PoisonError::into_inner) = Some(settled);
            made
        });
        self.running = Some(Running { began: self.settled(), task, ended });
    }

    /// Takes the backup in progress if it has ended, or waits for it.
    async fn collect(&mut self, wait: bool) -> Result<()> {
        if !self.running.as_ref().is_some_and(|running| wait || running.task.is_finished()) {
            return Ok(());
        }
        let Some(Running { began, task, ended }) = self.running.take() else { return Ok(()) };
        match task.join().await? {
            Ok(created) => {
                let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
                self.counts.complete += 1;
                self.counts.overtaken += usize::from(created.rounds > 1);
                self.counts.copied += created.new_blocks;
                self.counts.blocks += created.manifest.blocks;
                self.complete.push(Complete { manifest: created.manifest, began, ended });
            }
            // A store may fail for longer than requests are repeated.
            Err(Error::Store(_) | Error::Catalog(_) | Error::Overtaken { .. } | Error::NewWriters { .. }) => {
                self.counts.failed += 1;
            }
            Err(error) => bail!("a backup failed although no object is damaged: {error}"),
        }
        Ok(())
    }

    /// Makes a last backup, removes one of the others, and restores all that are left.
    pub async fn end(&mut self, shape: Shape) -> Result<()> {
        self.collect(true).await?;
        self.vault.quiet(true);
        self.start();
        self.collect(true).await?;
        ensure!(self.counts.complete > 0, "no backup is complete although the stores work");
        let place = Place::open(self.store(&self.vault, "end")).await?;
        if self.complete.len() > 1 {
            let removed = self.complete.remove(self.env.random_below(self.complete.len() as u64) as usize);
            let removed = remove(&place, &self.env, &[removed.manifest.id]).await?;
            ensure!(removed.backups == 1, "{removed:?}");
        }
        let known: Vec<Id> = place.backups().await?.complete.iter().map(|manifest| manifest.id).collect();
        for number in 0..self.complete.len() {
            let id = self.complete[number].manifest.id;
            ensure!(known.contains(&id), "backup {id} was complete and is not listed");
            self.restore(&place, number, shape).await.with_context(|| format!("backup {number} ({id})"))?;
        }
        Ok(())
    }

    async fn restore(&self, place: &Place, number: usize, shape: Shape) -> Result<()> {
        let Complete { manifest, began, ended } = &self.complete[number];
        let progress: sandur_backup::Progress = Arc::new(|_: Step| ());
        place.verify(manifest, &self.env, &progress, &mut BTreeSet::new()).await?;
        let copy = FaultStore::new(self.env.clone(), number as u64, FaultPlan::none());
        let restore = Restore {
            env: self.env.clone(),
            place: place.clone(),
            manifest: manifest.clone(),
            target: self.store(&copy, "restore"),
            max_rate: None,
            progress,
        };
        if !self.interrupt(&restore).await? {
            restore.run().await?;
        }
        let refused = restore.run().await;
        ensure!(matches!(refused, Err(Error::NotEmpty { .. })), "restored over a store: {refused:?}");
        let node = Node::start("restored-1-1".to_owned(), &self.env, &copy, shape).await?;
        for (moment, pause) in [("at the start", Duration::ZERO), ("after adoption", SETTLE)] {
            self.env.sleep(pause).await;
            for signal in Signal::ALL {
                let found = node.rows(signal).await?;
                let oracle = self.oracle.lock().unwrap_or_else(PoisonError::into_inner);
                oracle.check_copy("the restored store", signal, &found, (began, ended)).context(moment)?;
            }
        }
        node.engine.flush().await?;
        drop(node);
        let report = sandur_catalog::check(&self.store(&copy, "check"), &self.env).await?;
        ensure!(report.is_undamaged(), "the restored store is damaged: {:?}", report.findings);
        Ok(())
    }

    /// Sometimes lets a restore begin and drops it, as `kill -9` does. Returns whether it was complete.
    async fn interrupt(&self, restore: &Restore) -> Result<bool> {
        if self.env.random_below(2) == 0 {
            return Ok(false);
        }
        let mut steps = self.env.random_below(60);
        let mut running = std::pin::pin!(restore.run());
        let outcome = std::future::poll_fn(|context| {
            steps = steps.saturating_sub(1);
            match running.as_mut().poll(context) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending if steps == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        Ok(outcome.await.transpose()?.is_some())
    }
}
