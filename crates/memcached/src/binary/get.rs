//! get: a value.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::retrieval::{self, Shown};

/// The command `get`.
pub(crate) struct Get;

impl Command for Get {
    const OPCODE: u8 = 0x00;
    const QUIET: Option<u8> = Some(0x09);
    const NAME: &'static str = "get";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        retrieval::run(call, Shown::default())
    }
}
