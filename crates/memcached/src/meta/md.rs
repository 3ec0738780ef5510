//! md: removes an item, clears its value, or marks it as stale.

use crate::next::Next;
use crate::operations::delete::{Delete, Outcome, count, execute};
use crate::operations::settle;
use crate::text::call::Call;
use crate::words::Words;

use super::flags::Request;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let request = match Request::read(call.words.clone(), call.context.now) {
        Ok(request) => request,
        Err(error) => {
            call.output.line(error);
            return Next::Done;
        }
    };
    let flags = &request.flags;
    call.context.server.prefixes.delete(&request.key);
    let delete = Delete {
        expected: flags.compare,
        mark_stale: flags.has(b'I'),
        empty: flags.has(b'x'),
        expires_at: flags.expires_at,
        flags: flags.client_flags,
        cas: flags.cas,
    };
    let outcome = execute(call.context, &request.key, delete);
    let line: Box<[u8]> = call.line.into();
    settle(call.context, call.output, &request.key, outcome, move |context, key, outcome, out| {
        count(context, key, "md", outcome);
        let mut words = Words::new(&line);
        words.next();
        let Ok(Request { text, flags, .. }) = Request::read(words, context.now) else { return };
        let code: &[u8] = match outcome {
            Outcome::Deleted { .. } | Outcome::Marked if flags.quiet => return,
            Outcome::Deleted { .. } | Outcome::Marked => b"HD",
            Outcome::NotFound => b"NF",
            Outcome::Exists => b"EX",
            Outcome::NoMemory => {
                out.push(b"SERVER_ERROR out of memory\r\n");
                return;
            }
        };
        out.push(code);
        flags.write_echo(text, out);
        out.push(b"\r\n");
    })
}
