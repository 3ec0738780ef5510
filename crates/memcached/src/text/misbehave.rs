//! misbehave: ends the connection.
//!
//! A command of memcached's debug build, which its test suite needs. It is an error unless the server
//! was started with `-o relaxed_privileges`, an option that only that build has.

use crate::next::{Ending, Next};

use super::call::{Call, Command, ERROR};

/// The command `misbehave`.
pub(crate) struct Misbehave;

impl Command for Misbehave {
    const NAME: &'static str = "misbehave";
    const ABOUT: &'static str = "ends the connection (tests only)";

    fn run(call: &mut Call<'_>) -> Next {
        if !call.context.settings().test_commands {
            return call.answer(ERROR);
        }
        Next::End(Ending::Error)
    }
}
