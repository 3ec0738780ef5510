//! decrement: subtracts from a number.

use crate::next::Next;

use super::arithmetic;
use super::call::{Call, Command, Shape};

/// The command `decrement`.
pub(crate) struct Decrement;

impl Command for Decrement {
    const OPCODE: u8 = 0x06;
    const QUIET: Option<u8> = Some(0x16);
    const NAME: &'static str = "decrement";
    const EXTRAS: &'static [u8] = &[20];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        arithmetic::run(call, false)
    }
}
