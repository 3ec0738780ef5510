//! gat: a value; sets a new expiry.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::retrieval::{self, Shown};

/// The command `gat`.
pub(crate) struct Gat;

impl Command for Gat {
    const OPCODE: u8 = 0x1d;
    const QUIET: Option<u8> = Some(0x1e);
    const NAME: &'static str = "gat";
    const EXTRAS: &'static [u8] = &[4];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        retrieval::run(call, Shown { touches: true, ..Shown::default() })
    }
}
