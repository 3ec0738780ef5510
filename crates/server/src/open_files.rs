//! How many files the process may have open, and how many of them connections may be.
//!
//! Every connection is an open file. The store, the cache and everything else that is opened must find one,
//! too: so connections, over all listeners together, take at most what a reserve leaves.

use sandur_base::machine;

use crate::config::{Settings, Storage};

/// Files that are open in any case or for moments: logs, WAL, flash, spools, pollers, targets of scrapes and
/// of the relay.
const RESERVED: u64 = 128;
/// Connections of the listener for operators: people and probes.
pub const OPERATORS_CONNECTIONS_MAX: u64 = 64;

/// What the limit of open files gives to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    limit: u64,
    reserve: u64,
    /// Listeners that share what is left.
    listeners: u64,
    has_operators: bool,
}

impl OpenFiles {
    /// Raises the limit as far as the system allows it, and says what it gives.
    pub fn raise(settings: &Settings) -> Self {
        let files = Self::of(machine::raise_open_files_max(None), settings);
        let Self { limit, reserve, .. } = files;
        tracing::info!(limit, reserve, connections = files.limit - files.reserve, "open files");
        let wanted = settings.http.max_connections;
        if files.connections_max() < wanted {
            let most = files.connections_max();
            tracing::warn!(
                "at most {most} connections per listener, fewer than http.max_connections = {wanted}: no \
                 more files may be open; raise the limit (LimitNOFILE of the unit, ulimit -n)"
            );
        }
        files
    }

    /// What the limit gives now.
    pub fn now(settings: &Settings) -> Self {
        Self::of(machine::open_files_max(), settings)
    }

    fn of(limit: u64, settings: &Settings) -> Self {
        let carbon = &settings.carbon;
        // All listeners of carbon's share their connections, and so do those of the relay.
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

    /// Connections of a listener, or of listeners that share theirs.
    pub fn connections_max(&self) -> u64 {
        let operators = if self.has_operators { OPERATORS_CONNECTIONS_MAX } else { 0 };
        ((self.limit - self.reserve).saturating_sub(operators) / self.listeners.max(1)).max(1)
    }
}

/// Raises the limit for a process whose connections are all of one kind; how many it may have.
pub fn raise_for_relay() -> u64 {
    let limit = machine::raise_open_files_max(None);
    (limit - RESERVED.min(limit / 2)).max(1)
}

/// Files that connections leave to the rest: half of them, where they are few.
fn reserve(limit: u64, storage: &Storage) -> u64 {
    let requests = storage.max_concurrent_reads.saturating_add(storage.max_concurrent_writes);
    RESERVED.saturating_add(requests).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit of 1,024 files was filled by connections, and the store could not open its next one.
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
