//! The first command of a connection when users must authenticate: `set KEY 0 0 BYTES` with `USER
//! PASSWORD` as the value. Key, flags and expiry are ignored.

use sandur_base::begins_http_request;

use crate::command_context::CommandContext;
use crate::input::Input;
use crate::next::{Ending, Next};
use crate::output::Output;
use crate::words::{Words, unsigned};

use super::call::next_line;
use super::dispatch::end_http_request;

/// The largest length of user and password in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// If this many bytes arrive without a line end, the connection is closed.
const LINE_BYTES_MAX: usize = 2048;

/// Answers one command of a client that has not authenticated.
pub(crate) fn command(
    authenticated: &mut bool,
    input: &mut Input,
    output: &mut Output,
    context: &CommandContext<'_>,
) -> Option<Next> {
    let unread = input.unread();
    let Some((line, length)) = next_line(unread) else {
        return (unread.len() > LINE_BYTES_MAX).then_some(Next::End(Ending::Error));
    };
    if begins_http_request(line) {
        return Some(end_http_request(context));
    }
    let words: Vec<&[u8]> = Words::new(line).take(5).collect();
    let size = match words.as_slice() {
        [b"set", _, _, _, size] => unsigned(size),
        _ => None,
    };
    let refusal: &[u8] = match size {
        None => b"CLIENT_ERROR unauthenticated",
        Some(size) if size > TOKEN_BYTES_MAX as u64 => {
            output.line(b"CLIENT_ERROR auth token too long");
            // the following bytes are that token
            input.consume(unread.len());
            return Some(Next::Done);
        }
        Some(size) => {
            let whole = length + size as usize + 2;
            let token = unread.get(length..whole)?;
            let answer = check(authenticated, token, context);
            output.line(answer);
            input.consume(whole);
            return Some(Next::Done);
        }
    };
    output.line(refusal);
    input.consume(length);
    Some(Next::Done)
}

fn check(authenticated: &mut bool, token: &[u8], context: &CommandContext<'_>) -> &'static [u8] {
    let Some(token) = token.strip_suffix(b"\r\n") else {
        return b"CLIENT_ERROR bad command line termination";
    };
    let Some(space) = memchr::memchr(b' ', token) else {
        return b"CLIENT_ERROR bad authentication token format";
    };
    context.counters.totals.auth_cmds.add(1);
    if context.server.users.check(&token[..space], &token[space + 1..]) {
        *authenticated = true;
        return b"STORED";
    }
    context.counters.totals.auth_errors.add(1);
    b"CLIENT_ERROR authentication failure"
}
