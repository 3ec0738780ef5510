//! Pushes the server's own log lines into its store, as a client would.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use sandur_ingest::{Decoded, PushHeaders};
use sandur_model::{Limits, TenantId};
use sandur_runtime::{ShutdownSignal, Task};
use sandur_terminal::logging::self_logs::{SERVICE, SHIPPING, SelfLogs, Waiting};
use serde_json::json;

use sandur_http::App;

/// How long lines are collected before they are pushed.
const LINGER: Duration = Duration::from_secs(1);
/// Pause after a failed push.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum bytes of one push.
const PUSH_BYTES: usize = 1 << 20;

/// The task that pushes own log lines.
pub struct Shipper {
    logs: SelfLogs,
    task: Task<()>,
}

impl Shipper {
    /// Starts pushing for this tenant.
    pub fn start(app: &App, logs: SelfLogs, tenant: TenantId) -> Self {
        let (app, own) = (app.clone(), logs.clone());
        let task = logs.env.clone().spawn("self logs", async move {
            let mut failing = false;
            while !own.queue.is_closed() {
                own.queue.wait().await;
                pause(&own, &app.stopping, failing).await;
                failing = !push_all(&app, &own, &tenant, failing).await;
            }
        });
        Self { logs, task }
    }

    /// Stores the queued lines and ends. Later lines go only to stderr.
    pub async fn finish(self) {
        self.logs.queue.close();
        if let Err(error) = self.task.join().await {
            tracing::error!(target: SHIPPING, %error, "the shipping of the server's own log failed");
        }
    }
}

/// Waits while lines are collected; less when the server stops. After a failure it waits for the store to
/// recover, as long as more lines may come; at the end it does not, since a stopping server often cannot
/// store either.
async fn pause(logs: &SelfLogs, stopping: &ShutdownSignal, failing: bool) {
    match failing {
        true => drop(logs.env.timeout(PAUSE, logs.queue.closed()).await),
        false => drop(logs.env.timeout(LINGER, stopping.triggered()).await),
    }
}

/// Pushes all queued lines; returns whether that succeeded. The first failure in a row is logged, only to
/// stderr.
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
                let text = "the own log cannot be stored; it is kept and tried again";
                tracing::warn!(target: SHIPPING, %tenant, reason, "{text}");
            }
            logs.queue.put_back(lines);
            return false;
        }
        app.metrics.self_logs.inc_by(count);
    }
}

async fn push(app: &App, tenant: &TenantId, lines: &[Waiting]) -> Result<(), String> {
    let (limits, now_ns) = (app.writes.limits(tenant), app.env.now_ns());
    let decoded = decode_push(tenant, &limits, now_ns, body(lines))?;
    app.metrics.self_logs_dropped.inc_by(decoded.refused.lines());
    if decoded.lines == 0 {
        return Ok(());
    }
    app.writes.intake().push(decoded.batch.into(), None).await.map(drop).map_err(|failure| failure.message)
}

fn decode_push(tenant: &TenantId, limits: &Limits, now_ns: i64, body: Bytes) -> Result<Decoded, String> {
    let headers = PushHeaders { content_type: Some("application/json"), content_encoding: None };
    sandur_ingest::loki_push(tenant, limits, now_ns, headers, body).map_err(|error| error.to_string())
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

#[cfg(test)]
mod tests {
    use sandur_runtime::{Env, Shutdown};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_pushes_pause_even_at_the_end() {
        let env = Env::simulated(1, 0);
        let (logs, shutdown) = (SelfLogs::new(env.clone(), 1 << 20), Shutdown::default());
        let paused = async |failing| {
            let began = env.monotonic();
            pause(&logs, &shutdown.signal(), failing).await;
            env.monotonic() - began
        };
        assert_eq!((paused(false).await, paused(true).await), (LINGER, PAUSE));
        shutdown.trigger();
        assert_eq!((paused(false).await, paused(true).await), (Duration::ZERO, PAUSE));
        logs.queue.close();
        assert_eq!(paused(true).await, Duration::ZERO, "the last push is not delayed");
    }
}
