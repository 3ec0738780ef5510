//! sasl step.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::sasl::authenticate;

/// The command `sasl step`.
pub(crate) struct SaslStep;

impl Command for SaslStep {
    const OPCODE: u8 = 0x22;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "sasl step";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::KeyAndValue;
    const OPEN: bool = true;

    fn run(call: &mut Call<'_>) -> Next {
        // PLAIN has one step, so a second one belongs to no authentication
        authenticate(call, false)
    }
}
