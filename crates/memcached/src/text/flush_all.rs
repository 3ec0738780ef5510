//! flush_all.

use crate::session::Next;
use crate::time::expires_at;
use crate::turn::Turn;
use crate::words::signed;

use super::{Call, TextCommand};

pub(crate) const FLUSH_ALL: TextCommand = TextCommand {
    name: "flush_all",
    arguments: "[DELAY] [noreply]",
    about: "voids all items, now or after DELAY seconds",
    words: 1,
    run,
};

fn run(call: &mut Call<'_>) -> Next {
    call.turn.counters.totals.flush_cmds.add(1);
    if !call.turn.settings().flush_allowed {
        return call.answer(b"CLIENT_ERROR flush_all not allowed");
    }
    let delay = match call.words.next() {
        None | Some(b"noreply") => Some(0),
        Some(word) => signed(word),
    };
    let Some(delay) = delay else {
        return call.answer(b"CLIENT_ERROR invalid exptime argument");
    };
    flush(call.turn, delay);
    call.answer(b"OK")
}

/// Voids all items, at once or later.
pub(crate) fn flush(turn: &Turn<'_>, delay: i64) {
    let at = (delay > 0).then(|| expires_at(delay, turn.now)).filter(|at| *at > turn.now);
    turn.server.flush_all(at);
}
