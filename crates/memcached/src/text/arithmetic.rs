//! The common part of incr and decr.

use crate::next::Next;
use crate::operations::arithmetic::{Delta, Outcome, count, execute};
use crate::operations::{KEY_BYTES_MAX, settle};
use crate::words::{push_number, unsigned};

use super::call::Call;

/// Answers a line.
pub(crate) fn run(call: &mut Call<'_>, increment: bool) -> Next {
    let key = call.words.next().unwrap_or_default();
    if key.len() > KEY_BYTES_MAX {
        return call.bad_format();
    }
    let Some(by) = call.words.next().and_then(unsigned) else {
        return call.answer(b"CLIENT_ERROR invalid numeric delta argument");
    };
    let silent = call.is_silent();
    let delta = Delta { increment, by, expected: None, create: None, cas: None, expires_at: None };
    let outcome = execute(call.context, key, delta);
    settle(call.context, call.output, key, outcome, move |context, key, outcome, out| {
        count(context, key, &delta, &outcome);
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

/// Returns the answer when nothing was changed.
pub(crate) fn text(outcome: Outcome) -> &'static [u8] {
    match outcome {
        Outcome::NotNumeric => b"CLIENT_ERROR cannot increment or decrement non-numeric value",
        Outcome::NotFound => b"NOT_FOUND",
        Outcome::Exists => b"EXISTS",
        Outcome::NoMemory | Outcome::Changed(_) => b"SERVER_ERROR out of memory",
    }
}
