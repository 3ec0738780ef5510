//! flush: voids all items, now or later.

use crate::next::Next;
use crate::operations::flush::flush;

use super::call::{Call, Command, Shape, number_32};
use super::header::Status;

/// The command `flush`.
pub(crate) struct Flush;

impl Command for Flush {
    const OPCODE: u8 = 0x08;
    const QUIET: Option<u8> = Some(0x18);
    const NAME: &'static str = "flush";
    const EXTRAS: &'static [u8] = &[0, 4];
    const SHAPE: Shape = Shape::Bare;

    fn run(call: &mut Call<'_>) -> Next {
        if !call.context.settings().flush_allowed {
            return call.error(Status::NotAuthenticated);
        }
        call.context.counters.totals.flush_cmds.add(1);
        flush(call.context, i64::from(number_32(call.extras, 0)));
        call.done(0)
    }
}
