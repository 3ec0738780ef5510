//! incr and decr.

use crate::operations::arithmetic::{Delta, Outcome, count, execute};
use crate::operations::{KEY_BYTES_MAX, settle};
use crate::session::Next;
use crate::words::{push_number, unsigned};

use super::{Call, TextCommand};

pub(crate) const INCR: TextCommand = TextCommand {
    name: "incr",
    arguments: "KEY NUMBER [noreply]",
    about: "adds to a number; wraps at 2^64",
    words: 3,
    run: |call| run(call, true),
};

pub(crate) const DECR: TextCommand = TextCommand {
    name: "decr",
    arguments: "KEY NUMBER [noreply]",
    about: "subtracts from a number; stops at 0",
    words: 3,
    run: |call| run(call, false),
};

fn run(call: &mut Call<'_>, increment: bool) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    let Some(by) = call.words.next().and_then(unsigned) else {
        return call.answer(b"CLIENT_ERROR invalid numeric delta argument");
    };
    let silent = call.is_silent();
    let delta = Delta { increment, by, expected: None, create: None, cas: None, expires_at: None };
    let outcome = execute(call.turn, key, delta);
    settle(call.turn, call.output, key, outcome, move |turn, key, outcome, out| {
        count(turn, key, &delta, &outcome);
        if silent {
            return;
        }
        match outcome {
            Outcome::Changed(changed) => push_number(out.buffer(), changed.value),
            other => out.push(text(other)),
        }
        out.push(b"\r\n");
    })
}

/// The answer's words when nothing was changed.
pub(crate) fn text(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::NotNumeric => b"CLIENT_ERROR cannot increment or decrement non-numeric value",
        Outcome::NotFound => b"NOT_FOUND",
        Outcome::Exists => b"EXISTS",
        Outcome::NoMemory | Outcome::Changed(_) => b"SERVER_ERROR out of memory",
    }
}
