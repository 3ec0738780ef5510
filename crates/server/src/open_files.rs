//! How many files the process may open, and how many of them connections may use.
//!
//! Every connection is an open file. The store, the cache and all other files need descriptors too, so
//! the connections of all listeners together are limited to what a reserve leaves.

use sandur_runtime::machine;

use sandur_config::{Settings, Storage};

/// Files that are open permanently or briefly: logs, WAL, flash, spools, pollers, targets of scrapes and
/// of the relay.
const RESERVED: u64 = 128;
/// Maximum number of connections of the listener for operators.
pub const OPERATORS_CONNECTIONS_MAX: u64 = 64;

/// How the limit of open files is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    limit: u64,
    reserve: u64,
    /// Number of listeners that share the rest.
    listeners: u64,
    has_operators: bool,
}

impl OpenFiles {
    /// Raises the limit as far as the system allows, and logs the result.
    pub fn raise(settings: &Settings) -> Self {
        let files = Self::of(machine::raise_open_files_max(None), settings);
        let Self { limit, reserve, .. } = files;
        tracing::info!(limit, reserve, connections = files.limit - files.reserve, "open files");
        let wanted = settings.http.max_connections;
        if files.connections_max() < wanted {
            let most = files.connections_max();
            tracing::warn!(
                "at most {most} connections per listener, fewer than http.max_connections = {wanted}: the \
                 limit of open files is too low; raise it (LimitNOFILE of the unit, ulimit -n)"
            );
        }
        files
    }

    /// The division of the current limit.
    pub fn now(settings: &Settings) -> Self {
        Self::of(machine::open_files_max(), settings)
    }

    fn of(limit: u64, settings: &Settings) -> Self {
        let carbon = &settings.carbon;
        // All listeners of Carbon share one limit of connections, and so do those of the relay.
        let has_carbon = [&carbon.listen, &carbon.pickle_listen, &carbon.protobuf_listen];
        let listeners = [
            true,
            !settings.otlp_grpc_listen.is_empty(),
            has_carbon.iter().any(|address| !address.is_empty()),
            !settings.relay_config.is_empty(),
        ];
        let listeners = listeners.into_iter().filter(|listens| *listens).count() as u64;
        let has_operators = !settings.admin_listen.is_empty();
        Self { limit, reserve: reserve(limit, &settings.storage), listeners, has_operators }
    }

    /// Maximum number of connections of a listener, or of a group of listeners that share a limit.
    pub fn connections_max(&self) -> u64 {
        let operators = if self.has_operators { OPERATORS_CONNECTIONS_MAX } else { 0 };
        ((self.limit - self.reserve).saturating_sub(operators) / self.listeners.max(1)).max(1)
    }
}

/// Raises the limit for a process with connections of one kind; returns their maximum number.
pub fn raise_for_relay() -> u64 {
    let limit = machine::raise_open_files_max(None);
    (limit - RESERVED.min(limit / 2)).max(1)
}

/// Files that are reserved for everything but connections: at most half of the limit.
fn reserve(limit: u64, storage: &Storage) -> u64 {
    let requests = storage.max_concurrent_reads.saturating_add(storage.max_concurrent_writes);
    RESERVED.saturating_add(requests).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections once used a limit of 1,024 files completely, so that the store could not open another
    /// file.
    #[test]
    fn connections_leave_files_for_the_store() {
        let mut settings = Settings::default();
        let most = |limit, settings: &Settings| OpenFiles::of(limit, settings).connections_max();
        assert_eq!(most(1_024, &settings), 1_024 - 128 - 128 - 32);
        assert_eq!(most(100, &settings), 50);
        assert_eq!((most(0, &settings), most(1, &settings)), (1, 1));
        assert!(most(u64::MAX, &settings) > 1 << 60);
        settings.admin_listen = "127.0.0.1:0".to_owned();
        settings.carbon.listen = "127.0.0.1:0".to_owned();
        settings.carbon.pickle_listen = "127.0.0.1:0".to_owned();
        settings.relay_config = "relay.conf".to_owned();
        let all = most(1_024, &settings);
        assert_eq!(all, (736 - 64) / 3);
        settings.storage.max_concurrent_reads = u64::MAX;
        assert_eq!(most(1_024, &settings), (512 - 64) / 3);
    }
}
