//! noop: does nothing.

use crate::next::Next;

use super::call::{Call, Command, Shape};

/// The command `noop`.
pub(crate) struct Noop;

impl Command for Noop {
    const OPCODE: u8 = 0x0a;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "noop";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Bare;

    fn run(call: &mut Call<'_>) -> Next {
        call.done(0)
    }
}
