//! Stores events as lines of a reserved stream among the tenant's logs, so that durability, retention and
//! deletion are those of other lines.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_graphite::{Event, Events};
use sandur_model::{GRAPHITE_MARK, Labels, LogBatch, LogBatchBuilder, TenantId};
use sandur_query::{Error, LogSource, QueryContext};

use crate::logql::rows_of_stream;

/// The value of the stream's only label.
const EVENTS: &str = "events";
/// Maximum number of events of a request.
const EVENTS_MAX: u32 = 10_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The events of the tenant of the query context.
pub struct KeptEvents<'a>(pub &'a dyn LogSource);

impl Events for KeptEvents<'_> {
    fn between<'a>(
        &'a self,
        context: &'a QueryContext,
        from: i64,
        until: i64,
    ) -> BoxFuture<'a, Result<Vec<Event>, Error>> {
        Box::pin(async move {
            let times = (from.saturating_mul(SECOND_NS), until.saturating_add(1).saturating_mul(SECOND_NS));
            let rows =
                rows_of_stream(self.0, context, (GRAPHITE_MARK, EVENTS), times, EVENTS_MAX + 1).await?;
            if rows.len() > EVENTS_MAX as usize {
                let text = format!("more than {EVENTS_MAX} events; narrow the time");
                return Err(Error::Limit(text));
            }
            let event = |row: &sandur_query::LogRow| Event::of_line(row.timestamp / SECOND_NS, &row.line);
            Ok(rows.iter().filter_map(event).collect())
        })
    }
}

/// The batch that stores an event.
pub fn batch(tenant: &TenantId, event: &Event) -> LogBatch {
    let labels = Arc::new(Labels::from_pairs([(GRAPHITE_MARK, EVENTS)]));
    let mut batch = LogBatchBuilder::new(tenant.clone());
    batch.row(&labels, event.when.saturating_mul(SECOND_NS), event.line());
    batch.build()
}
