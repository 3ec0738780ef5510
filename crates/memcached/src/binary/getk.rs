//! getk: a value with its key.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::retrieval::{self, Shown};

/// The command `getk`.
pub(crate) struct Getk;

impl Command for Getk {
    const OPCODE: u8 = 0x0c;
    const QUIET: Option<u8> = Some(0x0d);
    const NAME: &'static str = "getk";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        retrieval::run(call, Shown { key: true, ..Shown::default() })
    }
}
