//! The option `-e`: the contents of memory survive a graceful stop (SIGUSR1, or `shutdown graceful`).
//!
//! The cache writes and reads the file. This module adds the server's part of the state and the log
//! lines. As in memcached, other stops do not keep the contents of memory, and a file that cannot be
//! used is logged and is not an error.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::Error;
use super::server::Server;
use sandur_cache::{Notes, Restored};

/// The name under which the value of `hash_power_level` is stored.
const HASH_POWER: &str = "hashpower";

/// Restores what the latest graceful stop saved. Returns a line to log.
pub(super) fn restore(server: &Server) -> Result<Option<String>, Error> {
    let Some(file) = &server.settings.memory_file else { return Ok(None) };
    let line = match server.cache.restore(file)? {
        Restored::Nothing => "[restart] no saved memory found, starting with a clean cache".to_owned(),
        Restored::Refused(why) => format!("[restart] {why}; starting with a clean cache"),
        Restored::Items(restored) => {
            let noted = restored.notes.iter().find(|(name, _)| name == HASH_POWER);
            let power = noted.and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
            server.index_power.fetch_max(power, Ordering::Relaxed);
            format!(
                "[restart] {} items restored to memory, {} expired, {} did not fit",
                restored.items, restored.expired, restored.left_out
            )
        }
    };
    Ok(Some(line))
}

/// Closes the cache, and saves the contents of memory if the stop is graceful. Returns a line to log.
/// The flash tier gets `patience` to finish.
pub(super) fn close(server: &Server, patience: Duration) -> Option<String> {
    let graceful = server.graceful.load(Ordering::Relaxed);
    let Some(file) = server.settings.memory_file.as_ref().filter(|_| graceful) else {
        server.cache.close(patience);
        return None;
    };
    let power = server.index_power(server.cache.stats().items);
    let notes: Notes = vec![(HASH_POWER.to_owned(), power.to_string())];
    Some(match server.cache.close_into(file, notes, patience) {
        Ok(saved) => format!("[restart] {} items saved to {}", saved.items, file.display()),
        Err(error) => format!("[restart] {error}"),
    })
}
