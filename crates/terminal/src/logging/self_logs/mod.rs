//! The server's own log as rows of its own store (`--self-logs`), so that queries can find slow queries.
//!
//! **Life of a line.** The [`layer`] receives an event from `tracing`, formats it as logfmt, and appends
//! it to a bounded [`queue`]. Once per second the shipper of the process takes the waiting lines and
//! pushes them like a client's batch, but not over HTTP. At shutdown the queue is emptied before the
//! engine stops.
//!
//! **Invariants.** Logging never waits: a line that does not fit into the queue is dropped and counted.
//! Storing a line creates no line: only events of level info and above are stored, of other crates only
//! warnings and above, none with the target [`SHIPPING`], and the shipper's pushes bypass the code that logs
//! requests.

mod layer;
mod queue;

use std::sync::Arc;

use sandur_runtime::Env;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

pub use layer::SHIPPING;
use layer::SelfLogLayer;
pub use queue::{Queue, Waiting};

/// Name of the service of the lines.
pub const SERVICE: &str = "sandur";

/// The path from the log to the store. Cheap to clone: a handle.
#[derive(Clone)]
pub struct SelfLogs {
    /// The clock of the lines.
    pub env: Env,
    /// Queued lines.
    pub queue: Arc<Queue>,
}

impl SelfLogs {
    /// A path with a queue of at most `queue_bytes`.
    pub fn new(env: Env, queue_bytes: u64) -> Self {
        Self { env, queue: Arc::new(Queue::new(queue_bytes)) }
    }

    /// The layer that receives events.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        SelfLogLayer::filtered(self.env.clone(), Arc::clone(&self.queue))
    }
}
