//! The audit: a log line with target `audit` for every refused request, and for every request that
//! deletes, that changes stored rules, or that changes the state of the process.
//!
//! Lines about refusals are rate-limited, so that clients cannot fill the disk; the next line has the
//! number of suppressed ones.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;

use super::refusal::Refusal;

/// Burst and rate of logged refusals: at most 170,000 lines of about 300 bytes per day.
const REFUSALS_BURST: f64 = 100.0;
const REFUSALS_PER_SECOND: f64 = 2.0;
/// Maximum bytes of path and parameters that are logged.
const WHAT_BYTES_MAX: usize = 512;

/// A request as it is audited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Name of the credential; `anonymous` without one.
    pub who: String,
    /// The tenant that the request names.
    pub tenant: String,
    /// Address of the client.
    pub peer: Option<SocketAddr>,
    /// Method and route: `POST /flush`.
    pub route: String,
    /// Path and parameters.
    pub what: String,
}

/// Writes the audit log. Cheap to clone; clones share the rate limit.
#[derive(Clone)]
pub struct Audit {
    env: Env,
    allowance: Arc<Mutex<LogAllowance>>,
}

struct LogAllowance {
    lines: f64,
    at: Duration,
    unlogged: u64,
}

impl Audit {
    /// An audit log with the clock of `env`.
    pub fn new(env: Env) -> Self {
        let allowance = LogAllowance { lines: REFUSALS_BURST, at: env.monotonic(), unlogged: 0 };
        Self { env, allowance: Arc::new(Mutex::new(allowance)) }
    }

    /// Logs a refused request.
    pub fn refused(&self, asked: &Asked, refusal: &Refusal) {
        let Some(unlogged) = self.take() else { return };
        let Asked { who, tenant, route, what, .. } = asked;
        let (peer, what, reason) = (peer(asked), cut(what), refusal.reason());
        tracing::warn!(
            target: "audit", who, tenant, peer, route, what, outcome = "refused", reason, unlogged,
            "{refusal}"
        );
    }

    /// Begins a request that deletes or changes something. Its line is written when the result is known,
    /// or when the client disconnects.
    pub fn begin(&self, asked: Asked) -> Pending {
        Pending { asked, status: None }
    }

    /// Whether a line may be written now; returns the number of lines that were suppressed before.
    fn take(&self) -> Option<u64> {
        let now = self.env.monotonic();
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_sub(allowance.at).as_secs_f64();
        allowance.lines = (allowance.lines + since * REFUSALS_PER_SECOND).min(REFUSALS_BURST);
        allowance.at = now;
        if allowance.lines < 1.0 {
            allowance.unlogged += 1;
            return None;
        }
        allowance.lines -= 1.0;
        Some(std::mem::take(&mut allowance.unlogged))
    }
}

/// A request whose result is not known yet.
pub struct Pending {
    asked: Asked,
    status: Option<u16>,
}

impl Pending {
    /// Logs the result of the request.
    pub fn answered(mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Asked { who, tenant, route, what, .. } = &self.asked;
        let (peer, what) = (peer(&self.asked), cut(what));
        let status = self.status.unwrap_or(499);
        let outcome = match status {
            200..=299 => "done",
            499 => "the client disconnected",
            _ => "failed",
        };
        tracing::info!(target: "audit", who, tenant, peer, route, what, outcome, status, "ended");
    }
}

fn peer(asked: &Asked) -> String {
    asked.peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string())
}

fn cut(what: &str) -> &str {
    &what[..what.floor_char_boundary(WHAT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_rate_limited_and_suppressed_ones_counted() {
        let env = Env::simulated(1, 0);
        let audit = Audit::new(env.clone());
        let logged = (0..1_000).filter(|_| audit.take().is_some()).count();
        assert_eq!(logged, 100);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!([audit.take(), audit.take(), audit.take()], [Some(900), Some(0), None]);
        env.sleep(Duration::from_secs(3_600)).await;
        assert_eq!((0..1_000).filter(|_| audit.take().is_some()).count(), 100, "limited to a burst");
    }
}
