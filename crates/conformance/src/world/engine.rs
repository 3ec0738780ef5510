//! Stores rows in a real engine: in its head, in level-0 blocks, or in merged blocks.
//!
//! Each section of a script (from one `clear` to the next) has its own tenant, so one engine serves a
//! complete script.

use sandur_model::{Dataset, LogBatch, LogBatchBuilder, SECOND_NS, TenantId};
use sandur_query::MemoryRow;
use sandur_runtime::Env;

use super::opened::OpenedEngine;
use super::{Place, View};
use crate::script::EPOCH_NS;

/// The clock begins a month after the rows, so every time window of the rows is over.
const START_NS: i64 = EPOCH_NS + 31 * 86_400 * SECOND_NS;

/// An engine, and the rows of the current section.
pub struct EngineWorld {
    opened: OpenedEngine,
    place: Place,
    tenant: u32,
    rows: Vec<MemoryRow>,
    is_settled: bool,
}

impl EngineWorld {
    /// Opens an engine on a new directory.
    pub async fn open(place: Place) -> Result<Self, String> {
        let opened = OpenedEngine::open(START_NS).await?;
        Ok(Self { opened, place, tenant: 0, rows: Vec::new(), is_settled: true })
    }

    fn tenant(&self) -> Result<TenantId, String> {
        section(self.tenant)
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.tenant += 1;
        self.rows.clear();
        self.is_settled = true;
    }

    /// Adds rows. A compacted world pushes them in [`view`](Self::view), when all are known, so that the
    /// rows of all loads are merged.
    pub async fn load(&mut self, rows: &[MemoryRow]) -> Result<(), String> {
        self.rows.extend_from_slice(rows);
        self.is_settled = false;
        match self.place {
            Place::Memory | Place::Head => self.push(rows).await,
            Place::Flushed => self.push_in_blocks(rows, 2).await,
            Place::Compacted => Ok(()),
        }
    }

    /// Moves the rows to their place and returns a view of them.
    pub async fn view(&mut self) -> Result<View, String> {
        if self.place == Place::Compacted && !self.is_settled {
            self.tenant += 1;
            self.push_in_blocks(&self.rows, 3).await?;
            self.opened.wait_for_merges(&Dataset::logs(self.tenant()?)).await?;
        }
        self.is_settled = true;
        let source = self.opened.engine().sources().logs;
        Ok(View { name: self.place.name(), source, tenant: self.tenant()? })
    }

    /// The world's clock.
    pub fn env(&self) -> &Env {
        self.opened.engine().env()
    }

    /// Stops the engine.
    pub async fn close(self) -> Result<(), String> {
        self.opened.close().await
    }

    async fn push(&self, rows: &[MemoryRow]) -> Result<(), String> {
        self.opened.push(batch(self.tenant()?, rows)).await
    }

    /// Pushes the rows in `blocks` parts and flushes after each.
    async fn push_in_blocks(&self, rows: &[MemoryRow], blocks: usize) -> Result<(), String> {
        for piece in rows.chunks(rows.len().div_ceil(blocks).max(1)) {
            self.push(piece).await?;
            self.opened.flush().await?;
        }
        Ok(())
    }
}

/// Returns the tenant of a section of a script.
pub fn section(number: u32) -> Result<TenantId, String> {
    TenantId::new(&format!("section-{number}")).map_err(|e| e.to_string())
}

/// Returns one push with the rows. Each stream occurs once, with its rows in their order of arrival.
fn batch(tenant: TenantId, rows: &[MemoryRow]) -> LogBatch {
    let mut batch = LogBatchBuilder::new(tenant);
    for row in rows {
        let metadata = row.metadata.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        batch.row_with(&row.labels, row.timestamp, &row.line, metadata, row.level);
    }
    batch.build()
}
