//! Rows in a real engine on a temporary directory: in its head, in fresh blocks, or in merged ones.
//!
//! Every section of a script (from one `clear` to the next) is a tenant of its own, so one engine serves a
//! whole script. The clock is simulated: waiting for a merge costs no time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::MIB;
use sandur_base::{Env, MemoryBudget};
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_model::{Dataset, LogBatch, LogBatchBuilder, SECOND_NS, TenantId, TimeRange};
use sandur_query::MemoryRow;
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::{Place, View};
use crate::script::EPOCH_NS;

/// The clock begins a month after the rows: every window of theirs is over.
const START_NS: i64 = EPOCH_NS + 31 * 86_400 * SECOND_NS;

/// Simulated seconds that a merge may take.
const MERGE_SECONDS_MAX: u32 = 600;

/// An engine, and the rows of the section that runs.
pub struct EngineWorld {
    engine: Arc<Engine>,
    place: Place,
    tenant: u32,
    rows: Vec<MemoryRow>,
    is_settled: bool,
    _directory: TempDir,
}

impl EngineWorld {
    /// Opens an engine on a new directory.
    pub async fn open(place: Place) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|e| e.to_string())?;
        let env = Env::simulated(1, START_NS);
        let engine = open_engine(directory.path(), env).await?;
        Ok(Self { engine, place, tenant: 0, rows: Vec::new(), is_settled: true, _directory: directory })
    }

    fn tenant(&self) -> Result<TenantId, String> {
        TenantId::new(&format!("section-{}", self.tenant)).map_err(|e| e.to_string())
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.tenant += 1;
        self.rows.clear();
        self.is_settled = true;
    }

    /// Adds rows. A compacted world pushes them when all are known, so that every load is merged.
    pub async fn load(&mut self, rows: &[MemoryRow]) -> Result<(), String> {
        self.rows.extend_from_slice(rows);
        self.is_settled = false;
        match self.place {
            Place::Memory | Place::Head => self.push(rows).await,
            Place::Flushed => self.push_in_blocks(rows, 2).await,
            Place::Compacted => Ok(()),
        }
    }

    /// The engine, once the rows are where they should be.
    pub async fn view(&mut self) -> Result<View, String> {
        if self.place == Place::Compacted && !self.is_settled {
            self.tenant += 1;
            self.push_in_blocks(&self.rows, 3).await?;
            self.wait_for_merges().await?;
        }
        self.is_settled = true;
        Ok(View { name: self.place.name(), source: self.engine.sources().logs, tenant: self.tenant()? })
    }

    /// The world's clock.
    pub fn env(&self) -> &Env {
        self.engine.env()
    }

    /// Stops the engine.
    pub async fn close(self) -> Result<(), String> {
        self.engine.shutdown().await.map_err(|e| e.to_string())
    }

    async fn push(&self, rows: &[MemoryRow]) -> Result<(), String> {
        self.engine.push(batch(self.tenant()?, rows)).await.map_err(|e| e.to_string())
    }

    /// Pushes the rows in pieces with a flush after each.
    async fn push_in_blocks(&self, rows: &[MemoryRow], blocks: usize) -> Result<(), String> {
        for piece in rows.chunks(rows.len().div_ceil(blocks).max(1)) {
            self.push(piece).await?;
            self.engine.flush().await.map_err(|e| e.to_string())?;
            // Blocks of one millisecond have no order.
            self.engine.env().sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Waits until no day has more than one block.
    async fn wait_for_merges(&self) -> Result<(), String> {
        let dataset = Dataset::logs(self.tenant()?);
        for _ in 0..MERGE_SECONDS_MAX {
            let snapshot = Arc::clone(&self.engine.view().snapshot);
            let mut days: BTreeMap<i64, usize> = BTreeMap::new();
            for block in snapshot.blocks(&dataset, TimeRange::ALL) {
                *days.entry(block.window.start.div_euclid(86_400 * SECOND_NS)).or_default() += 1;
            }
            if days.values().all(|blocks| *blocks <= 1) {
                return Ok(());
            }
            self.engine.env().sleep(Duration::from_secs(1)).await;
        }
        Err(format!("blocks were not merged within {MERGE_SECONDS_MAX} simulated seconds"))
    }
}

async fn open_engine(directory: &Path, env: Env) -> Result<Arc<Engine>, String> {
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

/// The rows as one push. A stream stands in it once, its rows in their order of arrival.
fn batch(tenant: TenantId, rows: &[MemoryRow]) -> LogBatch {
    let mut batch = LogBatchBuilder::new(tenant);
    for row in rows {
        let metadata = row.metadata.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        batch.row_with(&row.labels, row.timestamp, &row.line, metadata, row.level);
    }
    batch.build()
}
