//! gatk: a value with its key; sets a new expiry.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::retrieval::{self, Shown};

/// The command `gatk`.
pub(crate) struct Gatk;

impl Command for Gatk {
    const OPCODE: u8 = 0x23;
    const QUIET: Option<u8> = Some(0x24);
    const NAME: &'static str = "gatk";
    const EXTRAS: &'static [u8] = &[4];
    const SHAPE: Shape = Shape::Key;

    fn run(call: &mut Call<'_>) -> Next {
        retrieval::run(call, Shown { touches: true, key: true, ..Shown::default() })
    }
}
