//! watch.

use std::sync::Arc;

use crate::session::{Next, Watching};
use crate::watch::Stream;

use super::{Call, ERROR, TextCommand};

pub(crate) const WATCH: TextCommand = TextCommand {
    name: "watch",
    arguments: "[fetchers|mutations|evictions|deletions|connevents|sysevents ...]",
    about: "turns the connection into a log of what happens",
    words: 1,
    run,
};

fn run(call: &mut Call<'_>) -> Next {
    let settings = call.turn.settings();
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
    let server = call.turn.server;
    let Some(watcher) = server.watchers.add(streams, settings.watcher_bytes, call.turn.waker.clone()) else {
        return call.answer(b"WATCHER_TOO_MANY log watcher limit reached");
    };
    call.output.line(b"OK");
    Next::Stream(Box::new(Watching { server: Arc::clone(server), watcher }))
}
