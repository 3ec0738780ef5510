//! Finds the command of a line and runs it.
//!
//! Invariants: a line ends with LF; a CR before it is dropped. A command does not depend on how its
//! bytes were split.

use sandur_base::begins_http_request;

use crate::command_context::CommandContext;
use crate::commands;
use crate::input::Input;
use crate::next::{Ending, Next, Receipt};
use crate::operations::store::Outcome;
use crate::output::Output;
use crate::words::Words;

use super::call::{Call, ERROR, Entry, is_silent, next_line};
use super::storage::text;

/// Bytes without a line end after which only a multiget may continue.
const LINE_BYTES_MAX: usize = 2048;

/// Answers one command. Returns `None` if its line is not complete.
pub(crate) fn command(input: &mut Input, output: &mut Output, context: &CommandContext<'_>) -> Option<Next> {
    let Some((line, length)) = next_line(input.unread()) else {
        return is_hopeless(input.unread()).then_some(Next::End(Ending::Error));
    };
    let rest = &input.unread()[length..];
    let first_in_output = output.is_empty();
    let words = Words::new(line);
    let mut call = Call { context, output, line, words, rest, used: 0, first_in_output };
    let next = dispatch(&mut call, length);
    let used = call.used;
    if let Next::Resume(_) = next {
        return Some(next); // the line stays in the input until its last key is answered
    }
    input.consume(length + used);
    Some(next)
}

/// Answers a command whose value is complete.
pub(crate) fn finish(receipt: Receipt<'_>) -> Next {
    match Words::new(receipt.head).next().and_then(find) {
        Some(command) => (command.finish)(receipt),
        None => Next::Done,
    }
}

/// Answers that there is no memory to receive a value.
pub(crate) fn refuse_for_memory(line: &[u8], output: &mut Output, context: &CommandContext<'_>) {
    context.counters.totals.store_no_memory.add(1);
    let has_noreply = Words::new(line).next().and_then(find).is_none_or(|command| command.has_noreply);
    if !has_noreply || !is_silent(line) {
        output.line(text(Outcome::NoMemory));
    }
}

#[inline]
fn find(name: &[u8]) -> Option<&'static Entry> {
    commands::TEXT.iter().find(|command| command.name.as_bytes() == name)
}

/// Returns whether bytes without a line end cannot be a command: only multigets are that long.
fn is_hopeless(unread: &[u8]) -> bool {
    if unread.len() <= LINE_BYTES_MAX {
        return false;
    }
    let start = unread.iter().take_while(|byte| **byte == b' ').count();
    start > 100 || !(unread[start..].starts_with(b"get ") || unread[start..].starts_with(b"gets "))
}

#[inline]
fn dispatch(call: &mut Call<'_>, length: usize) -> Next {
    if length < 4 {
        return call.bad_format(); // memcached's shortest command is two letters and CR LF
    }
    let Some(name) = call.words.next() else { return call.answer(ERROR) };
    let Some(command) = find(name) else { return unknown(call) };
    if command.words > 1 && call.words.clone().take(command.words - 1).count() < command.words - 1 {
        return call.bad_format();
    }
    (command.run)(call)
}

fn unknown(call: &mut Call<'_>) -> Next {
    // a browser or a probe that expects an HTTP server must not wait for an answer, and the lines in the
    // body of a web page's request must not be executed as commands
    match begins_http_request(call.line) {
        true => end_http_request(call.context),
        false => call.answer(ERROR),
    }
}

/// Closes a connection that sent an HTTP request.
pub(super) fn end_http_request(context: &CommandContext<'_>) -> Next {
    context.counters.totals.http_requests.add(1);
    context.server.log_http_request(context.now);
    Next::End(Ending::Error)
}
