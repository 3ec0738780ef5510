//! Commands that control the server.
//!
//! `debugtime` and `misbehave` are commands of memcached's debug build, which its test suite needs. They
//! are errors unless the server was started with `-o relaxed_privileges`, an option that only that build
//! has.

use std::time::Duration;

use crate::next::{Ending, Next};
use crate::operations::flush::flush;
use crate::words::{signed, unsigned_32};

use super::call::{Call, ERROR};

/// The highest log level that is stored.
const VERBOSITY_MAX: u32 = 2;

/// `flush_all`: invalidates all items, now or later.
pub(crate) fn flush_all(call: &mut Call<'_>) -> Next {
    call.context.counters.totals.flush_cmds.add(1);
    if !call.context.settings().flush_allowed {
        return call.answer(b"CLIENT_ERROR flush_all not allowed");
    }
    let delay = match call.words.next() {
        None | Some(b"noreply") => Some(0),
        Some(word) => signed(word),
    };
    let Some(delay) = delay else {
        return call.answer(b"CLIENT_ERROR invalid exptime argument");
    };
    flush(call.context, delay);
    call.answer(b"OK")
}

/// `verbosity`: sets the level of the log.
pub(crate) fn verbosity(call: &mut Call<'_>) -> Next {
    let Some(level) = call.words.next().and_then(unsigned_32) else { return call.bad_format() };
    call.context.server.set_verbosity(level.min(VERBOSITY_MAX));
    call.answer(b"OK")
}

/// `shutdown`: stops the server.
pub(crate) fn shutdown(call: &mut Call<'_>) -> Next {
    if !call.context.settings().shutdown_allowed {
        return call.answer(b"SERVER_ERROR: shutdown not enabled");
    }
    match (call.words.next(), call.words.next()) {
        (None, _) => call.context.server.stop(false),
        (Some(b"graceful"), None) => call.context.server.stop(true),
        _ => return call.answer(b"CLIENT_ERROR invalid shutdown mode"),
    }
    Next::End(Ending::Shutdown)
}

/// `cache_memlimit`: changes the memory limit.
pub(crate) fn cache_memlimit(call: &mut Call<'_>) -> Next {
    let answer: &[u8] = match call.words.next().and_then(unsigned_32) {
        None => ERROR,
        Some(..8) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(1_000_000_001..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(megabytes) => {
            call.context.server.set_memory_limit(u64::from(megabytes) << 20);
            b"OK"
        }
    };
    call.answer(answer)
}

/// `refresh_certs`: reads certificates and keys again.
pub(crate) fn refresh_certs(call: &mut Call<'_>) -> Next {
    match call.context.server.refresh_certificates() {
        Ok(()) => call.answer(b"OK"),
        Err(error) => call.answer(format!("ERROR {error}").as_bytes()),
    }
}

/// `debugtime`: moves the server's clock forward.
pub(crate) fn debugtime(call: &mut Call<'_>) -> Next {
    let seconds = call.words.next().and_then(signed).and_then(|seconds| u64::try_from(seconds).ok());
    match seconds.filter(|_| call.context.settings().test_commands) {
        Some(seconds) => {
            call.context.server.turn_clock(Duration::from_secs(seconds));
            call.answer(b"OK")
        }
        None => call.answer(ERROR),
    }
}

/// `misbehave`: ends the connection.
pub(crate) fn misbehave(call: &mut Call<'_>) -> Next {
    if !call.context.settings().test_commands {
        return call.answer(ERROR);
    }
    Next::End(Ending::Error)
}
