//! flush: voids all items, now or later.

use crate::next::Next;
use crate::operations::flush::flush;

use super::call::{Call, number_32};
use super::header::Status;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    if !call.context.settings().flush_allowed {
        return call.error(Status::NotAuthenticated);
    }
    call.context.counters.totals.flush_cmds.add(1);
    flush(call.context, i64::from(number_32(call.extras, 0)));
    call.done(0)
}
