//! Where the rows of a script are stored, and what queries read there.

use std::sync::Arc;

use sandur_model::TenantId;
use sandur_query::LogSource;

/// Where rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A source in memory, which returns pages of several sizes and orders, and counts.
    Memory,
    /// The head of an engine: pushed, not flushed.
    Head,
    /// Level-0 blocks of an engine on a directory, two for each load.
    Flushed,
    /// Merged blocks of an engine on a directory: one for each day.
    Compacted,
}

impl Place {
    /// All places.
    pub const EVERY: [Self; 4] = [Self::Memory, Self::Head, Self::Flushed, Self::Compacted];

    /// Returns the place's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Head => "head",
            Self::Flushed => "flushed",
            Self::Compacted => "compacted",
        }
    }
}

/// A source to query, and the tenant that owns its rows.
pub struct View {
    /// What distinguishes this source, for reports.
    pub name: &'static str,
    /// The source to query.
    pub source: Arc<dyn LogSource>,
    /// The tenant that owns the rows.
    pub tenant: TenantId,
}
