//! Finds the command of a packet and runs it.
//!
//! Invariant: a packet with contradictory lengths is answered with an error and ends the connection.
//! After every other packet the connection stays usable.

use crate::command_context::CommandContext;
use crate::commands;
use crate::input::Input;
use crate::next::{Ending, Next, Receipt};
use crate::operations::KEY_BYTES_MAX;
use crate::output::Output;

use super::call::{Call, Does, Entry, Shape};
use super::header::{HEADER_BYTES, Header, REQUEST_MAGIC, Status};
use super::storage;

/// The largest body in bytes.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// Answers one packet. Returns `None` if header, extras and key are not complete.
pub(crate) fn command(
    authenticated: &mut bool,
    input: &mut Input,
    output: &mut Output,
    context: &CommandContext<'_>,
) -> Option<Next> {
    let unread = input.unread();
    let header = Header::read(unread)?;
    if header.magic != REQUEST_MAGIC {
        return Some(Next::End(Ending::Error));
    }
    let lengths = usize::from(header.extras) + usize::from(header.key);
    if header.body as usize >= lengths && unread.len() < HEADER_BYTES + lengths {
        return None;
    }
    if let Some(status) = check(&header, *authenticated, context) {
        header.write_error(status, output.tail());
        input.consume(unread.len());
        return Some(Next::End(Ending::Error));
    }
    let (head, rest) = unread.split_at(HEADER_BYTES + lengths);
    let (extras, key) = head[HEADER_BYTES..].split_at(usize::from(header.extras));
    let value = header.value_length();
    let Some(command) = find(header.opcode) else {
        header.write_error(Status::UnknownCommand, output.tail());
        input.consume(head.len());
        return Some(Next::Skip { length: value });
    };
    if !fits(command, &header) {
        header.write_error(Status::Invalid, output.tail());
        input.consume(unread.len());
        return Some(Next::End(Ending::Error));
    }
    let quiet = command.quiet == Some(header.opcode);
    let mut call = Call { authenticated, context, output, header, head, extras, key, rest, used: 0, quiet };
    let next = match command.does {
        Does::Store(verb) => storage::begin(&mut call, verb),
        Does::Run(run) => run(&mut call),
    };
    let used = head.len() + call.used;
    if let Next::NeedsInput = next {
        return None;
    }
    input.consume(used);
    Some(next)
}

/// Answers a packet whose value is complete.
pub(crate) fn finish(receipt: Receipt<'_>) -> Next {
    let Some(header) = Header::read(receipt.head) else { return Next::Done };
    match find(header.opcode) {
        Some(Entry { does: Does::Store(verb), quiet, .. }) => {
            storage::finish(receipt, *verb, *quiet == Some(header.opcode))
        }
        _ => Next::Done,
    }
}

/// Answers that there is no memory to receive a value.
pub(crate) fn refuse_for_memory(head: &[u8], output: &mut Output, context: &CommandContext<'_>) {
    context.counters.totals.store_no_memory.add(1);
    if let Some(header) = Header::read(head) {
        header.write_error(Status::NoMemory, output.tail());
    }
}

fn find(opcode: u8) -> Option<&'static Entry> {
    commands::BINARY.iter().find(|command| command.opcode == opcode || command.quiet == Some(opcode))
}

/// Returns the error with which a packet ends the connection, if it does.
fn check(header: &Header, authenticated: bool, context: &CommandContext<'_>) -> Option<Status> {
    if u32::from(header.key) + u32::from(header.extras) > header.body {
        return Some(Status::UnknownCommand);
    }
    if header.body > BODY_BYTES_MAX {
        return Some(Status::Invalid);
    }
    let open = || commands::BINARY.iter().any(|command| command.open && command.opcode == header.opcode);
    if context.settings().sasl && !authenticated && !open() {
        return Some(Status::NotAuthenticated);
    }
    (usize::from(header.key) > KEY_BYTES_MAX).then_some(Status::Invalid)
}

fn fits(command: &Entry, header: &Header) -> bool {
    let (key, value) = (header.key > 0, header.value_length() > 0);
    let shape = match command.shape {
        Shape::Bare => !key && !value,
        Shape::Key => key && !value,
        Shape::MaybeKey => !value,
        Shape::KeyAndValue => key,
    };
    shape && command.extras.contains(&header.extras)
}
