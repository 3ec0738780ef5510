//! version: the server's version.

use crate::arguments::VERSION;
use crate::next::Next;

use super::call::{Call, Command};

/// The command `version`.
pub(crate) struct Version;

impl Command for Version {
    const NAME: &'static str = "version";
    const ABOUT: &'static str = "returns the server's version";

    fn run(call: &mut Call<'_>) -> Next {
        let line = format!("VERSION {VERSION}");
        call.answer(line.as_bytes())
    }
}
