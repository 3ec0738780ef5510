//! The device of the flash tier with what all its users need: the layout, the health, the counters and
//! the read buffers.
//!
//! Invariant: every write to the device goes through [`Disk::write`], which observes and counts it. The
//! only exception is the probe.

use std::io;
use std::sync::Arc;

use sandur_runtime::Env;

use super::counters::Counters;
use super::format::{Root, bytes_at, u64_at};
use super::health::Watch;
use super::layout::Layout;
use super::options::FlashOptions;
use crate::device::{BufferPool, Device};
use crate::unix_seconds::unix_seconds;

/// Bytes of idle buffers kept for reuse.
const RETAINED_BUFFER_BYTES: u64 = 16 << 20;

/// The device and its context. See the module.
pub(super) struct Disk {
    pub env: Env,
    pub device: Arc<dyn Device>,
    pub layout: Layout,
    pub options: FlashOptions,
    pub device_id: [u8; 16],
    pub hash_seed: u64,
    pub watch: Watch,
    pub counters: Counters,
    pub read_pool: BufferPool,
}

impl Disk {
    /// The device of a run that recovers the run of `root`, or starts empty without one.
    pub fn new(
        env: &Env,
        device: Arc<dyn Device>,
        layout: Layout,
        options: FlashOptions,
        root: Option<&Root>,
    ) -> Self {
        let random = [env.random_u64().to_le_bytes(), env.random_u64().to_le_bytes()].concat();
        Self {
            env: env.clone(),
            device,
            layout,
            device_id: root.map_or_else(|| bytes_at(&random, 0), |root| root.device),
            hash_seed: root.map_or_else(|| env.random_u64(), |root| root.hash_seed),
            watch: Watch::new(),
            counters: Counters::default(),
            read_pool: BufferPool::new(options.read_buffer_bytes, RETAINED_BUFFER_BYTES),
            options,
        }
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u32 {
        unix_seconds(&self.env)
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.hash_seed)
    }

    /// Writes `bytes` and counts them.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _under_way = self.watch.write_begins();
        self.device.write_at(offset, bytes)?;
        self.counters.bytes_written.add(bytes.len() as u64);
        self.watch.write_succeeded();
        Ok(())
    }

    /// Blocks until everything written before survives a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        let _under_way = self.watch.write_begins();
        let synced = self.device.sync();
        match synced {
            Ok(()) => self.watch.sync_succeeded(),
            Err(_) => self.watch.sync_failed(self.env.monotonic()),
        }
        synced
    }

    pub fn write_failed(&self, what: &'static str, error: &io::Error) {
        self.counters.writes_failed.add(1);
        tracing::warn!(what, %error, "a write to flash failed");
        self.watch.write_failed(self.env.monotonic());
    }

    /// The seed of the checksums of journal blocks.
    pub fn journal_key(&self) -> u64 {
        u64_at(&self.device_id, 0)
    }
}
