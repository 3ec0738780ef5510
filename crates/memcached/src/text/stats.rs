//! stats: reports statistics of the server.

use crate::next::Next;
use crate::stats::report;
use crate::words::unsigned;

use super::call::{BAD_FORMAT, Call, ERROR};

/// Number of slab classes of the protocol.
const CLASSES: u64 = 64;
/// The largest answer of `stats cachedump` in bytes.
const DUMP_BYTES_MAX: usize = 2 << 20;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let name = call.words.next().unwrap_or_default();
    match name {
        b"reset" => {
            call.context.server.reset_stats();
            call.answer(b"RESET")
        }
        b"detail" => detail(call),
        b"cachedump" => cachedump(call),
        name => match report(call.context, name) {
            Some(report) => {
                call.output.push(&report.text());
                Next::Done
            }
            None => call.answer(ERROR),
        },
    }
}

fn detail(call: &mut Call<'_>) -> Next {
    if !call.context.settings().dump_allowed {
        return call.answer(b"CLIENT_ERROR stats detail not allowed");
    }
    let prefixes = &call.context.server.prefixes;
    match call.words.next() {
        Some(b"on") => prefixes.turn(true),
        Some(b"off") => prefixes.turn(false),
        Some(b"dump") => {
            call.output.push(&prefixes.dump());
            return Next::Done;
        }
        _ => return call.answer(b"CLIENT_ERROR usage: stats detail on|off|dump"),
    }
    call.answer(b"OK")
}

fn cachedump(call: &mut Call<'_>) -> Next {
    if !call.context.settings().dump_allowed {
        return call.answer(b"CLIENT_ERROR stats cachedump not allowed");
    }
    let (Some(class), Some(limit)) = (call.words.next(), call.words.next()) else {
        return call.answer(b"CLIENT_ERROR bad command line");
    };
    let (Some(class), Some(limit)) = (unsigned(class), unsigned(limit)) else {
        return call.answer(BAD_FORMAT);
    };
    if class >= CLASSES {
        return call.answer(b"CLIENT_ERROR Illegal slab id");
    }
    let (context, mut text, mut shown) = (call.context, Vec::new(), 0);
    context.cache().visit(|key, item| {
        let is_text = key.iter().all(|byte| byte.is_ascii_graphic());
        if is_text && context.class_of(key, item.length, item.flags) as u64 == class {
            text.extend_from_slice(b"ITEM ");
            text.extend_from_slice(key);
            let tail = format!(" [{} b; {} s]\r\n", item.length, item.expires_at);
            text.extend_from_slice(tail.as_bytes());
            shown += 1;
        }
        text.len() < DUMP_BYTES_MAX && (limit == 0 || shown < limit)
    });
    text.extend_from_slice(b"END\r\n");
    call.output.push(&text);
    Next::Done
}
