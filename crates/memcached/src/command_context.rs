//! What a command may use while it is answered.
//!
//! Invariant: a [`CommandContext`] lasts while a worker serves one connection and never across a wait.

use std::sync::Arc;
use std::task::Waker;

use sandur_cache::Cache;

use super::counters::Counters;
use super::server::Server;
use super::settings::Settings;
use super::watch::{Event, Stream};

/// What the commands of a connection use while a worker serves it.
pub(super) struct CommandContext<'a> {
    pub server: &'a Arc<Server>,
    pub counters: &'a Arc<Counters>,
    /// Wakes the connection.
    pub waker: &'a Waker,
    /// Seconds since the epoch.
    pub now: u32,
    /// The connection's descriptor, which `stats conns` and `watch` show.
    pub descriptor: i32,
    /// Whether answers may come later because flash cannot keep up.
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

    /// The version number that a client sees.
    pub fn shown_cas(&self, cas: u64) -> u64 {
        if self.server.settings.cas { cas } else { 0 }
    }

    /// The slab class and the size in bytes that memcached would give an item.
    #[inline]
    pub fn class_of(&self, key: &[u8], value: u64, flags: u32) -> usize {
        let classes = &self.server.classes;
        classes.class(classes.item_bytes(key.len(), value, flags))
    }

    /// Whether an item is larger than `-I` allows.
    pub fn is_too_large(&self, key: &[u8], value: u64, flags: u32) -> bool {
        self.server.classes.item_bytes(key.len(), value, flags) > self.server.settings.item_bytes_max
    }

    /// Tells watchers of a stream; `event` is only made when there are any.
    #[inline]
    pub fn watch<'e>(&self, stream: Stream, event: impl FnOnce() -> Event<'e>) {
        if self.server.watchers.wants(stream) {
            self.server.watchers.publish(stream, &event(), self.server.env.now_ns());
        }
    }

    /// What an answer that comes later keeps.
    pub fn held(&self) -> Held {
        let (server, counters) = (Arc::clone(self.server), Arc::clone(self.counters));
        Held { server, counters, descriptor: self.descriptor }
    }
}

/// What an answer under way keeps of its context.
pub(super) struct Held {
    server: Arc<Server>,
    counters: Arc<Counters>,
    descriptor: i32,
}

impl Held {
    /// A context to finish the answer in.
    pub fn context(&self) -> CommandContext<'_> {
        CommandContext {
            server: &self.server,
            counters: &self.counters,
            // what is waited for has come: nothing will wake
            waker: Waker::noop(),
            now: super::time::now(&self.server.env),
            descriptor: self.descriptor,
            may_slow_down: false,
        }
    }
}
