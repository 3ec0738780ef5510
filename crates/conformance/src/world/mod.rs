//! Worlds: places where the rows of a script are stored when its queries run.
//!
//! A world receives rows in their order of arrival and returns sources to query. The answers must not
//! depend on the world; running a script in every world tests that.

mod engine;
mod memory;
mod opened;
mod place;

use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::Limits;
use sandur_query::{MemoryRow, QueryContext, QueryResult};
use sandur_runtime::Env;

use crate::script::Eval;
pub use engine::{EngineWorld, section};
pub use memory::MemoryWorld;
pub use opened::OpenedEngine;
pub use place::{Place, View};

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

    /// Removes all rows.
    pub fn clear(&mut self) {
        match self {
            Self::Memory(world) => world.clear(),
            Self::Engine(world) => world.clear(),
        }
    }

    /// Adds rows in their order of arrival. Exact duplicates are dropped, as a push of them would be.
    pub async fn load(&mut self, rows: &[MemoryRow]) -> Result<(), String> {
        match self {
            Self::Memory(world) => world.load(rows),
            Self::Engine(world) => return world.load(rows).await,
        }
        Ok(())
    }

    /// Returns sources that have all rows.
    pub async fn views(&mut self) -> Result<Vec<View>, String> {
        match self {
            Self::Memory(world) => Ok(world.views()),
            Self::Engine(world) => Ok(vec![world.view().await?]),
        }
    }

    /// Stops the engine, if there is one.
    pub async fn close(self) -> Result<(), String> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Engine(world) => world.close().await,
        }
    }
}

/// Memory budget of a query in bytes.
const QUERY_BYTES: u64 = 256 << 20;

/// Runs a query of a script. A query that does not release its memory fails, whatever it answers.
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
        kept => Err(format!("the query did not release {kept} bytes of its budget")),
    }
}
