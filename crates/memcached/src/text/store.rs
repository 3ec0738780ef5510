//! set, add, replace, append, prepend and cas; receiving the values of these and of `ms`.

use crate::meta;
use crate::operations::store::{Outcome, Verb, Write, count, execute, refuse};
use crate::operations::{KEY_BYTES_MAX, settle};
use crate::output::Output;
use crate::session::{Next, Received};
use crate::time::expires_at;
use crate::turn::Turn;
use crate::words::{Words, signed, unsigned, unsigned_32};

use super::{BAD_FORMAT, Call, TextCommand, is_silent};

/// Largest length that a storage command may give.
const LENGTH_MAX: u64 = i32::MAX as u64 - 2;

pub(crate) const SET: TextCommand = command("set", "stores a value");
pub(crate) const ADD: TextCommand = command("add", "stores a value if there is none");
pub(crate) const REPLACE: TextCommand = command("replace", "stores a value if there is one");
pub(crate) const APPEND: TextCommand = command("append", "adds to the end of a value");
pub(crate) const PREPEND: TextCommand = command("prepend", "adds to the start of a value");
pub(crate) const CAS: TextCommand = TextCommand {
    arguments: "KEY FLAGS EXPIRY BYTES CAS [noreply]",
    ..command("cas", "stores a value if the item still has this version number")
};

const fn command(name: &'static str, about: &'static str) -> TextCommand {
    TextCommand { name, arguments: "KEY FLAGS EXPIRY BYTES [noreply]", about, words: 5, run: begin }
}

/// A storage command's line.
struct Request<'a> {
    key: &'a [u8],
    write: Write,
    length: usize,
}

/// Why a line is none, and how many bytes of value follow it.
struct Malformed {
    skip: usize,
}

fn parse<'a>(line: &'a [u8], now: u32) -> Result<Request<'a>, Malformed> {
    let mut words = Words::new(line);
    let name = words.next().unwrap_or_default();
    let mut word = || words.next().unwrap_or_default();
    let (key, flags, expiry, length) = (word(), word(), word(), word());
    let length =
        unsigned(length).filter(|length| *length <= LENGTH_MAX).ok_or(Malformed { skip: 0 })? as usize;
    let malformed = || Malformed { skip: length + 2 };
    if key.len() > KEY_BYTES_MAX {
        return Err(malformed());
    }
    let flags = unsigned_32(flags).ok_or_else(malformed)?;
    let expires_at = expires_at(signed(expiry).ok_or_else(malformed)?, now);
    let verb = match name {
        b"add" => Verb::Add,
        b"replace" => Verb::Replace,
        b"append" => Verb::Append,
        b"prepend" => Verb::Prepend,
        b"cas" => Verb::Cas(unsigned(word()).ok_or_else(malformed)?),
        _ => Verb::Set,
    };
    Ok(Request { key, write: Write::new(verb, flags, expires_at), length })
}

fn begin(call: &mut Call<'_>) -> Next {
    let request = match parse(call.line, call.turn.now) {
        Ok(request) => request,
        Err(Malformed { skip }) => {
            call.bad_format();
            return if skip == 0 { Next::Done } else { Next::Skip { length: skip } };
        }
    };
    call.turn.server.prefixes.set(request.key);
    let Request { key, write, length } = request;
    if call.turn.is_too_large(key, length as u64, write.flags) {
        refuse(call.turn, key, &write, Outcome::TooLarge);
        call.answer(text(Outcome::TooLarge));
        return Next::Skip { length: length + 2 };
    }
    receive(call, length + 2)
}

/// Stores the value when it has come whole with the line, else says what to receive.
pub(crate) fn receive(call: &mut Call<'_>, length: usize) -> Next {
    if call.rest.len() < length {
        return Next::Receive { head: call.line.into(), length };
    }
    call.used = length;
    finish(call.line, Received::Borrowed(&call.rest[..length]), call.output, call.turn)
}

/// Stores a value that has come whole.
pub(crate) fn finish(line: &[u8], value: Received<'_>, output: &mut Output, turn: &Turn<'_>) -> Next {
    if line.starts_with(b"ms ") {
        return meta::set::finish(line, value, output, turn);
    }
    let silent = is_silent(line);
    let Ok(Request { key, write, length }) = parse(line, turn.now) else {
        output.line(BAD_FORMAT);
        return Next::Done;
    };
    if !value.bytes().ends_with(b"\r\n") {
        if !silent {
            output.line(b"CLIENT_ERROR bad data chunk");
        }
        return Next::Done;
    }
    let outcome = execute(turn, key, value.into_value(length), &write);
    settle(turn, output, key, outcome, move |turn, key, outcome, out| {
        count(turn, key, &write, outcome);
        if !silent {
            out.push(text(outcome));
            out.push(b"\r\n");
        }
    })
}

/// Answers that there is no memory to receive a value.
pub(crate) fn refuse_for_memory(line: &[u8], output: &mut Output, turn: &Turn<'_>) {
    turn.counters.totals.store_no_memory.add(1);
    if !is_silent(line) || line.starts_with(b"ms ") {
        output.line(text(Outcome::NoMemory));
    }
}

/// The answer's words.
pub(crate) fn text(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::Stored { .. } => b"STORED",
        Outcome::NotStored => b"NOT_STORED",
        Outcome::Exists => b"EXISTS",
        Outcome::NotFound => b"NOT_FOUND",
        Outcome::TooLarge => b"SERVER_ERROR object too large for cache",
        Outcome::NoMemory => b"SERVER_ERROR out of memory storing object",
    }
}
