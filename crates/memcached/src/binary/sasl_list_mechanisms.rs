//! sasl list mechanisms.

use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::header::Status;

/// The command `sasl list mechanisms`.
pub(crate) struct SaslListMechanisms;

impl Command for SaslListMechanisms {
    const OPCODE: u8 = 0x20;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "sasl list mechanisms";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Bare;
    const OPEN: bool = true;

    fn run(call: &mut Call<'_>) -> Next {
        if !call.context.settings().sasl {
            return call.error(Status::UnknownCommand);
        }
        call.header.write(Status::Ok, 0, &[], &[], b"PLAIN", call.output.tail());
        Next::Done
    }
}
