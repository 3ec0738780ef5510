//! touch: sets a new expiry.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::retrieval::{self, Shown};

/// The command `touch`.
pub(crate) struct Touch;

impl Command for Touch {
    const OPCODE: u8 = 0x1c;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "touch";
    const EXTRAS: &'static [u8] = &[4];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        retrieval::run(call, Shown { touches: true, bare: true, ..Shown::default() })
    }
}
