//! Opens a real engine on a temporary directory. Its clock is simulated, so waiting for a merge takes no
//! real time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::MIB;
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_memory::MemoryBudget;
use sandur_model::{Batch, Dataset, SECOND_NS, TimeRange};
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

/// Longest simulated time to wait for merges, in seconds.
const MERGE_SECONDS_MAX: u32 = 600;

/// An engine that flushes only on request.
pub struct OpenedEngine {
    engine: Arc<Engine>,
    _directory: TempDir,
}

impl OpenedEngine {
    /// Opens an engine on a new directory. Its clock begins at `start_ns`, nanoseconds since the epoch.
    pub async fn open(start_ns: i64) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|e| e.to_string())?;
        let engine = open(directory.path(), Env::simulated(1, start_ns)).await?;
        Ok(Self { engine, _directory: directory })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Pushes a batch. It stays in the head until the next flush.
    pub async fn push(&self, batch: impl Into<Batch>) -> Result<(), String> {
        self.engine.push(batch).await.map(drop).map_err(|e| e.to_string())
    }

    /// Flushes the head into a block that is newer than all others.
    pub async fn flush(&self) -> Result<(), String> {
        self.engine.flush().await.map_err(|e| e.to_string())?;
        // Blocks that were written in the same millisecond have no order.
        self.engine.env().sleep(Duration::from_millis(10)).await;
        Ok(())
    }

    /// Waits until no day has more than one block. Fails after `MERGE_SECONDS_MAX`.
    pub async fn wait_for_merges(&self, dataset: &Dataset) -> Result<(), String> {
        let mut days: BTreeMap<i64, usize> = BTreeMap::new();
        for _ in 0..MERGE_SECONDS_MAX {
            let snapshot = Arc::clone(&self.engine.view().snapshot);
            days.clear();
            for block in snapshot.blocks(dataset, TimeRange::ALL) {
                *days.entry(block.window.start.div_euclid(86_400 * SECOND_NS)).or_default() += 1;
            }
            if days.values().all(|blocks| *blocks <= 1) {
                return Ok(());
            }
            self.engine.env().sleep(Duration::from_secs(1)).await;
        }
        days.retain(|_, blocks| *blocks > 1);
        Err(format!("blocks were not merged within {MERGE_SECONDS_MAX} simulated seconds, by day: {days:?}"))
    }

    /// Stops the engine.
    pub async fn close(self) -> Result<(), String> {
        self.engine.shutdown().await.map_err(|e| e.to_string())
    }
}

async fn open(directory: &Path, env: Env) -> Result<Arc<Engine>, String> {
    let url = directory.to_str().ok_or("the temporary directory has no UTF-8 name")?;
    let store = Store::open(url, env.clone(), StoreOptions::default()).await.map_err(|e| e.to_string())?;
    let second = Duration::from_secs(1);
    let mut maintenance = MaintenanceOptions { interval: second, ..MaintenanceOptions::default() };
    maintenance.compaction.quiet = second;
    let write_budget = MemoryBudget::root("write", 256 * MIB);
    let flush_age = Duration::from_secs(86_400); // only `flush` flushes
    let options = EngineOptions { write_budget, flush_age, maintenance, ..EngineOptions::default() };
    Engine::open(store, env, options).await.map_err(|e| e.to_string())
}
