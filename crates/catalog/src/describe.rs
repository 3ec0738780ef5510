//! A readable description of the catalog, for `sandur inspect catalog`.

use std::collections::BTreeMap;
use std::fmt;

use sandur_base::units::ByteSize;
use sandur_format::catalog_entry::{BlockForms, Writer, day_text};
use sandur_model::Dataset;

use crate::catalog::Catalog;
use crate::snapshot::Snapshot;

/// A summary of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of the newest entry.
    pub number: u64,
    /// The boundary as last read; entries up to it may be gone.
    pub boundary: u64,
    /// The newest checkpoint that this process has seen; 0 for none.
    pub checkpoint: u64,
    /// Sums per dataset and level of compaction.
    pub datasets: BTreeMap<Dataset, BTreeMap<u8, BlockSums>>,
    /// Sums of removed blocks whose objects are not deleted yet.
    pub removed: BlockSums,
    /// Registered incarnations.
    pub writers: Vec<Writer>,
    /// Number of remembered sessions.
    pub sessions: usize,
    /// The versions of blocks that processes may write.
    pub forms: BlockForms,
}

/// Sums over blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSums {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of log entries or samples.
    pub rows: u64,
    /// Bytes before compression.
    pub raw_bytes: u64,
    /// Bytes of the objects.
    pub size: u64,
    /// First and last UTC day of the blocks' windows, in days since the epoch.
    pub days: Option<(i64, i64)>,
}

impl BlockSums {
    fn add(&mut self, block: &sandur_format::catalog_entry::BlockMeta) {
        self.blocks += 1;
        self.rows = self.rows.saturating_add(block.rows);
        self.raw_bytes = self.raw_bytes.saturating_add(block.raw_bytes);
        self.size = self.size.saturating_add(block.size);
        let day = block.day();
        let (first, last) = self.days.unwrap_or((day, day));
        self.days = Some((first.min(day), last.max(day)));
    }
}

impl Catalog {
    /// Returns a summary of the newest snapshot.
    pub fn describe(&self) -> Description {
        let (boundary, checkpoint) = self.known_truncation();
        Description { boundary, checkpoint, ..Description::of(&self.snapshot()) }
    }
}

impl Description {
    /// Returns a summary of a snapshot; boundary and checkpoint are not part of it and are 0.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut datasets: BTreeMap<Dataset, BTreeMap<u8, BlockSums>> = BTreeMap::new();
        for block in snapshot.all_blocks() {
            let levels = datasets.entry(block.dataset.clone()).or_default();
            levels.entry(block.level).or_default().add(block);
        }
        let mut removed = BlockSums::default();
        snapshot.removed().for_each(|r| removed.add(&r.meta));
        Self {
            number: snapshot.number(),
            boundary: 0,
            checkpoint: 0,
            datasets,
            removed,
            writers: snapshot.writers().values().cloned().collect(),
            sessions: snapshot.session_count(),
            forms: snapshot.forms(),
        }
    }
}

impl fmt::Display for BlockSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, raw) = (ByteSize(self.size), ByteSize(self.raw_bytes));
        write!(f, "{} blocks, {} rows, {size} of {raw} raw", self.blocks, self.rows)?;
        match self.days {
            Some((first, last)) => write!(f, ", {} to {}", day_text(first), day_text(last)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "entry       {}", self.number)?;
        writeln!(f, "checkpoint  {}", self.checkpoint)?;
        writeln!(f, "boundary    {}", self.boundary)?;
        writeln!(f, "sessions    {}", self.sessions)?;
        writeln!(f, "removed     {}", self.removed)?;
        writeln!(f, "written     {}", self.forms)?;
        for writer in &self.writers {
            let state = match writer.fence {
                Some(fence) if writer.is_drained() => format!("sealed at {fence}, drained"),
                Some(fence) => format!("sealed at {fence}"),
                None => "live".to_owned(),
            };
            let Writer { incarnation, host, address, floor, wal, reads, .. } = writer;
            let reads = reads.unwrap_or(BlockForms::UNSTATED);
            write!(f, "writer      {incarnation}  {host} {address}  {wal:?} WAL from {floor}, {state}")?;
            write!(f, ", reads {reads}")?;
            if let Some(node) = &writer.node {
                write!(f, ", node {} ({})", node.id, node.phase.name())?;
            }
            if !writer.rules.is_empty() {
                write!(f, ", evaluates {} shards of the rules", writer.rules)?;
            }
            writeln!(f)?;
        }
        for (dataset, levels) in &self.datasets {
            let (tenant, signal) = (&dataset.tenant, dataset.signal);
            for (level, sums) in levels {
                writeln!(f, "tenant      {tenant}  {signal}  level {level}: {sums}")?;
            }
        }
        Ok(())
    }
}
