//! Options of a cache.
//!
//! Invariant: the defaults are the settings that we measure. No workload needs other ones.

use std::sync::Arc;

use sandur_memory::MemoryBudget;

use crate::flash::FlashOptions;
use crate::listener::RemovalListener;
use crate::policy::TenantCaps;

/// How to open a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Bytes of memory for everything that grows with items: records, tables and queues.
    pub memory: u64,
    /// The budget of this memory; its limit takes the place of `memory`, from which only the sizes of
    /// buffers and of the index of flash are derived. Default: a budget of `memory` bytes.
    pub budget: Option<MemoryBudget>,
    /// Largest value in bytes.
    pub max_value: u64,
    /// Whether items are evicted for new ones. If `false`, writes are refused with
    /// [`Stored::NoMemory`](crate::Stored::NoMemory) once memory is full.
    pub evict: bool,
    /// Receives the items that leave memory without a call that removes or replaces them.
    pub listener: Option<Arc<dyn RemovalListener>>,
    /// The flash tier below memory, if any. Its buffers and its index count against `memory`, which
    /// bounds them too.
    pub flash: Option<FlashOptions>,
    /// Most bytes that may be written to flash in 24 hours; 0 for no limit.
    pub flash_write_bytes_per_day: u64,
    /// Shares of flash that tenants ([`Put::tenant`](crate::Put::tenant)) may hold once it is full. A
    /// value that would put its tenant above the share is kept in memory only, except metadata.
    pub tenant_caps: TenantCaps,
}

/// The smallest memory limit in bytes. Below it the tables would leave no room for items.
pub const LEAST_MEMORY: u64 = 1 << 20;

/// Length of the longest key in bytes.
pub const LONGEST_KEY: usize = u16::MAX as usize;

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            budget: None,
            max_value: 1 << 30,
            evict: true,
            listener: None,
            flash: None,
            flash_write_bytes_per_day: 0,
            tenant_caps: TenantCaps::default(),
        }
    }
}
