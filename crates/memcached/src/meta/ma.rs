//! ma: changes a number.

use crate::command_context::CommandContext;
use crate::next::Next;
use crate::operations::arithmetic::{Changed, Create, Delta, Outcome, count, execute};
use crate::operations::settle;
use crate::output::Bytes;
use crate::text::arithmetic::text as words_of;
use crate::text::call::Call;
use crate::words::{Words, push_number};

use super::flags::{Flags, Request};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let Ok(request) = Request::read(call.words.clone(), call.context.now) else {
        call.output.line(b"CLIENT_ERROR invalid or duplicate flag");
        return Next::Done;
    };
    let flags = &request.flags;
    let increment = match flags.mode {
        None | Some(b'I' | b'i' | b'+') => true,
        Some(b'D' | b'd' | b'-') => false,
        Some(_) => {
            call.output.line(b"CLIENT_ERROR invalid mode for ma M token");
            return Next::Done;
        }
    };
    let delta = Delta {
        increment,
        by: flags.delta,
        expected: flags.compare.filter(|cas| *cas != 0),
        create: flags.vivify.map(|expires_at| Create { initial: flags.initial, expires_at }),
        cas: flags.cas,
        expires_at: flags.expires_at,
    };
    let outcome = execute(call.context, &request.key, delta);
    let line: Box<[u8]> = call.line.into();
    settle(call.context, call.output, &request.key, outcome, move |context, key, outcome, out| {
        count(context, key, &delta, &outcome);
        let mut words = Words::new(&line);
        words.next();
        let Ok(Request { text, flags, .. }) = Request::read(words, context.now) else { return };
        let code: &[u8] = match outcome {
            Outcome::Changed(_) if flags.quiet => return,
            Outcome::Changed(changed) => return write(context, text, &flags, changed, out),
            Outcome::NotFound => b"NF",
            Outcome::Exists => b"EX",
            Outcome::NotNumeric | Outcome::NoMemory => {
                out.push(words_of(outcome));
                out.push(b"\r\n");
                return;
            }
        };
        out.push(code);
        flags.write_echo(text, out);
        out.push(b"\r\n");
    })
}

fn write(context: &CommandContext<'_>, text: &[u8], flags: &Flags<'_>, changed: Changed, out: &mut Bytes) {
    let mut digits = Vec::with_capacity(20);
    push_number(&mut digits, changed.value);
    let out = out.buffer();
    if flags.value {
        out.extend_from_slice(b"VA ");
        push_number(out, digits.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    // `t` before `T` or `N` shows the previous expiry
    let mut expires_at = changed.expired_at;
    for word in flags.words() {
        match word[0] {
            b'T' => expires_at = changed.expires_at,
            b'N' if changed.created => expires_at = changed.expires_at,
            b't' if expires_at == 0 => out.extend_from_slice(b" t-1"),
            b't' => {
                out.extend_from_slice(b" t");
                push_number(out, u64::from(expires_at.saturating_sub(context.now)));
            }
            b'c' => {
                out.extend_from_slice(b" c");
                push_number(out, context.shown_cas(changed.cas));
            }
            _ => flags.write_common(word, text, out),
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.value {
        out.extend_from_slice(&digits);
        out.extend_from_slice(b"\r\n");
    }
}
