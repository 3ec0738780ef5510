//! Worlds: places where the rows of a script can lie when its queries run.
//!
//! A world takes rows in their order of arrival and gives sources to ask. What it answers must not depend on
//! which world it is; that is what running a script everywhere shows.

mod engine;
mod memory;
mod opened;

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::{Limits, TenantId};
use sandur_query::{LogSource, MemoryRow, QueryContext, QueryResult};

use crate::script::Eval;
pub use engine::{EngineWorld, section};
pub use memory::MemoryWorld;
pub use opened::OpenedEngine;

/// Where rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A source in memory, in pages of several sizes and orders, and as counts.
    Memory,
    /// The head of an engine: pushed, not flushed.
    Head,
    /// Level-0 blocks of an engine on a directory, two for each load.
    Flushed,
    /// Merged blocks of an engine on a directory: one for each day.
    Compacted,
}

impl Place {
    /// All of them.
    pub const EVERY: [Self; 4] = [Self::Memory, Self::Head, Self::Flushed, Self::Compacted];

    /// The place's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Head => "head",
            Self::Flushed => "flushed",
            Self::Compacted => "compacted",
        }
    }
}

/// A source to ask, and whose rows it has.
pub struct View {
    /// What is special about it.
    pub name: &'static str,
    /// The source.
    pub source: Arc<dyn LogSource>,
    /// Whose rows.
    pub tenant: TenantId,
}

/// A world in which one script runs. It needs a current-thread runtime with paused time.
pub enum World {
    /// Rows in memory.
    Memory(MemoryWorld),
    /// Rows in an engine.
    Engine(Box<EngineWorld>),
}

impl World {
    /// Opens an empty world.
    pub async fn open(place: Place) -> Result<Self, String> {
        match place {
            Place::Memory => Ok(Self::Memory(MemoryWorld::default())),
            place => Ok(Self::Engine(Box::new(EngineWorld::open(place).await?))),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        match self {
            Self::Memory(world) => world.clear(),
            Self::Engine(world) => world.clear(),
        }
    }

    /// Adds rows in their order of arrival. Exact repetitions are dropped, as a push of them would be.
    pub async fn load(&mut self, rows: &[MemoryRow]) -> Result<(), String> {
        match self {
            Self::Memory(world) => world.load(rows),
            Self::Engine(world) => return world.load(rows).await,
        }
        Ok(())
    }

    /// Sources that have all rows.
    pub async fn views(&mut self) -> Result<Vec<View>, String> {
        match self {
            Self::Memory(world) => Ok(world.views()),
            Self::Engine(world) => Ok(vec![world.view().await?]),
        }
    }

    /// Ends what runs.
    pub async fn close(self) -> Result<(), String> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Engine(world) => world.close().await,
        }
    }
}

/// Memory of a query in bytes.
const QUERY_BYTES: u64 = 256 << 20;

/// Runs a query of a script; a query that keeps memory is wrong whatever it answers.
pub async fn ask(env: &Env, view: &View, eval: &Eval) -> Result<QueryResult, String> {
    let budget = MemoryBudget::root("query", QUERY_BYTES);
    let timeout = Duration::from_secs(600);
    let context = QueryContext::new(env.clone(), view.tenant.clone(), budget.clone(), timeout);
    let limits = Limits::default();
    let (source, request) = (&*view.source, eval.request.clone());
    let result = match eval.aligned {
        true => sandur_logql::query(source, &context, &limits, request).await,
        false => sandur_logql::query_unaligned(source, &context, &limits, request).await,
    };
    match budget.used() {
        0 => result.map_err(|e| e.to_string()),
        kept => Err(format!("the query kept {kept} bytes of its budget")),
    }
}
