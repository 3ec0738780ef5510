//! Pushes bodies to the measured server and counts what happened.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use sandur_runtime::Env;
use tokio::runtime::Runtime;

use crate::http::{Connection, address_and_path};

/// How often a body is sent if the server has no room for it.
const TRIES_MAX: u32 = 300;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// An address with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `host:port`.
    pub(super) address: String,
    /// The path, without a slash at its end.
    pub(super) path: String,
}

impl Place {
    /// The place of a URL `http://host:port/path`.
    pub(super) fn of(url: &str) -> Self {
        let (address, path) = address_and_path(url);
        Self { address: address.to_owned(), path: path.to_owned() }
    }
}

/// Counts of pushes, shared by all threads that push.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Samples or lines that the server accepted.
    pub(super) items: AtomicU64,
    /// Attempts that were repeated.
    pub(super) retries: AtomicU64,
    /// Bodies that were not accepted.
    pub(super) failures: AtomicU64,
    /// The longest time that a live push was sent late, milliseconds.
    pub(super) lag_ms: AtomicI64,
    /// Why the first attempt failed.
    reason: Mutex<Option<String>>,
}

impl Tally {
    /// Why the first attempt failed, if one did.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self, why: String) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

/// The means of a thread to wait: a runtime of its own.
pub(super) struct Waiting {
    env: Env,
    runtime: Runtime,
}

impl Waiting {
    /// The means for this thread.
    pub(super) fn new(env: &Env) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { env: env.clone(), runtime })
    }

    /// Waits for this time.
    pub(super) fn pause(&self, time: Duration) {
        self.runtime.block_on(self.env.sleep(time));
    }
}

/// A connection that pushes.
pub(super) struct Pusher<'a> {
    connection: Connection,
    place: &'a Place,
    headers: &'static [&'static str],
    tally: &'a Tally,
    waiting: &'a Waiting,
}

impl<'a> Pusher<'a> {
    /// A connection to this place.
    pub(super) fn new(
        place: &'a Place,
        headers: &'static [&'static str],
        tally: &'a Tally,
        waiting: &'a Waiting,
    ) -> Self {
        Self { connection: Connection::new(&place.address), place, headers, tally, waiting }
    }

    /// Sends a body with this number of samples or lines, again while the server has no room for it.
    pub(super) fn send(&mut self, body: &[u8], items: u64) {
        for _ in 0..TRIES_MAX {
            let (status, why) = match self.connection.post(&self.place.path, self.headers, body) {
                Ok(answer) => (answer.status, answer.text()),
                Err(error) => (0, error.to_string()),
            };
            match status {
                200..300 => {
                    self.tally.items.fetch_add(items, Ordering::Relaxed);
                    return;
                }
                0 | 429 | 500.. => {
                    self.tally.failed(format!("{status} {why}"));
                    self.tally.retries.fetch_add(1, Ordering::Relaxed);
                    self.waiting.pause(PAUSE);
                }
                _ => {
                    self.tally.failed(format!("{status} {why}"));
                    break;
                }
            }
        }
        self.tally.failures.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_address_and_path() {
        for (url, address, path) in [
            ("http://127.0.0.1:3100", "127.0.0.1:3100", ""),
            ("127.0.0.1:9090/", "127.0.0.1:9090", ""),
            ("http://db:8428/insert/loki/api/v1/push", "db:8428", "/insert/loki/api/v1/push"),
        ] {
            assert_eq!(Place::of(url), Place { address: address.to_owned(), path: path.to_owned() });
        }
    }
}
