//! The audit: a line of the log, target `audit`, for every request that was refused, and for every one that
//! deletes, or that changes how the process runs.
//!
//! Lines of refusals have a rate, so that no client fills a disk with them; the next one that is written says
//! how many were not.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Env;

use super::refusal::Refusal;

/// Refusals that are logged at once, and then per second: at most 170,000 lines of some 300 bytes a day.
const REFUSALS_BURST: f64 = 100.0;
const REFUSALS_PER_SECOND: f64 = 2.0;
/// Bytes of a path and its parameters that are logged.
const WHAT_BYTES_MAX: usize = 512;

/// Who asked for what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Name of the credential; `anonymous` without one.
    pub who: String,
    /// What the request says of its tenant.
    pub tenant: String,
    /// Where it comes from.
    pub peer: Option<SocketAddr>,
    /// Protocol and route: `POST /flush`.
    pub route: String,
    /// Path and parameters.
    pub what: String,
}

/// Writes the audit. Cheap to clone; clones share the rate.
#[derive(Clone)]
pub struct Audit {
    env: Env,
    room: Arc<Mutex<Room>>,
}

struct Room {
    lines: f64,
    at: Duration,
    unlogged: u64,
}

impl Audit {
    /// An audit by the clock of `env`.
    pub fn new(env: Env) -> Self {
        let room = Room { lines: REFUSALS_BURST, at: env.monotonic(), unlogged: 0 };
        Self { env, room: Arc::new(Mutex::new(room)) }
    }

    /// A request was turned away.
    pub fn refused(&self, asked: &Asked, refusal: &Refusal) {
        let Some(unlogged) = self.take() else { return };
        let Asked { who, tenant, route, what, .. } = asked;
        let (peer, what, reason) = (peer(asked), cut(what), refusal.reason());
        tracing::warn!(
            target: "audit", who, tenant, peer, route, what, outcome = "refused", reason, unlogged,
            "{refusal}"
        );
    }

    /// A request that destroys or changes something begins. Its line is written when the result is known, or
    /// when the client went away before.
    pub fn begin(&self, asked: Asked) -> Pending {
        Pending { asked, status: None }
    }

    /// Whether a line may be written now, and how many were not since the last one.
    fn take(&self) -> Option<u64> {
        let now = self.env.monotonic();
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_sub(room.at).as_secs_f64();
        room.lines = (room.lines + since * REFUSALS_PER_SECOND).min(REFUSALS_BURST);
        room.at = now;
        if room.lines < 1.0 {
            room.unlogged += 1;
            return None;
        }
        room.lines -= 1.0;
        Some(std::mem::take(&mut room.unlogged))
    }
}

/// A request whose result is not known yet.
pub struct Pending {
    asked: Asked,
    status: Option<u16>,
}

impl Pending {
    /// The request was answered.
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
            499 => "the client went away",
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
    async fn refusals_have_a_rate_and_say_how_many_were_not_logged() {
        let env = Env::simulated(1, 0);
        let audit = Audit::new(env.clone());
        let logged = (0..1_000).filter(|_| audit.take().is_some()).count();
        assert_eq!(logged, 100);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!([audit.take(), audit.take(), audit.take()], [Some(900), Some(0), None]);
        env.sleep(Duration::from_secs(3_600)).await;
        assert_eq!(
            (0..1_000).filter(|_| audit.take().is_some()).count(),
            100,
            "a burst, not an hour's worth"
        );
    }
}
