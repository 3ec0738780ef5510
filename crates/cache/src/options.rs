//! Options of a cache.
//!
//! Invariant: the defaults are the settings we measure; nothing here needs tuning for a workload.

use std::sync::Arc;

use crate::flash::FlashOptions;
use crate::listener::RemovalListener;
use crate::policy::TenantCaps;

/// How to open a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Bytes of memory for everything that grows with items: records, tables and queues.
    pub memory: u64,
    /// Largest value in bytes.
    pub max_value: u64,
    /// Whether items make way for new ones. When not, writes are refused with
    /// [`Stored::NoMemory`](crate::Stored::NoMemory) once memory is full.
    pub evict: bool,
    /// Who hears of items that leave memory by themselves.
    pub listener: Option<Arc<dyn RemovalListener>>,
    /// The flash tier under memory, if there is one. Its buffers and its index count against
    /// `memory`, which bounds them too.
    pub flash: Option<FlashOptions>,
    /// Bytes that may be written to flash in 24 hours; 0 for no limit.
    pub flash_write_bytes_per_day: u64,
    /// Parts of flash that tenants ([`Put::tenant`](crate::Put::tenant)) may hold once it is full: what would
    /// put one above its part is kept in memory alone, but for metadata.
    pub tenant_caps: TenantCaps,
}

/// The least memory limit in bytes: below it the tables alone would be the cache.
pub const LEAST_MEMORY: u64 = 1 << 20;

/// Longest key in bytes.
pub const LONGEST_KEY: usize = u16::MAX as usize;

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            max_value: 1 << 30,
            evict: true,
            listener: None,
            flash: None,
            flash_write_bytes_per_day: 0,
            tenant_caps: TenantCaps::default(),
        }
    }
}
