//! verbosity: sets what is logged.

use crate::next::Next;
use crate::words::unsigned_32;

use super::call::{Call, Command};

/// The highest log level that is stored.
const VERBOSITY_MAX: u32 = 2;

/// The command `verbosity`.
pub(crate) struct Verbosity;

impl Command for Verbosity {
    const NAME: &'static str = "verbosity";
    const ARGUMENTS: &'static str = "LEVEL [noreply]";
    const ABOUT: &'static str = "sets the level of the log";

    fn run(call: &mut Call<'_>) -> Next {
        match call.words.next().and_then(unsigned_32) {
            None => call.bad_format(),
            Some(level) => {
                call.context.server.set_verbosity(level.min(VERBOSITY_MAX));
                call.answer(b"OK")
            }
        }
    }
}
