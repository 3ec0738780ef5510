//! Takes events of the process and queues them as lines.

use std::sync::Arc;

use sandur_base::Env;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::queue::{Queue, Waiting};
use crate::logging;

/// Targets of this project begin so.
const OWN: &str = "sandur";
/// What the module that stores lines says about itself must not be stored: it would never end.
const SHIPPING: &str = "sandur_server::self_logs";
/// Targets that say themselves which component they are of.
const NAMED: &str = "sandur::query::";

/// A layer of `tracing`.
pub struct SelfLogLayer {
    env: Env,
    queue: Arc<Queue>,
}

impl SelfLogLayer {
    pub(super) fn new(env: Env, queue: Arc<Queue>) -> Self {
        Self { env, queue }
    }
}

/// Whether events of this kind are stored.
fn is_taken(meta: &Metadata<'_>) -> bool {
    let target = meta.target();
    let least = if target.starts_with(OWN) { Level::INFO } else { Level::WARN };
    *meta.level() <= least && !target.starts_with(SHIPPING)
}

/// The component that a target belongs to: the last part of a name, else the crate.
fn component(target: &str) -> &str {
    if let Some(name) = target.strip_prefix(NAMED) {
        return name;
    }
    let of_crate = target.split("::").next().unwrap_or(target);
    of_crate.strip_prefix("sandur_").unwrap_or(of_crate)
}

impl<S: Subscriber> Layer<S> for SelfLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if !is_taken(meta) {
            return;
        }
        let timestamp = self.env.now_ns();
        self.queue.push(Waiting {
            timestamp,
            component: component(meta.target()).into(),
            level: logging::level_of(event),
            line: logging::logfmt(event, timestamp),
        });
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn own_events_are_taken_and_those_of_the_shipper_never() {
        let queue = Arc::new(Queue::new(1 << 20));
        let layer = SelfLogLayer::new(Env::simulated(1, 1_000), Arc::clone(&queue));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(target: "sandur_engine::flush", "wrote");
            tracing::debug!(target: "sandur_engine::flush", "too fine");
            tracing::info!(target: "hyper::client", "chatter");
            tracing::error!(target: "hyper::client", "serious");
            tracing::error!(target: "sandur_server::self_logs::shipper", "about itself");
            tracing::info!(target: "sandur::query::querier", "caller=metrics.go");
        });
        let taken: Vec<_> =
            queue.take(1 << 20).into_iter().map(|l| (l.component.to_string(), l.level)).collect();
        let expected = [("engine", "info"), ("hyper", "error"), ("querier", "info")];
        assert_eq!(taken, expected.map(|(c, l)| (c.to_owned(), l)));
    }
}
