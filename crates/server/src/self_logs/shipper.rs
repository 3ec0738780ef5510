//! Pushes waiting lines into the store, as a client would push them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Task;
use sandur_model::TenantId;
use serde_json::json;

use super::queue::Waiting;
use super::{SERVICE, SelfLogs};
use crate::http::App;
use crate::wiring;

/// How long lines gather before they are pushed.
const LINGER: Duration = Duration::from_secs(1);
/// How long to wait after a push that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Bytes of one push.
const PUSH_BYTES: usize = 1 << 20;

/// The task that pushes.
pub struct Shipper {
    logs: SelfLogs,
    task: Task<()>,
}

impl Shipper {
    /// Starts pushing into the tenant.
    pub fn start(app: &App, logs: SelfLogs, tenant: TenantId) -> Self {
        let (app, own) = (app.clone(), logs.clone());
        let task = logs.env.clone().spawn("self logs", async move {
            let mut failing = false;
            while !own.queue.is_closed() {
                own.queue.wait().await;
                own.pause(&app, if failing { PAUSE } else { LINGER }).await;
                failing = !push_all(&app, &own, &tenant, failing).await;
            }
        });
        Self { logs, task }
    }

    /// Stores what waits and ends. Lines that are logged afterwards reach only stderr.
    pub async fn finish(self) {
        self.logs.queue.close();
        if let Err(error) = self.task.join().await {
            tracing::error!(%error, "the shipping of own logs ended badly");
        }
    }
}

impl SelfLogs {
    /// Sleeps unless the server stops.
    async fn pause(&self, app: &App, time: Duration) {
        tokio::select! {
            () = self.env.sleep(time) => {}
            () = app.stopping.triggered() => {}
        }
    }
}

/// Whether everything that waited was pushed. The first failure of a row is told, on stderr alone.
async fn push_all(app: &App, logs: &SelfLogs, tenant: &TenantId, failing: bool) -> bool {
    loop {
        let lines = logs.queue.take(PUSH_BYTES);
        app.metrics.self_logs_dropped.inc_by(logs.queue.take_dropped());
        if lines.is_empty() {
            return true;
        }
        let count = lines.len() as u64;
        if let Err(reason) = push(app, tenant, &lines).await {
            if !failing {
                tracing::warn!(%tenant, reason, "own logs cannot be stored; they wait and are tried again");
            }
            logs.queue.put_back(lines);
            return false;
        }
        app.metrics.self_logs.inc_by(count);
    }
}

async fn push(app: &App, tenant: &TenantId, lines: &[Waiting]) -> Result<(), String> {
    let (limits, now_ns) = (app.limits(tenant), app.env.now_ns());
    let decoded = wiring::decode_push(tenant, &limits, now_ns, body(lines))?;
    app.metrics.self_logs_dropped.inc_by(decoded.refused.lines());
    if decoded.lines == 0 {
        return Ok(());
    }
    app.intake.push(decoded.batch).await.map_err(|failure| failure.message)
}

/// The body of a push in Loki's JSON.
fn body(lines: &[Waiting]) -> Bytes {
    let mut streams: BTreeMap<(&str, &str), Vec<serde_json::Value>> = BTreeMap::new();
    for line in lines {
        let values = streams.entry((&line.component, line.level)).or_default();
        values.push(json!([line.timestamp.to_string(), line.line]));
    }
    let stream = |((component, level), values): ((&str, &str), Vec<serde_json::Value>)| {
        json!({
            "stream": {"service_name": SERVICE, "component": component, "level": level},
            "values": values,
        })
    };
    let streams: Vec<_> = streams.into_iter().map(stream).collect();
    Bytes::from(json!({ "streams": streams }).to_string())
}
