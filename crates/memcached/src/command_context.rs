//! The context in which a command is executed.
//!
//! Invariant: a [`CommandContext`] exists while a worker serves one connection, and never across a wait.

use std::sync::Arc;
use std::task::Waker;

use sandur_cache::Cache;

use super::counters::Counters;
use super::server::Server;
use super::settings::Settings;
use super::watch::{Event, Stream};

/// What commands use while a worker serves their connection.
pub(super) struct CommandContext<'a> {
    pub server: &'a Arc<Server>,
    pub counters: &'a Arc<Counters>,
    /// Wakes the connection.
    pub waker: &'a Waker,
    /// Seconds since the epoch.
    pub now: u32,
    /// The connection's descriptor, which `stats conns` and `watch` show.
    pub descriptor: i32,
    /// Whether an answer may be delayed because flash cannot keep up.
    pub may_slow_down: bool,
}

impl CommandContext<'_> {
    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.server.cache
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.server.settings
    }

    /// Returns the version number that a client sees.
    pub fn shown_cas(&self, cas: u64) -> u64 {
        if self.server.settings.cas { cas } else { 0 }
    }

    /// Returns the slab class into which memcached would put an item.
    #[inline]
    pub fn class_of(&self, key: &[u8], value: u64, flags: u32) -> usize {
        let classes = &self.server.classes;
        classes.class(classes.item_bytes(key.len(), value, flags))
    }

    /// Returns whether an item is larger than `-I` permits.
    pub fn is_too_large(&self, key: &[u8], value: u64, flags: u32) -> bool {
        self.server.classes.item_bytes(key.len(), value, flags) > self.server.settings.item_bytes_max
    }

    /// Publishes an event to the watchers of a stream. `event` is only called if there are any.
    #[inline]
    pub fn watch<'e>(&self, stream: Stream, event: impl FnOnce() -> Event<'e>) {
        if self.server.watchers.wants(stream) {
            self.server.watchers.publish(stream, &event(), self.server.env.now_ns());
        }
    }

    /// Returns the part of the context that a delayed answer keeps.
    pub fn held(&self) -> Held {
        let (server, counters) = (Arc::clone(self.server), Arc::clone(self.counters));
        Held { server, counters, descriptor: self.descriptor }
    }
}

/// The part of the context that a delayed answer keeps.
pub(super) struct Held {
    server: Arc<Server>,
    counters: Arc<Counters>,
    descriptor: i32,
}

impl Held {
    /// Returns a context in which to finish the answer.
    pub fn context(&self) -> CommandContext<'_> {
        CommandContext {
            server: &self.server,
            counters: &self.counters,
            // the awaited result has arrived: nothing needs to be woken
            waker: Waker::noop(),
            now: super::time::now(&self.server.env),
            descriptor: self.descriptor,
            may_slow_down: false,
        }
    }
}
