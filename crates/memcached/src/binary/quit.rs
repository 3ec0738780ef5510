//! quit: ends the connection.

use crate::next::{Ending, Next};

use super::call::{Call, Command, Shape};

/// The command `quit`.
pub(crate) struct Quit;

impl Command for Quit {
    const OPCODE: u8 = 0x07;
    const QUIET: Option<u8> = Some(0x17);
    const NAME: &'static str = "quit";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Bare;

    fn run(call: &mut Call<'_>) -> Next {
        call.done(0);
        Next::End(Ending::Normal)
    }
}
