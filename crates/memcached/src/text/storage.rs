//! The common part of set, add, replace, append, prepend and cas.

use crate::next::{Next, Receipt};
use crate::operations::store::{Outcome, Verb, Write, count, execute, refuse};
use crate::operations::{KEY_BYTES_MAX, settle};
use crate::time::expires_at;
use crate::words::{Words, signed, unsigned, unsigned_32};

use super::call::{BAD_FORMAT, Call, is_silent};

/// The largest length that a storage command may announce.
const LENGTH_MAX: u64 = i32::MAX as u64 - 2;

/// The parsed line of a storage command.
struct Request<'a> {
    key: &'a [u8],
    write: Write,
    length: usize,
}

/// A malformed line, with the number of bytes of value that follow it.
struct Malformed {
    skip: usize,
}

fn parse(line: &[u8], now: u32) -> Result<Request<'_>, Malformed> {
    let mut words = Words::new(line);
    let mut word = || words.next().unwrap_or_default();
    let (name, key, flags, expiry, length) = (word(), word(), word(), word(), word());
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

/// Answers a line.
pub(crate) fn begin(call: &mut Call<'_>) -> Next {
    let request = match parse(call.line, call.context.now) {
        Ok(request) => request,
        Err(Malformed { skip }) => {
            call.bad_format();
            return if skip == 0 { Next::Done } else { Next::Skip { length: skip } };
        }
    };
    call.context.server.prefixes.set(request.key);
    let Request { key, write, length } = request;
    if call.context.is_too_large(key, length as u64, write.flags) {
        refuse(call.context, key, &write, Outcome::TooLarge);
        call.answer(text(Outcome::TooLarge));
        return Next::Skip { length: length + 2 };
    }
    call.receive(length + 2, finish)
}

/// Stores a complete value.
pub(crate) fn finish(receipt: Receipt<'_>) -> Next {
    let Receipt { head: line, value, output, context } = receipt;
    let silent = is_silent(line);
    let Ok(Request { key, write, length }) = parse(line, context.now) else {
        output.line(BAD_FORMAT);
        return Next::Done;
    };
    if !value.bytes().ends_with(b"\r\n") {
        if !silent {
            output.line(b"CLIENT_ERROR bad data chunk");
        }
        return Next::Done;
    }
    let outcome = execute(context, key, value.into_value(length), &write);
    settle(context, output, key, outcome, move |context, key, outcome, out| {
        count(context, key, &write, outcome);
        if !silent {
            out.push(text(outcome));
            out.push(b"\r\n");
        }
    })
}

/// Returns the answer for an outcome.
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
