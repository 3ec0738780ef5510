//! Logs the changes of readiness: for pushes ([`crate::writing::readiness`]) and for queries
//! ([`crate::reading::freshness`]).

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::format_duration;

use crate::error::Error;
use crate::reading::freshness::Freshness;
use crate::writing::writer::Writer;

/// Logs when pushes begin to be refused and when the view becomes too old, and when these states end.
pub(crate) async fn log_changes(writer: Arc<Writer>, freshness: Freshness) {
    let (mut pushes, mut view) = (Logged::default(), Logged::default());
    while writer.node.pause(writer.options.look_interval).await {
        let now = writer.node.env.monotonic();
        let texts = ("no push is acknowledged, pushes are refused", "pushes are acknowledged again");
        pushes.look(now, writer.acknowledges(), texts);
        let texts =
            ("the view of the store is too old, answers say so", "the view of the store is new again");
        view.look(now, freshness.check(), texts);
    }
}

/// A state whose changes are logged.
#[derive(Default)]
struct Logged {
    /// Since when the state is bad, by the monotonic clock.
    bad_since: Option<Duration>,
}

impl Logged {
    fn look(&mut self, now: Duration, state: Result<(), Error>, (begins, ends): (&str, &str)) {
        match (state, self.bad_since) {
            (Err(reason), None) => {
                tracing::warn!(%reason, "{begins}");
                self.bad_since = Some(now);
            }
            (Ok(()), Some(since)) => {
                let lasted = format_duration(Duration::from_secs(now.saturating_sub(since).as_secs()));
                tracing::info!(lasted, "{ends}");
                self.bad_since = None;
            }
            _ => {}
        }
    }
}
