//! Receives events of the process and queues them as lines.

use std::sync::Arc;

use sandur_runtime::Env;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::queue::{Queue, Waiting};
use crate::logging::line;

/// Prefix of the targets of this project.
const OWN: &str = "sandur";
/// The target of events about storing lines. They must not be stored: that would never end.
pub const SHIPPING: &str = "sandur::self_logs";

/// A layer of `tracing`.
pub struct SelfLogLayer {
    env: Env,
    queue: Arc<Queue>,
}

impl SelfLogLayer {
    /// The layer with a filter for the events that are stored. Other events are disabled, so that they
    /// cost nothing.
    pub(super) fn filtered<S>(env: Env, queue: Arc<Queue>) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let taken = filter_fn(is_taken).with_max_level_hint(LevelFilter::INFO);
        Self { env, queue }.with_filter(taken)
    }
}

/// Whether such events are stored.
fn is_taken(meta: &Metadata<'_>) -> bool {
    let target = meta.target();
    let least = if target.starts_with(OWN) { Level::INFO } else { Level::WARN };
    *meta.level() <= least && target != SHIPPING
}

/// The component of a target: the last part of a name, otherwise the crate.
fn component(target: &str) -> &str {
    if let Some(name) = line::component_of_line(target) {
        return name;
    }
    let of_crate = target.split("::").next().unwrap_or(target);
    of_crate.strip_prefix("sandur_").unwrap_or(of_crate)
}

impl<S: Subscriber> Layer<S> for SelfLogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        let timestamp = self.env.now_ns();
        self.queue.push(Waiting {
            timestamp,
            component: component(meta.target()).into(),
            level: line::level_of(event),
            line: line::logfmt(event, timestamp),
        });
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn own_events_are_stored_except_those_of_the_shipper() {
        let queue = Arc::new(Queue::new(1 << 20));
        let layer = SelfLogLayer::filtered(Env::simulated(1, 1_000), Arc::clone(&queue));
        let subscriber = tracing_subscriber::registry().with(layer);
        assert_eq!(
            subscriber.max_level_hint(),
            Some(LevelFilter::INFO),
            "events of lower levels are disabled"
        );
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "sandur_engine::flush", "wrote");
            tracing::debug!(target: "sandur_engine::flush", "too fine");
            tracing::info!(target: "hyper::client", "chatter");
            tracing::error!(target: "hyper::client", "serious");
            tracing::error!(target: SHIPPING, "about itself");
            tracing::info!(target: "sandur::query::querier", "caller=metrics.go");
            tracing::info!(target: "sandur::query_stored::frontend", "caller=metrics.go");
        });
        let taken: Vec<_> =
            queue.take(1 << 20).into_iter().map(|l| (l.component.to_string(), l.level)).collect();
        let expected = [("engine", "info"), ("hyper", "error"), ("querier", "info"), ("frontend", "info")];
        assert_eq!(taken, expected.map(|(c, l)| (c.to_owned(), l)));
    }
}
