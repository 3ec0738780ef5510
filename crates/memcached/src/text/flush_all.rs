//! flush_all: voids all items, now or later.

use crate::next::Next;
use crate::operations::flush::flush;
use crate::words::signed;

use super::call::{Call, Command};

/// The command `flush_all`.
pub(crate) struct FlushAll;

impl Command for FlushAll {
    const NAME: &'static str = "flush_all";
    const ARGUMENTS: &'static str = "[DELAY] [noreply]";
    const ABOUT: &'static str = "invalidates all items, now or after DELAY seconds";

    fn run(call: &mut Call<'_>) -> Next {
        call.context.counters.totals.flush_cmds.add(1);
        if !call.context.settings().flush_allowed {
            return call.answer(b"CLIENT_ERROR flush_all not allowed");
        }
        let delay = match call.words.next() {
            None | Some(b"noreply") => Some(0),
            Some(word) => signed(word),
        };
        let Some(delay) = delay else {
            return call.answer(b"CLIENT_ERROR invalid exptime argument");
        };
        flush(call.context, delay);
        call.answer(b"OK")
    }
}
