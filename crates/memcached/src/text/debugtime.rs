//! debugtime: moves the server's clock forward.
//!
//! A command of memcached's debug build, which its test suite needs. It is an error unless the server
//! was started with `-o relaxed_privileges`, an option that only that build has.

use std::time::Duration;

use crate::next::Next;
use crate::words::signed;

use super::call::{Call, Command, ERROR};

/// The command `debugtime`.
pub(crate) struct Debugtime;

impl Command for Debugtime {
    const NAME: &'static str = "debugtime";
    const ARGUMENTS: &'static str = "SECONDS";
    const ABOUT: &'static str = "moves the server's clock forward (tests only)";

    fn run(call: &mut Call<'_>) -> Next {
        if !call.context.settings().test_commands {
            return call.answer(ERROR);
        }
        let Some(seconds) = call.words.next().and_then(signed).and_then(|s| u64::try_from(s).ok()) else {
            return call.answer(ERROR);
        };
        call.context.server.turn_clock(Duration::from_secs(seconds));
        call.answer(b"OK")
    }
}
