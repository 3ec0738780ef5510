//! version: the server's version.

use crate::arguments;
use crate::next::Next;

use super::call::{Call, Command, Shape};
use super::header::Status;

/// The command `version`.
pub(crate) struct Version;

impl Command for Version {
    const OPCODE: u8 = 0x0b;
    const QUIET: Option<u8> = None;
    const NAME: &'static str = "version";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::Bare;
    const OPEN: bool = true;

    fn run(call: &mut Call<'_>) -> Next {
        let version = arguments::VERSION.as_bytes();
        call.header.write(Status::Ok, 0, &[], &[], version, call.output.tail());
        Next::Done
    }
}
