//! The server's own log as rows of its own store (`--self-logs`), so that queries find slow queries.
//!
//! **Life of a line.** The [`layer`] takes an event from `tracing`, writes it as logfmt, and puts it into a
//! bounded [`queue`]; the shipper of the process takes what waits once a second and pushes it like any
//! client's batch, past HTTP. At shutdown the queue is emptied before the engine is.
//!
//! **Invariants.** Logging never waits: what does not fit the queue is dropped and counted. Storing a line
//! makes no line: only events of level info and above are taken, of foreign crates only warnings and above,
//! none of this module, and the shipper's pushes pass by everything that logs requests.

mod layer;
mod queue;

use std::sync::Arc;

use sandur_base::Env;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use layer::SelfLogLayer;
use queue::Queue;
pub(crate) use queue::Waiting;

/// Name of the service that the lines belong to.
pub const SERVICE: &str = "sandur";

/// The way from the log into the store. Cheap to clone: a handle.
#[derive(Clone)]
pub struct SelfLogs {
    pub(crate) env: Env,
    pub(crate) queue: Arc<Queue>,
}

impl SelfLogs {
    /// A way on which at most so many bytes wait.
    pub fn new(env: Env, queue_bytes: u64) -> Self {
        Self { env, queue: Arc::new(Queue::new(queue_bytes)) }
    }

    /// What takes events.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        SelfLogLayer::filtered(self.env.clone(), Arc::clone(&self.queue))
    }
}
