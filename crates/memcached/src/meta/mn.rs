//! mn: does nothing; its answer ends a series of quiet commands.

use crate::next::Next;
use crate::text::call::{Call, Command};

/// The command `mn`.
pub(crate) struct Mn;

impl Command for Mn {
    const NAME: &'static str = "mn";
    const ABOUT: &'static str = "does nothing; its answer marks the end of a series of quiet commands";
    const HAS_NOREPLY: bool = false;

    fn run(call: &mut Call<'_>) -> Next {
        call.output.line(b"MN");
        Next::Done
    }
}
