//! ms: writes an item.

use crate::command_context::CommandContext;
use crate::next::{Next, Receipt};
use crate::operations::settle;
use crate::operations::store::{Outcome, Verb, Write, count, execute, refuse};
use crate::output::Bytes;
use crate::text::call::{BAD_FORMAT, Call};
use crate::text::storage::text as words_of;
use crate::words::{Words, push_number, unsigned};

use super::flags::{Flags, Request};

/// The largest length that the command may announce.
const LENGTH_MAX: u64 = i32::MAX as u64 - 2;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let (request, length) = match parse(call.line, call.context.now) {
        Ok(parsed) => parsed,
        Err((error, skip)) => {
            call.output.line(error);
            return if skip == 0 { Next::Done } else { Next::Skip { length: skip } };
        }
    };
    call.context.server.prefixes.set(&request.key);
    let refused = match write_of(&request.flags) {
        Err(error) => Some(error),
        Ok(write) if call.context.is_too_large(&request.key, length as u64, write.flags) => {
            refuse(call.context, &request.key, &Write { verb: Verb::Set, ..write }, Outcome::TooLarge);
            Some(words_of(Outcome::TooLarge))
        }
        Ok(_) => None,
    };
    if let Some(error) = refused {
        call.output.line(error);
        return Next::Skip { length: length + 2 };
    }
    call.receive(length + 2, finish)
}

/// Stores a complete value.
pub(crate) fn finish(receipt: Receipt<'_>) -> Next {
    let Receipt { head: line, value, output, context } = receipt;
    let parsed = parse(line, context.now).and_then(|(request, length)| {
        let write = write_of(&request.flags).map_err(|error| (error, 0))?;
        Ok((request, length, write))
    });
    let (request, length, write) = match parsed {
        Ok(parsed) => parsed,
        Err((error, _)) => {
            output.line(error);
            return Next::Done;
        }
    };
    if !value.bytes().ends_with(b"\r\n") {
        output.line(b"CLIENT_ERROR bad data chunk");
        return Next::Done;
    }
    let outcome = execute(context, &request.key, value.into_value(length), &write);
    let line: Box<[u8]> = line.into();
    settle(context, output, &request.key, outcome, move |context, key, outcome, out| {
        count(context, key, &write, outcome);
        answer(context, &line, outcome, out);
    })
}

/// Parses a line into the request and the value's length.
fn parse<'a>(line: &'a [u8], now: u32) -> Result<(Request<'a>, usize), (&'static [u8], usize)> {
    let mut words = Words::new(line);
    words.next();
    let (text, length) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let length = unsigned(length).filter(|length| *length <= LENGTH_MAX).ok_or((BAD_FORMAT, 0))? as usize;
    let request = Request::with_key(text, words, 3, now).map_err(|error| (error, length + 2))?;
    Ok((request, length))
}

/// Returns how to write the value; an error if the mode is invalid.
fn write_of(flags: &Flags<'_>) -> Result<Write, &'static [u8]> {
    let verb = match flags.mode {
        None | Some(b'S') => Verb::Set,
        Some(b'E') => Verb::Add,
        Some(b'A') => Verb::Append,
        Some(b'P') => Verb::Prepend,
        Some(b'R') => Verb::Replace,
        Some(_) => return Err(b"CLIENT_ERROR invalid mode for ms M token"),
    };
    let verb = match (verb, flags.compare) {
        (Verb::Set | Verb::Replace, Some(cas)) if flags.has(b'I') => Verb::CasOrStale(cas),
        (Verb::Set | Verb::Replace, Some(cas)) => Verb::Cas(cas),
        (verb, _) => verb,
    };
    let extends = matches!(verb, Verb::Append | Verb::Prepend);
    let expires_at = match flags.vivify {
        Some(vivify) if extends => vivify,
        _ => flags.expires_at.unwrap_or(0),
    };
    Ok(Write {
        cas: flags.cas,
        // a comparison with version 0 has no effect
        expected: flags.compare.filter(|cas| extends && *cas != 0),
        create: extends && flags.vivify.is_some(),
        ..Write::new(verb, flags.client_flags, expires_at)
    })
}

fn answer(context: &CommandContext<'_>, line: &[u8], outcome: Outcome, out: &mut Bytes) {
    let Ok((Request { text, flags, .. }, length)) = parse(line, context.now) else { return };
    let (code, cas, size): (&[u8], u64, u64) = match outcome {
        Outcome::Stored { .. } if flags.quiet => return,
        Outcome::Stored { cas, length } => (b"HD", cas, length),
        Outcome::NotStored => (b"NS", 0, length as u64),
        Outcome::Exists => (b"EX", 0, length as u64),
        Outcome::NotFound => (b"NF", 0, length as u64),
        Outcome::TooLarge | Outcome::NoMemory => {
            out.push(words_of(outcome));
            out.push(b"\r\n");
            return;
        }
    };
    let out = out.buffer();
    out.extend_from_slice(code);
    for word in flags.words() {
        let number = match word[0] {
            b'c' => context.shown_cas(cas),
            b's' => size,
            _ => {
                flags.write_common(word, text, out);
                continue;
            }
        };
        out.extend_from_slice(&[b' ', word[0]]);
        push_number(out, number);
    }
    out.extend_from_slice(b"\r\n");
}
