//! sasl auth.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::sasl::authenticate;

/// The command `sasl auth`.
pub(crate) struct SaslAuth;

impl Command for SaslAuth {
    const OPCODE: u8 = 0x21;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "sasl auth";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::KeyAndValue;
    const OPEN: bool = true;

    fn run(call: &mut Call<'_>) -> Next {
        authenticate(call, true)
    }
}
