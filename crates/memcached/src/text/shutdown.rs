//! shutdown: stops the server.

use crate::next::{Ending, Next};

use super::call::{Call, Command};

/// The command `shutdown`.
pub(crate) struct Shutdown;

impl Command for Shutdown {
    const NAME: &'static str = "shutdown";
    const ARGUMENTS: &'static str = "[graceful]";
    const ABOUT: &'static str = "stops the server, if started with -A";

    fn run(call: &mut Call<'_>) -> Next {
        if !call.context.settings().shutdown_allowed {
            return call.answer(b"SERVER_ERROR: shutdown not enabled");
        }
        match (call.words.next(), call.words.next()) {
            (None, _) => call.context.server.stop(false),
            (Some(b"graceful"), None) => call.context.server.stop(true),
            _ => return call.answer(b"CLIENT_ERROR invalid shutdown mode"),
        }
        Next::End(Ending::Shutdown)
    }
}
