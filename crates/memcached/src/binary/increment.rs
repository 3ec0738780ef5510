//! increment: adds to a number.

use crate::next::Next;

use super::arithmetic;
use super::call::{Call, Command, Shape};

/// The command `increment`.
pub(crate) struct Increment;

impl Command for Increment {
    const OPCODE: u8 = 0x05;
    const QUIET: Option<u8> = Some(0x15);
    const NAME: &'static str = "increment";
    const EXTRAS: &'static [u8] = &[20];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        arithmetic::run(call, true)
    }
}
