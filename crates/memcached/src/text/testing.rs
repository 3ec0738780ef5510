//! Commands of memcached's debug build, which its test suite needs. They are errors unless the
//! server was started with `-o relaxed_privileges`, which only that build of memcached knows.

use std::time::Duration;

use crate::session::{Ending, Next};
use crate::words::signed;

use super::{Call, ERROR, TextCommand};

pub(crate) const DEBUGTIME: TextCommand = TextCommand {
    name: "debugtime",
    arguments: "SECONDS",
    about: "turns the server's clock forward (tests only)",
    words: 1,
    run: |call| {
        if !call.turn.settings().test_commands {
            return call.answer(ERROR);
        }
        let Some(seconds) = call.words.next().and_then(signed).and_then(|s| u64::try_from(s).ok()) else {
            return call.answer(ERROR);
        };
        call.turn.server.turn_clock(Duration::from_secs(seconds));
        call.answer(b"OK")
    },
};

pub(crate) const MISBEHAVE: TextCommand = TextCommand {
    name: "misbehave",
    arguments: "",
    about: "ends the connection (tests only)",
    words: 1,
    run: |call: &mut Call<'_>| {
        if !call.turn.settings().test_commands {
            return call.answer(ERROR);
        }
        Next::End(Ending::Error)
    },
};
