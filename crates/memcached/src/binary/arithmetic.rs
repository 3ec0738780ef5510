//! The common part of increment and decrement.

use crate::next::Next;
use crate::operations::arithmetic::{Create, Delta, Outcome, count, execute};
use crate::operations::settle;
use crate::time::expires_at;

use super::call::{Call, number_32, number_64};
use super::header::Status;

/// The expiry which says that a missing item must not be created.
const NOT_CREATED: u32 = u32::MAX;

/// Answers a packet.
pub(crate) fn run(call: &mut Call<'_>, increment: bool) -> Next {
    let (context, header, quiet) = (call.context, call.header, call.quiet);
    let expiry = number_32(call.extras, 16);
    let create = (expiry != NOT_CREATED).then(|| Create {
        initial: number_64(call.extras, 8),
        expires_at: expires_at(i64::from(expiry), context.now),
    });
    let expected = (header.cas != 0).then_some(header.cas);
    let by = number_64(call.extras, 0);
    let delta = Delta { increment, by, expected, create, cas: None, expires_at: None };
    let outcome = execute(context, call.key, delta);
    settle(context, call.output, call.key, outcome, move |context, key, outcome, out| {
        count(context, key, &delta, &outcome);
        let status = match outcome {
            Outcome::Changed(_) if quiet => return,
            Outcome::Changed(changed) => {
                let value = changed.value.to_be_bytes();
                return header.write(Status::Ok, context.shown_cas(changed.cas), &[], &[], &value, out);
            }
            Outcome::NotNumeric => Status::NotNumeric,
            Outcome::NotFound => Status::NotFound,
            Outcome::Exists => Status::Exists,
            Outcome::NoMemory => Status::NoMemory,
        };
        header.write_error(status, out);
    })
}
