//! watch: turns the connection into a stream of events.

use std::sync::Arc;

use crate::next::{Next, Source};
use crate::server::Server;
use crate::watch::{Stream, Watcher};

use super::call::{Call, ERROR};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let settings = call.context.settings();
    if !settings.watch_allowed {
        return call.answer(b"CLIENT_ERROR watch commands not allowed");
    }
    if !call.first_in_output {
        return call.answer(b"ERROR cannot pipeline other commands before watch");
    }
    let mut streams = 0;
    for word in call.words.by_ref() {
        match Stream::named(word) {
            Some(stream) => streams |= stream as u16,
            None => return call.answer(ERROR),
        }
    }
    if streams == 0 {
        streams = Stream::Fetchers as u16;
    }
    let server = call.context.server;
    let Some(watcher) = server.watchers.add(streams, settings.watcher_bytes, call.context.waker.clone())
    else {
        return call.answer(b"WATCHER_TOO_MANY log watcher limit reached");
    };
    call.output.line(b"OK");
    Next::Stream(Box::new(Watching { server: Arc::clone(server), watcher }))
}

/// Sends the lines of a watcher.
struct Watching {
    server: Arc<Server>,
    watcher: Arc<Watcher>,
}

impl Source for Watching {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        self.server.watchers.take(&self.watcher, out);
        true
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.server.watchers.remove(&self.watcher);
    }
}
