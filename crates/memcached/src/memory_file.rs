//! `-e`: what is in memory outlasts a graceful stop (SIGUSR1, or `shutdown graceful`).
//!
//! The cache writes and reads the file; here are the words, and what of the server belongs to it. As with
//! memcached, other stops keep nothing of memory, and what cannot be used is said and not a reason to fail.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::Error;
use super::server::Server;
use sandur_cache::{Notes, Restored};

/// The name under which the power of two that `hash_power_level` shows is kept.
const HASH_POWER: &str = "hashpower";

/// Puts back what the latest graceful stop has kept; what there is to log about it.
pub(super) fn restore(server: &Server) -> Result<Option<String>, Error> {
    let Some(file) = &server.settings.memory_file else { return Ok(None) };
    let line = match server.cache.restore(file)? {
        Restored::Nothing => "[restart] no memory was kept, starting with a clean cache".to_owned(),
        Restored::Refused(why) => format!("[restart] {why}; starting with a clean cache"),
        Restored::Items(restored) => {
            let noted = restored.notes.iter().find(|(name, _)| name == HASH_POWER);
            let power = noted.and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
            server.index_power.fetch_max(power, Ordering::Relaxed);
            format!(
                "[restart] {} items are back in memory, {} have expired, {} found no room",
                restored.items, restored.expired, restored.left_out
            )
        }
    };
    Ok(Some(line))
}

/// Closes the cache, and keeps what is in memory if the stop is a graceful one; what there is to log about
/// it. What is kept otherwise gets `patience`.
pub(super) fn close(server: &Server, patience: Duration) -> Option<String> {
    let graceful = server.graceful.load(Ordering::Relaxed);
    let Some(file) = server.settings.memory_file.as_ref().filter(|_| graceful) else {
        server.cache.close(patience);
        return None;
    };
    let power = server.index_power(server.cache.stats().items);
    let notes: Notes = vec![(HASH_POWER.to_owned(), power.to_string())];
    Some(match server.cache.close_into(file, notes, patience) {
        Ok(saved) => format!("[restart] {} items are kept in {}", saved.items, file.display()),
        Err(error) => format!("[restart] {error}"),
    })
}
