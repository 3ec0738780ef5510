//! Stores rows in memory and serves them in every way in which a source may serve them.

use std::collections::HashSet;
use std::sync::Arc;

use sandur_model::TenantId;
use sandur_query::{LogSource, MemoryRow, MemorySource};

use super::View;

/// Rows in memory.
#[derive(Default)]
pub struct MemoryWorld {
    rows: Vec<MemoryRow>,
}

impl MemoryWorld {
    /// Removes all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Adds rows.
    pub fn load(&mut self, rows: &[MemoryRow]) {
        self.rows.extend_from_slice(rows);
        let mut seen = HashSet::new();
        let identity = |r: &MemoryRow| (r.labels.clone(), r.timestamp, r.line.clone(), r.metadata.clone());
        let is_first: Vec<bool> = self.rows.iter().map(|row| seen.insert(identity(row))).collect();
        let mut is_first = is_first.into_iter();
        self.rows.retain(|_| is_first.next().unwrap_or(true));
    }

    /// Returns four sources: one page; small pages in any order; pages that occur twice; counts instead
    /// of rows.
    pub fn views(&self) -> Vec<View> {
        let source = || MemorySource::new(self.rows.clone());
        let view = |(name, source): (&'static str, MemorySource)| {
            let source: Arc<dyn LogSource> = Arc::new(source);
            View { name, source, tenant: TenantId::default_tenant() }
        };
        let sources = [
            ("one page", source()),
            ("small pages, shuffled", source().page_rows(2).shuffled(7)),
            ("repeated pages", source().page_rows(3).duplicated(2).shuffled(11)),
            ("counts", source().page_rows(5).with_counts()),
        ];
        sources.into_iter().map(view).collect()
    }
}
