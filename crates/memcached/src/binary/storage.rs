//! The common part of set, add, replace, append and prepend.

use crate::next::{Next, Receipt, Received};
use crate::operations::settle;
use crate::operations::store::{Outcome, Verb, Write, count, execute, refuse};
use crate::time::expires_at;

use super::call::{Call, number_32, write_outcome};
use super::header::{HEADER_BYTES, Header, Status};

/// Returns how a packet's value is to be written.
fn write_of(verb: Verb, header: &Header, extras: &[u8], now: u32) -> Write {
    let extends = matches!(verb, Verb::Append | Verb::Prepend);
    let verb = if header.cas != 0 && !extends { Verb::Cas(header.cas) } else { verb };
    let expires_at = if extends { 0 } else { expires_at(i64::from(number_32(extras, 4)), now) };
    let flags = if extends { 0 } else { number_32(extras, 0) };
    let expected = (extends && header.cas != 0).then_some(header.cas);
    Write { expected, ..Write::new(verb, flags, expires_at) }
}

/// Answers a packet; `verb` is the operation, if the packet has no version number.
pub(super) fn begin(call: &mut Call<'_>, verb: Verb) -> Next {
    let (context, length) = (call.context, call.value_length());
    let write = write_of(verb, &call.header, call.extras, context.now);
    context.server.prefixes.set(call.key);
    if context.is_too_large(call.key, length as u64, write.flags) {
        refuse(context, call.key, &write, Outcome::TooLarge);
        call.error(Status::TooLarge);
        return Next::Skip { length };
    }
    if call.rest.len() < length {
        return Next::Receive { head: call.head.into(), length };
    }
    call.used = length;
    let value = Received::Borrowed(&call.rest[..length]);
    finish(Receipt { head: call.head, value, output: call.output, context }, verb, call.quiet)
}

/// Stores a complete value.
pub(super) fn finish(receipt: Receipt<'_>, verb: Verb, quiet: bool) -> Next {
    let Receipt { head, value, output, context } = receipt;
    let Some(header) = Header::read(head) else { return Next::Done };
    let (extras, key) = head[HEADER_BYTES..].split_at(usize::from(header.extras));
    let write = write_of(verb, &header, extras, context.now);
    let outcome = execute(context, key, value.into_value(header.value_length()), &write);
    settle(context, output, key, outcome, move |context, key, outcome, out| {
        count(context, key, &write, outcome);
        let outcome = match outcome {
            Outcome::Stored { cas, .. } => Ok(context.shown_cas(cas)),
            other => Err(status(other, write.verb)),
        };
        write_outcome(&header, quiet, outcome, out);
    })
}

fn status(outcome: Outcome, verb: Verb) -> Status {
    match (outcome, verb) {
        (Outcome::Exists, _) | (Outcome::NotStored, Verb::Add) => Status::Exists,
        (Outcome::NotFound, _) | (Outcome::NotStored, Verb::Replace) => Status::NotFound,
        (Outcome::TooLarge, _) => Status::TooLarge,
        (Outcome::NoMemory, _) => Status::NoMemory,
        _ => Status::NotStored,
    }
}
