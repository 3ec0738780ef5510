//! set, add, replace, append, prepend and delete, and their quiet forms.

use crate::operations::settle;
use crate::operations::store::{Outcome, Verb, Write, count, execute, refuse};
use crate::operations::{delete, store};
use crate::output::Output;
use crate::session::{Next, Received};
use crate::time::expires_at;
use crate::turn::Turn;

use super::{BinaryCommand, Call, HEADER_BYTES, Header, Shape, Status, number_32, write_outcome};

pub(crate) const SET: BinaryCommand = command(0x01, 0x11, "set", &[8]);
pub(crate) const ADD: BinaryCommand = command(0x02, 0x12, "add", &[8]);
pub(crate) const REPLACE: BinaryCommand = command(0x03, 0x13, "replace", &[8]);
pub(crate) const APPEND: BinaryCommand = command(0x0e, 0x19, "append", &[0]);
pub(crate) const PREPEND: BinaryCommand = command(0x0f, 0x1a, "prepend", &[0]);
pub(crate) const DELETE: BinaryCommand = BinaryCommand {
    opcode: 0x04,
    quiet: Some(0x14),
    name: "delete",
    extras: &[0],
    shape: Shape::Key,
    open: false,
    run: remove,
};

const fn command(opcode: u8, quiet: u8, name: &'static str, extras: &'static [u8]) -> BinaryCommand {
    let (quiet, shape) = (Some(quiet), Shape::KeyAndValue);
    BinaryCommand { opcode, quiet, name, extras, shape, open: false, run: begin }
}

/// How a packet wants its value written, and whether quietly.
fn write_of(header: &Header, extras: &[u8], now: u32) -> (Write, bool) {
    let (verb, quiet) = match header.opcode {
        0x02 | 0x12 => (Verb::Add, header.opcode == 0x12),
        0x03 | 0x13 => (Verb::Replace, header.opcode == 0x13),
        0x0e | 0x19 => (Verb::Append, header.opcode == 0x19),
        0x0f | 0x1a => (Verb::Prepend, header.opcode == 0x1a),
        _ => (Verb::Set, header.opcode == 0x11),
    };
    let extends = matches!(verb, Verb::Append | Verb::Prepend);
    let verb = if header.cas != 0 && !extends { Verb::Cas(header.cas) } else { verb };
    let expires_at = if extends { 0 } else { expires_at(i64::from(number_32(extras, 4)), now) };
    let flags = if extends { 0 } else { number_32(extras, 0) };
    let expected = (extends && header.cas != 0).then_some(header.cas);
    (Write { expected, ..Write::new(verb, flags, expires_at) }, quiet)
}

fn begin(call: &mut Call<'_>) -> Next {
    let (turn, length) = (call.turn, call.value_length());
    let (write, _) = write_of(&call.header, call.extras, turn.now);
    turn.server.prefixes.set(call.key);
    if turn.is_too_large(call.key, length as u64, write.flags) {
        refuse(turn, call.key, &write, Outcome::TooLarge);
        call.error(Status::TooLarge);
        return Next::Skip { length };
    }
    if call.rest.len() < length {
        return Next::Receive { head: call.head.into(), length };
    }
    call.used = length;
    finish(call.head, Received::Borrowed(&call.rest[..length]), call.output, turn)
}

/// Stores a value that has come whole.
pub(crate) fn finish(head: &[u8], value: Received<'_>, output: &mut Output, turn: &Turn<'_>) -> Next {
    let Some(header) = Header::read(head) else { return Next::Done };
    let (extras, key) = head[HEADER_BYTES..].split_at(usize::from(header.extras));
    let (write, quiet) = write_of(&header, extras, turn.now);
    let outcome = execute(turn, key, value.into_value(header.value_length()), &write);
    settle(turn, output, key, outcome, move |turn, key, outcome, out| {
        count(turn, key, &write, outcome);
        let outcome = match outcome {
            Outcome::Stored { cas, .. } => Ok(turn.shown_cas(cas)),
            other => Err(status(other, write.verb)),
        };
        write_outcome(&header, quiet, outcome, out);
    })
}

/// Answers that there is no memory to receive a value.
pub(crate) fn refuse_for_memory(head: &[u8], output: &mut Output, turn: &Turn<'_>) {
    turn.counters.totals.store_no_memory.add(1);
    if let Some(header) = Header::read(head) {
        header.write_error(Status::NoMemory, output.tail());
    }
}

fn status(outcome: store::Outcome, verb: Verb) -> Status {
    match (outcome, verb) {
        (Outcome::Exists, _) | (Outcome::NotStored, Verb::Add) => Status::Exists,
        (Outcome::NotFound, _) | (Outcome::NotStored, Verb::Replace) => Status::NotFound,
        (Outcome::TooLarge, _) => Status::TooLarge,
        (Outcome::NoMemory, _) => Status::NoMemory,
        _ => Status::NotStored,
    }
}

fn remove(call: &mut Call<'_>) -> Next {
    let (turn, header, quiet) = (call.turn, call.header, call.quiet);
    turn.server.prefixes.delete(call.key);
    let expected = (header.cas != 0).then_some(header.cas);
    let delete = delete::Delete { expected, ..delete::Delete::default() };
    let outcome = delete::execute(turn, call.key, delete);
    settle(turn, call.output, call.key, outcome, move |turn, key, outcome, out| {
        delete::count(turn, key, "delete", outcome);
        let outcome = match outcome {
            delete::Outcome::Deleted { .. } | delete::Outcome::Marked => Ok(0),
            delete::Outcome::NotFound => Err(Status::NotFound),
            delete::Outcome::Exists => Err(Status::Exists),
            delete::Outcome::NoMemory => Err(Status::NoMemory),
        };
        write_outcome(&header, quiet, outcome, out);
    })
}
